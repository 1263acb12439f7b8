package openaitest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// Reply is a response of the endpoint: a stream of events, or an error.
type Reply struct {
	Status int // of an error; 0 streams the events
	Error  Error
	Header http.Header

	Events []Event
	Finish string // "stop", "length", "tool_calls" or "content_filter"; "" follows from the events
	Bare   bool   // chat completions: [DONE] follows the last event directly, without a finish reason and usage
	Usage  Usage  // the zero Usage is 10 in, 5 out
	CRLF   bool   // lines end with CR LF instead of LF
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

// StreamReply returns a Reply that streams events.
func StreamReply(events ...Event) Reply { return Reply{Events: events} }

// ErrorReply returns a Reply with an error.
func ErrorReply(status int, typ, code, message string) Reply {
	return Reply{Status: status, Error: Error{Message: message, Type: typ, Code: code}, Header: http.Header{}}
}

// Busy returns a 429 that requests a delay in seconds.
func Busy(seconds float64) Reply {
	r := ErrorReply(http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "Rate limit reached for requests")
	r.Header.Set("Retry-After", strconv.FormatFloat(seconds, 'f', -1, 64))
	return r
}

// Event is one event of a stream.
type Event interface{ event() }

// The events.
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

	// Calls are calls whose pieces are streamed alternately.
	Calls []Call

	// Wait blocks until the channel is closed or the client has disconnected.
	Wait <-chan struct{}

	// Callback is called when the stream reaches it.
	Callback func()

	// Raw are bytes in the stream.
	Raw string

	// StreamError is an error in the middle of a stream, which it ends.
	StreamError Error

	// Failed is the Responses API's other form of StreamError; in chat completions they are the same.
	Failed Error

	// CloseConnection closes the connection in the middle of the response.
	CloseConnection struct{}

	// EndStream ends the stream in the middle of the response.
	EndStream struct{}
)

func (Text) event()            {}
func (Think) event()           {}
func (Refusal) event()         {}
func (Call) event()            {}
func (Calls) event()           {}
func (Wait) event()            {}
func (Callback) event()        {}
func (Raw) event()             {}
func (StreamError) event()     {}
func (Failed) event()          {}
func (CloseConnection) event() {}
func (EndStream) event()       {}

// Texts returns a text in pieces of random size, split between characters.
func Texts(r *rand.Rand, text string) []Event {
	var events []Event
	for _, piece := range cut(text, 1+r.IntN(8)) {
		events = append(events, Text(piece))
	}
	return events
}

// cut returns text in at most n pieces of about the same size.
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

// wait handles Wait and Callback, which are the same in both APIs. It reports false for other events.
func wait(ctx context.Context, w Event) bool {
	switch w := w.(type) {
	case Wait:
		select {
		case <-w:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	case Callback:
		w()
	default:
		return false
	}
	return true
}
