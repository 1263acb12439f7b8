package openaistream

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
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
	Source                   // Value is an annotation
	File                     // URL and MediaType are of an image
	Unknown                  // Value is an event of a type that is not read here
)

// Event is a part of a response.
type Event struct {
	Kind           Kind
	Text           string
	Call           *Call
	Value          []byte // part of the data
	URL, MediaType string
}

// Call is a tool call of the model.
type Call struct {
	ID, Name string // "" while the stream has not named them
	Index    int    // among the calls of the response

	args    strings.Builder
	started bool // an Arguments event was returned
	done    bool
}

// Arguments returns the JSON text of the arguments so far.
func (c *Call) Arguments() string { return c.args.String() }

// Streamed reports whether a piece of the arguments was returned.
func (c *Call) Streamed() bool { return c.started }

// Overlong reports whether the arguments exceed MaxArguments.
func (c *Call) Overlong() bool { return c.args.Len() > MaxArguments }

// Usage has the tokens of a response.
type Usage struct{ In, Out, Cached, Written int64 }

// Reader reads one response. It finds out from the data which of the APIs it is of.
type Reader struct {
	Calls   []*Call // in the order of their first piece
	Finish  string  // "" until the response is complete
	Usage   *Usage  // nil if it is not known
	Failure *Error  // the response failed
	Over    bool    // nothing follows that belongs to the response

	id      string // of the last chunk of chat completions
	created bool   // response.created was read
	output  bool   // the response has text
	byIndex map[int64]*Call
	events  []Event
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
	if e, ok := errorIn(data); ok {
		r.fail(e)
		return r.events, nil
	}
	kind, choices := text(data, "type"), rawjson.Get(data, "choices")
	switch {
	case rawjson.Kind(choices) == '[' || text(data, "object") == "chat.completion.chunk":
		r.chat(data, choices)
	case kind == "error":
		r.fail(Error{Message: text(data, "message"), Code: readError(data).Code})
	default:
		r.response(kind, data)
	}
	return r.events, nil
}

// Begins reports whether valid data is of another response than what was read: an agent sends those of all its requests to a model.
func (r *Reader) Begins(data []byte) bool {
	if text(data, "type") == "response.created" {
		return r.created || r.Finish != "" || r.Failure != nil
	}
	id := text(data, "id")
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
	case len(r.Calls) > 0:
		r.finish(FinishCalls)
	case r.output:
		r.finish(FinishStop)
	}
}

func (r *Reader) finish(reason string) {
	r.Finish = reason
	for _, c := range r.Calls {
		r.complete(c)
	}
}

func (r *Reader) chat(data, choices []byte) {
	r.id = text(data, "id")
	if u := rawjson.Get(data, "usage"); isObject(u) { // cumulative: some servers send it with every piece
		r.Usage = &Usage{
			In: count(u, "prompt_tokens"), Out: count(u, "completion_tokens"),
			Cached: count(u, "prompt_tokens_details", "cached_tokens"), Written: count(u, "prompt_tokens_details", "cache_write_tokens"),
		}
	}
	for choice := range rawjson.Elements(choices) {
		if count(choice, "index") != 0 {
			continue // one of several answers
		}
		r.delta(rawjson.Get(choice, "delta"))
		if reason := text(choice, "finish_reason"); reason == "error" {
			r.fail(Error{Message: "finish_reason error"})
		} else if reason != "" {
			r.finish(chatFinish(reason))
		}
	}
}

func chatFinish(reason string) string {
	switch reason {
	case "stop":
		return FinishStop
	case "length":
		return FinishLength
	case "tool_calls", "function_call":
		return FinishCalls
	case "content_filter":
		return FinishFiltered
	}
	return FinishOther
}

func (r *Reader) delta(delta []byte) {
	// The API does not define reasoning; servers use two names, and some of them both.
	reasoning := text(delta, "reasoning_content")
	if reasoning == "" {
		reasoning = text(delta, "reasoning")
	}
	r.piece(Reasoning, reasoning)
	r.piece(Text, text(delta, "content"))
	r.piece(Text, text(delta, "refusal"))
	position := int64(0)
	for t := range rawjson.Elements(rawjson.Get(delta, "tool_calls")) {
		index := position
		if v := rawjson.Get(t, "index"); v != nil {
			index = count(t, "index")
		}
		position++
		r.arguments(r.call(index, text(t, "id"), text(t, "function", "name")), text(t, "function", "arguments"))
	}
	for a := range rawjson.Elements(rawjson.Get(delta, "annotations")) {
		r.add(Event{Kind: Source, Value: a})
	}
	for image := range rawjson.Elements(rawjson.Get(delta, "images")) { // of compatible servers
		r.image(text(image, "image_url", "url"))
	}
}

func (r *Reader) image(url string) {
	if url == "" {
		return
	}
	mediaType := "image/*"
	if head, _, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";"); ok && strings.HasPrefix(head, "image/") {
		mediaType = head
	}
	r.add(Event{Kind: File, URL: url, MediaType: mediaType})
}

func (r *Reader) response(kind string, data []byte) {
	switch kind {
	case "response.created":
		r.created = true
	case "response.in_progress", "response.queued":
	case "response.output_text.delta", "response.refusal.delta":
		r.piece(Text, text(data, "delta"))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.piece(Reasoning, text(data, "delta"))
	case "response.reasoning_summary_part.done", "response.reasoning_text.done":
		r.add(Event{Kind: ReasoningEnd})
	case "response.output_text.annotation.added":
		r.add(Event{Kind: Source, Value: rawjson.Get(data, "annotation")})
	case "response.output_item.added":
		r.itemAdded(data)
	case "response.output_item.done":
		r.itemDone(data)
	case "response.function_call_arguments.delta":
		r.arguments(r.call(count(data, "output_index"), "", ""), text(data, "delta"))
	case "response.function_call_arguments.done":
		r.completeArguments(r.call(count(data, "output_index"), "", ""), text(data, "arguments"))
	case "response.completed", "response.incomplete", "response.failed":
		r.terminal(kind, rawjson.Get(data, "response"))
	case "response.output_text.done", "response.refusal.done", "response.content_part.added", "response.content_part.done",
		"response.reasoning_summary_part.added", "response.reasoning_summary_text.done",
		"response.image_generation_call.in_progress", "response.image_generation_call.generating", "response.image_generation_call.partial_image",
		"response.image_generation_call.completed", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
		"response.mcp_call_arguments.delta", "response.mcp_call_arguments.done":
		// without content, or repeated by another event
	default:
		r.add(Event{Kind: Unknown, Value: data})
	}
}

func (r *Reader) itemAdded(data []byte) {
	item := rawjson.Get(data, "item")
	switch text(item, "type") {
	case "function_call", "custom_tool_call":
		r.call(count(data, "output_index"), text(item, "call_id"), text(item, "name"))
	case "message", "reasoning", "image_generation_call", "mcp_call":
	default:
		r.add(Event{Kind: Unknown, Value: data})
	}
}

func (r *Reader) itemDone(data []byte) {
	item := rawjson.Get(data, "item")
	switch text(item, "type") {
	case "function_call":
		c := r.call(count(data, "output_index"), text(item, "call_id"), text(item, "name"))
		r.completeArguments(c, text(item, "arguments"))
		r.complete(c)
	case "custom_tool_call": // its input is a text
		c := r.call(count(data, "output_index"), text(item, "call_id"), text(item, "name"))
		input, _ := rawjson.AppendQuotedChunk([]byte(`{"input":`), text(item, "input"))
		r.completeArguments(c, string(append(input, '}')))
		r.complete(c)
	case "image_generation_call":
		if image := text(item, "result"); image != "" {
			mediaType := "image/" + or(text(item, "output_format"), "png")
			r.add(Event{Kind: File, URL: "data:" + mediaType + ";base64," + image, MediaType: mediaType})
		}
	case "mcp_call":
		r.add(Event{Kind: ServerCall, Value: item})
	case "message", "reasoning":
	default:
		r.add(Event{Kind: Unknown, Value: data})
	}
}

func (r *Reader) terminal(kind string, response []byte) {
	if u := rawjson.Get(response, "usage"); isObject(u) {
		r.Usage = &Usage{
			In: count(u, "input_tokens"), Out: count(u, "output_tokens"),
			Cached: count(u, "input_tokens_details", "cached_tokens"), Written: count(u, "input_tokens_details", "cache_write_tokens"),
		}
	}
	r.Over = true
	switch {
	case kind == "response.failed":
		r.fail(readError(rawjson.Get(response, "error")))
	case kind == "response.incomplete":
		r.finish(incomplete(text(response, "incomplete_details", "reason")))
	case len(r.Calls) > 0:
		r.finish(FinishCalls)
	default:
		r.finish(FinishStop)
	}
}

func incomplete(reason string) string {
	switch reason {
	case "max_output_tokens", "max_tokens":
		return FinishLength
	case "content_filter":
		return FinishFiltered
	}
	return FinishOther
}

// call returns the call at an index, with its id and name if they are known. An index with another id and a name is another call: some servers use one index for
// all calls.
func (r *Reader) call(index int64, id, name string) *Call {
	c := r.byIndex[index]
	if c == nil || id != "" && c.ID != "" && id != c.ID && name != "" {
		c = &Call{Index: len(r.Calls)}
		if r.byIndex == nil {
			r.byIndex = map[int64]*Call{}
		}
		r.Calls, r.byIndex[index] = append(r.Calls, c), c
	}
	if c.ID == "" && !c.started {
		c.ID = id
	}
	if c.Name == "" {
		c.Name = name
	}
	return c
}

// arguments adds a piece of a call's arguments. Those before the name are held back.
func (r *Reader) arguments(c *Call, piece string) {
	if piece == "" || c.done || c.Overlong() {
		return
	}
	c.append(piece)
	if c.Name == "" {
		return
	}
	if !c.started {
		piece = c.args.String()
	}
	c.started = true
	r.add(Event{Kind: Arguments, Call: c, Text: piece})
}

// append joins pieces that a server has cut within a character.
func (c *Call) append(piece string) {
	if rawjson.SurrogateAt(piece) != 0 {
		whole := chunk.Concat(c.args.String(), piece)
		c.args.Reset()
		piece = whole
	}
	c.args.WriteString(piece)
}

// completeArguments adds what is missing of the complete arguments.
func (r *Reader) completeArguments(c *Call, args string) {
	rest, ok := strings.CutPrefix(args, c.args.String())
	switch {
	case c.done:
	case ok:
		r.arguments(c, rest)
	default: // they differ from the pieces; they are used for the call
		c.args.Reset()
		c.args.WriteString(args)
	}
}

func (r *Reader) complete(c *Call) {
	if !c.done {
		c.done = true
		r.add(Event{Kind: CallDone, Call: c})
	}
}

// piece adds a piece of text.
func (r *Reader) piece(kind Kind, piece string) {
	if piece != "" {
		r.output = true
		r.add(Event{Kind: kind, Text: piece})
	}
}

func (r *Reader) add(e Event) { r.events = append(r.events, e) }

func isObject(v []byte) bool { return rawjson.Kind(v) == '{' }

func str(v []byte) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}

// text returns the string at a path, "" for another value.
func text(v []byte, path ...string) string {
	s, _ := str(rawjson.Get(v, path...))
	return s
}

// count returns the number at a path, 0 for another value. Negative counts are a server's mistake.
func count(v []byte, path ...string) int64 {
	n, err := strconv.ParseFloat(string(rawjson.Get(v, path...)), 64)
	if err != nil {
		return 0
	}
	return int64(max(0, min(n, chunk.MaxInteger)))
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
