package openaitest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// Reply is what the endpoint answers: words, or an error instead.
type Reply struct {
	Status int // of an error; 0 streams the words
	Error  Error
	Header http.Header

	Words  []Word
	Finish string // "stop", "length", "tool_calls" or "content_filter"; "" is what the words are
	Usage  Usage  // the zero Usage is 10 in, 5 out
	CRLF   bool   // lines end with both
	Nulls  bool   // every event has "error": null, as some servers write it
}

// Usage counts tokens.
type Usage struct{ In, Out, Cached int }

func (u Usage) orDefault() Usage {
	if u == (Usage{}) {
		return Usage{In: 10, Out: 5}
	}
	return u
}

// Error is an error of the API.
type Error struct{ Message, Type, Code string }

func (p Error) members() map[string]any {
	m := map[string]any{"message": p.Message, "type": p.Type, "param": nil, "code": nil}
	if p.Code != "" {
		m["code"] = p.Code
	}
	return m
}

// Say is a Reply of words.
func Say(words ...Word) Reply { return Reply{Words: words} }

// Refuse is a Reply with an error.
func Refuse(status int, typ, code, message string) Reply {
	return Reply{Status: status, Error: Error{Message: message, Type: typ, Code: code}, Header: http.Header{}}
}

// Busy is the 429 that asks for a pause of some seconds.
func Busy(seconds float64) Reply {
	r := Refuse(http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "Rate limit reached for requests")
	r.Header.Set("Retry-After", strconv.FormatFloat(seconds, 'f', -1, 64))
	return r
}

// Word is one thing that happens in a stream.
type Word interface{ word() }

// What can happen.
type (
	// Text is a piece of the answer.
	Text string

	// Think is a piece of reasoning.
	Think string

	// Refusal is a piece of a refusal.
	Refusal string

	// Call is a call of a tool, its arguments in Pieces.
	Call struct {
		ID, Name, Args string
		Pieces         int // 0 is 1
	}

	// Calls are calls whose pieces come in turns.
	Calls []Call

	// Wait says nothing until the channel is closed, or the client gone.
	Wait <-chan struct{}

	// Do is called when the stream gets there.
	Do func()

	// Raw are bytes in the stream.
	Raw string

	// Break is an error in mid-stream, after which nothing comes.
	Break Error

	// Failed is the Responses API's other way to say Break; in chat completions
	// it is the same.
	Failed Error

	// Cut ends the connection before the answer is whole.
	Cut struct{}

	// End ends the stream before the answer is whole.
	End struct{}
)

func (Text) word()    {}
func (Think) word()   {}
func (Refusal) word() {}
func (Call) word()    {}
func (Calls) word()   {}
func (Wait) word()    {}
func (Do) word()      {}
func (Raw) word()     {}
func (Break) word()   {}
func (Failed) word()  {}
func (Cut) word()     {}
func (End) word()     {}

// Texts is a text in pieces of random size, cut between characters as models do.
func Texts(r *rand.Rand, text string) []Word {
	var words []Word
	for _, piece := range cut(text, 1+r.IntN(8)) {
		words = append(words, Text(piece))
	}
	return words
}

// cut is text in at most n pieces of about the same size.
func cut(text string, n int) []string {
	var pieces []string
	for n = max(1, n); len(text) > 0; n-- {
		end := len(text)
		if n > 1 {
			end = max(1, len(text)/n)
		}
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		pieces = append(pieces, text[:end])
		text = text[end:]
	}
	return pieces
}

// wait does Wait and Do, which are the same in both APIs; false for other words.
func pass(ctx context.Context, w Word) bool {
	switch w := w.(type) {
	case Wait:
		select {
		case <-w:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	case Do:
		w()
	default:
		return false
	}
	return true
}
