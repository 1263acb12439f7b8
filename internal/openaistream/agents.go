package openaistream

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// echoes are pieces of the text of a response in two forms, one of which repeats the other: the Agents SDK for TypeScript yields an event of its own for a piece, before
// or after that of the endpoint.
type echoes struct {
	pieces []string // that the other form has not had yet
	own    bool     // they are those of the SDK
}

// Repeats reports whether a piece was returned in the other form, and notes it otherwise.
func (e *echoes) repeats(own bool, piece string) bool {
	switch i := slices.Index(e.pieces, piece); {
	case len(e.pieces) == 0 || e.own == own:
		e.pieces, e.own = append(e.pieces, piece), own
		return false
	case i < 0:
		return false
	default:
		e.pieces = e.pieces[i+1:]
		return true
	}
}

// ReadAgents reads an event of a model of the Agents SDK for TypeScript that is not one of an endpoint: a piece of text, or the end of the response, whose items follow in
// events of their own. The result is valid until the next call.
func (r *Reader) ReadAgents(kind string, o *dialect.Object) []Event {
	r.events = r.events[:0]
	of := o.Object("providerData")
	switch kind {
	case "output_text_delta":
		id := o.Or("itemId", "")
		if piece, ok := o.Text("delta"); ok && !r.echoes.repeats(true, piece) {
			r.streamed(textPart{kind: Text, id: id, index: count(of.Peek("output_index")), content: count(of.Peek("content_index"))}, piece)
		}
	case "response_done":
		response := o.Object("response")
		if u := response.Object("usage"); u != nil && r.Usage == nil {
			r.Usage = agentsUsage(u.All())
		}
		if r.Model == "" {
			r.named(response.Object("providerData"))
		}
		if r.Over = true; r.Finish == "" {
			r.finish(FinishStop)
		}
	}
	if of.Peek("choices") != nil || of.Peek("type") != nil { // the event of the endpoint, which comes too
		o.Get("providerData")
	}
	return r.events
}

// agentsUsage reads the usage of the SDK, whose details are an object or a list with one.
func agentsUsage(u []byte) *Usage {
	detail := func(name, of string) int64 {
		v := rawjson.Get(u, name)
		for first := range rawjson.Elements(v) {
			return count(first, of)
		}
		return count(v, of)
	}
	return &Usage{
		In: count(u, "inputTokens"), Out: count(u, "outputTokens"), Cached: detail("inputTokensDetails", "cached_tokens"),
		Written: detail("inputTokensDetails", "cache_write_tokens"), Reasoning: detail("outputTokensDetails", "reasoning_tokens"),
	}
}

// itemIndex is that of items of the Agents SDK, whose index is not known.
const itemIndex = 1 << 32

// ReadItem reads a complete item of a response: only what no event of it had. The result is valid until the next call. It reports false if it does not know the type
// of the item; then nothing has changed.
func (r *Reader) ReadItem(item *dialect.Object) ([]Event, bool) {
	r.events = r.events[:0]
	if !slices.Contains([]string{"message", "reasoning", "image_generation_call", "mcp_call", "function_call", "custom_tool_call"}, item.PeekText("type")) {
		return nil, false
	}
	r.items++
	r.item(item, itemIndex+r.items, true)
	for _, c := range r.custom { // the SDK runs them
		r.complete(c)
	}
	r.custom = nil
	if n := len(r.events); n > 0 && r.events[n-1].Kind == Reasoning {
		r.add(Event{Kind: ReasoningEnd})
	}
	return r.events, true
}

// CallArguments returns the arguments of a call of the Agents SDK: those in its member, JSON in a string or an object, and an empty object for others.
func CallArguments(item *dialect.Object) chunk.Value {
	v := item.Peek("arguments")
	if s, ok := dialect.Text(v); ok {
		v = chunk.Value(rawjson.TrimSpace([]byte(s)))
	}
	checked, err := dialect.CheckValue(v)
	if err != nil {
		return dialect.Arguments(nil)
	}
	item.Get("arguments")
	return dialect.Arguments(checked)
}
