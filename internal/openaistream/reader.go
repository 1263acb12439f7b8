package openaistream

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The finish reasons, in the terms of the log.
const (
	FinishStop     = "stop"
	FinishLength   = "length"
	FinishCalls    = "tool-calls"
	FinishFiltered = "content-filter"
	FinishOther    = "other"
)

// MaxArguments is the number of bytes after which the arguments of a call are not read further. It leaves space for the other members of a chunk.
const MaxArguments = 256 << 10

// maxLevels limits the nesting of an event. The last one repeats the request, and only its usage is read.
const maxLevels = 10_000

// ErrMalformed reports data that is not a JSON object.
var ErrMalformed = errors.New("malformed event, want a JSON object")

// Kind is the kind of an Event.
type Kind int

// The kinds of events.
const (
	Text         Kind = iota // Text is a piece of the answer, or of a refusal
	Reasoning                // Text is a piece of reasoning
	ReasoningEnd             // a block of reasoning is complete
	Arguments                // Text is a piece of the arguments of Call, of which Name is known
	CallDone                 // Call is complete
	ServerCall               // Value is the item of a call that the endpoint has executed (MCP)
	Other                    // Body is a source, an image, or a custom event with what is not read here
)

// Event is a part of a response.
type Event struct {
	Kind  Kind
	Text  string
	Call  *Call
	Value []byte // part of the data
	Body  chunk.Body

	// State is an object that the endpoint wants back with the text, the reasoning or the call in later requests, nil for none. It is not for users.
	State chunk.Value
}

// Call is a tool call of the model.
type Call struct {
	ID, Name string // "" while the stream has not named them
	Index    int    // among the calls of the response
	Provider bool   // the endpoint has run it

	// State is that of Event.
	State chunk.Value

	args     strings.Builder
	input    strings.Builder // of a custom call, which is not JSON
	shares   bool            // another call has its index
	replaced bool            // its pieces are not its arguments
	started  bool            // an Arguments event was returned
	done     bool
}

// Arguments returns the JSON text of the arguments so far.
func (c *Call) Arguments() string { return c.args.String() }

// Streamed reports whether a piece of the arguments was returned.
func (c *Call) Streamed() bool { return c.started }

// Replaced reports whether the pieces that were returned are not the arguments.
func (c *Call) Replaced() bool { return c.replaced || !c.started }

// Overlong reports whether the arguments exceed MaxArguments.
func (c *Call) Overlong() bool { return c.args.Len() > MaxArguments }

// Reader reads one response. It finds out from the data which of the APIs it is of.
type Reader struct {
	Calls   []*Call // in the order of their first piece
	Finish  string  // "" until the response is complete
	Usage   *Usage  // nil if it is not known
	Model   string  // that the server names, "" for none
	Failure *Error  // the response failed
	Step    int64   // in the ids of sources
	Over    bool    // nothing follows that belongs to the response

	id      string // of the last chunk of chat completions
	created bool   // response.created was read
	output  bool   // the response has text
	byIndex map[int64]*Call
	custom  []*Call         // complete custom calls: a message behind them shows that the endpoint has run them
	texts   []*textPart     // of the Responses API
	seen    map[string]bool // values of which an event was returned
	states  []*stateList
	sources int
	thought bool // an end of reasoning waits
	rests   dialect.Rests
	events  []Event

	Twice  bool // the pieces of a text may come in two forms, see ReadAgents
	echoes echoes
	items  int64 // that came in events of their own
}

// Read reads the data of one server-sent event, also [DONE]. The result is valid until the next call. The error is ErrMalformed, and then nothing has changed.
func (r *Reader) Read(data []byte) ([]Event, error) {
	data = rawjson.TrimSpace(data)
	r.events = r.events[:0]
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		r.done()
		return r.events, nil
	}
	if _, ok := rawjson.Scan(data, rawjson.Limits{Levels: maxLevels}); !ok || data[0] != '{' {
		return nil, ErrMalformed
	}
	o := dialect.Read(data)
	kind := o.Or("type", "")
	if e, ok := errorIn(data); ok {
		r.fail(e)
	} else if choices := o.Peek("choices"); rawjson.Kind(choices) == '[' || dialect.TextAt(data, "object") == "chat.completion.chunk" {
		r.chat(o)
	} else if kind == "error" {
		r.fail(Error{Message: dialect.TextAt(data, "message"), Code: readError(data).Code})
	} else {
		r.response(kind, o)
	}
	if rest := r.rests.Of(o, kind, leftOut); rest != nil {
		r.add(Event{Kind: Other, Body: Custom(dialect.RestEvent, rest)})
	}
	return r.events, nil
}

// Close returns what has come of a response that has ended, and that no event has: after the reason for the end, or without one.
func (r *Reader) Close() []Event {
	r.events = r.events[:0]
	if r.Finish != "" {
		r.finish(r.Finish)
	}
	r.flushStates()
	for _, c := range r.Calls {
		if !c.done && c.State != nil {
			r.add(Event{Kind: ReasoningEnd, State: c.State})
		}
		if c.done || c.started && c.input.Len() == 0 && !c.replaced {
			continue
		}
		o := rawjson.Begin(nil)
		o.String("id", c.ID)
		o.String("name", c.Name)
		o.String("arguments", c.args.String()+c.input.String())
		r.add(Event{Kind: Other, Body: Custom("call", o.End())})
	}
	if r.thought {
		r.thought = false
		r.events = append(r.events, Event{Kind: ReasoningEnd})
	}
	return r.events
}

// Begins reports whether valid data is of another response than what was read: an agent sends those of all its requests to a model.
func (r *Reader) Begins(data []byte) bool {
	if dialect.TextAt(data, "type") == "response.created" {
		return r.created || r.Finish != "" || r.Failure != nil
	}
	id := dialect.TextAt(data, "id")
	for range rawjson.Elements(rawjson.Get(data, "choices")) {
		// Some servers have another id in each chunk.
		return r.Failure != nil || r.Finish != "" && id != "" && id != r.id
	}
	return false
}

// fail records an error, also one after the reason for the end: of two ends the worse one counts.
func (r *Reader) fail(e Error) {
	if r.Failure == nil {
		r.Failure = &e
	}
	r.Over = true
}

// done handles [DONE]. Some servers name no reason for the end.
func (r *Reader) done() {
	r.Over = true
	switch {
	case r.Finish != "" || r.Failure != nil:
	case r.output || len(r.Calls) > 0:
		r.finish(FinishStop)
	}
}

// finish records the reason for the end. A response with a call that the endpoint has not run ends for it.
func (r *Reader) finish(reason string) {
	r.flushStates()
	for _, c := range r.Calls {
		r.complete(c)
		if !c.Provider && reason == FinishStop {
			reason = FinishCalls
		}
	}
	r.Finish = reason
}

// call returns the call at an index, with its id and name if they are known. An index with another id and a name is another call: some servers use one index for
// all calls.
func (r *Reader) call(index int64, id, name string) *Call {
	c := r.byIndex[index]
	if c == nil || id != "" && c.ID != "" && id != c.ID && name != "" {
		c = &Call{Index: len(r.Calls), shares: c != nil}
		if r.byIndex == nil {
			r.byIndex = map[int64]*Call{}
		}
		r.Calls, r.byIndex[index] = append(r.Calls, c), c
	}
	if c.ID == "" && !c.started && !c.done {
		c.ID = id
	}
	if c.Name == "" && !c.done {
		c.Name = name
	}
	return c
}

// named reads the id and the name of a call, which has others if it was known by them.
func (c *Call) named(o *dialect.Object, id, name string) {
	if o.Or(id, c.ID) != c.ID {
		o.Unread(id)
	}
	if o.Or(name, c.Name) != c.Name {
		o.Unread(name)
	}
}

// arguments adds a piece of a call's arguments, or reports that the call does not take it. Those before the name are held back.
func (r *Reader) arguments(c *Call, piece string) bool {
	if piece == "" || c.done || c.Overlong() {
		return piece == ""
	}
	c.append(piece)
	if c.Name == "" {
		return true
	}
	if !c.started {
		piece = c.args.String()
	}
	c.started = true
	r.add(Event{Kind: Arguments, Call: c, Text: piece})
	return true
}

func (c *Call) append(piece string) { appendText(&c.args, piece) }

// appendText joins pieces that a server has cut within a character.
func appendText(b *strings.Builder, piece string) {
	if rawjson.SurrogateAt(piece) != 0 {
		whole := chunk.Concat(b.String(), piece)
		b.Reset()
		piece = whole
	}
	b.WriteString(piece)
}

// completeArguments adds what is missing of the complete arguments, or reports that the call does not take them.
func (r *Reader) completeArguments(c *Call, args string) bool {
	rest, ok := strings.CutPrefix(args, c.args.String())
	switch {
	case c.done:
		return ok && rest == ""
	case ok:
		return r.arguments(c, rest)
	}
	r.replace(c, &c.args, args) // they differ from the pieces; they are used for the call
	return true
}

// replace replaces what has come of a call. Pieces that no event has are kept.
func (r *Reader) replace(c *Call, b *strings.Builder, text string) {
	if old, err := chunk.ValueOf(b.String()); err == nil && b.Len() > 0 && b.String() != text && (!c.started || c.replaced) {
		r.add(Event{Kind: Other, Body: Custom("arguments", state("arguments", old))})
	}
	c.replaced = true
	b.Reset()
	b.WriteString(text)
}

func (r *Reader) complete(c *Call) {
	if !c.done {
		if c.input.Len() > 0 {
			input, _ := rawjson.AppendQuotedChunk([]byte(`{"input":`), c.input.String())
			r.completeArguments(c, string(append(input, '}')))
		}
		c.done = true
		r.add(Event{Kind: CallDone, Call: c})
	}
}

// piece adds a piece of text.
func (r *Reader) piece(kind Kind, piece string) {
	if piece != "" {
		r.output = true
		if kind == Text {
			r.flushStates()
		}
		r.add(Event{Kind: kind, Text: piece})
	}
}

// add returns an event. The end of reasoning waits for the next one, which may be the end with what the endpoint wants back.
func (r *Reader) add(e Event) {
	if r.thought && e.Kind != ReasoningEnd {
		r.events = append(r.events, Event{Kind: ReasoningEnd})
	}
	r.thought = e.Kind == ReasoningEnd && e.State == nil
	if !r.thought {
		r.events = append(r.events, e)
	}
}

// once reports whether no event was returned of a value so far.
func (r *Reader) once(v chunk.Value) bool {
	if r.seen[string(v)] {
		return false
	}
	if r.seen == nil {
		r.seen = make(map[string]bool)
	}
	r.seen[string(v)] = true
	return true
}

// named reads the model of a response. A name that step_end cannot hold is left out.
func (r *Reader) named(o *dialect.Object) {
	if m := chunk.LabelOf(o.Or("model", "")); m != nil {
		r.Model = *m
	}
}

func isObject(v []byte) bool { return rawjson.Kind(v) == '{' }

// count returns the number at a path, 0 for another value. Negative counts are a server's mistake.
func count(v []byte, path ...string) int64 {
	n, err := strconv.ParseFloat(string(rawjson.Get(v, path...)), 64)
	if err != nil {
		return 0
	}
	return int64(max(0, min(n, chunk.MaxInteger)))
}
