package openaitest

import (
	"context"
	"fmt"
	"net/http"
)

// streamResponses streams the events of the Responses API: response.created,
// response.in_progress, the output items one after the other, each from its
// output_item.added to its output_item.done, and response.completed or
// response.incomplete with all of it.
func streamResponses(ctx context.Context, out *writer, req Request, reply Reply) {
	s := &responsesStream{out: out, req: req}
	s.event("response.created", map[string]any{"response": s.response("in_progress", nil)})
	s.event("response.in_progress", map[string]any{"response": s.response("in_progress", nil)})
	for _, w := range reply.Events {
		if !wait(ctx, w) && !s.write(w) {
			return
		}
	}
	s.close()
	status, kind := "completed", "response.completed"
	var details any
	switch reply.Finish {
	case "length":
		status, kind, details = "incomplete", "response.incomplete", map[string]any{"reason": "max_output_tokens"}
	case "content_filter":
		status, kind, details = "incomplete", "response.incomplete", map[string]any{"reason": "content_filter"}
	}
	r := s.response(status, details)
	u := reply.Usage.orDefault()
	r["usage"] = map[string]any{
		"input_tokens": u.In, "input_tokens_details": map[string]any{"cached_tokens": u.Cached, "cache_write_tokens": 0},
		"output_tokens": u.Out, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": u.In + u.Out,
	}
	s.event(kind, map[string]any{"response": r})
}

type responsesStream struct {
	out    *writer
	req    Request
	seq    int
	output []any     // the complete items, with a place for the open one
	open   *openItem // nil if none
}

// openItem is a message or a reasoning item that is being streamed.
type openItem struct {
	kind  string // "output_text", "refusal" or "summary_text"
	id    string
	index int
	text  string
}

func (s *responsesStream) write(w Event) bool {
	switch w := w.(type) {
	case Text:
		s.part("output_text", "response.output_text.delta", string(w))
	case Refusal:
		s.part("refusal", "response.refusal.delta", string(w))
	case Think:
		s.part("summary_text", "response.reasoning_summary_text.delta", string(w))
	case Call:
		s.callAll([]Call{w})
	case Calls:
		s.callAll(w)
	case Raw:
		s.out.raw(string(w))
	case StreamError:
		s.event("error", map[string]any{"code": orNil(w.Code), "message": w.Message, "param": nil})
		return false
	case Failed:
		r := s.response("failed", nil)
		r["error"] = map[string]any{"code": w.Code, "message": w.Message}
		s.event("response.failed", map[string]any{"response": r})
		return false
	case CloseConnection:
		panic(http.ErrAbortHandler)
	case EndStream:
		return false
	}
	return true
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// part streams a piece of an item of its kind, and opens an item if none is open.
func (s *responsesStream) part(kind, delta, piece string) {
	if s.open == nil || s.open.kind != kind {
		s.close()
		s.begin(kind)
	}
	o := s.open
	o.text += piece
	s.event(delta, o.locate(map[string]any{"delta": piece}))
}

// locate adds the position of an event in the output.
func (o *openItem) locate(m map[string]any) map[string]any {
	m["item_id"], m["output_index"] = o.id, o.index
	if o.kind == "summary_text" {
		m["summary_index"] = 0
	} else {
		m["content_index"] = 0
	}
	if m["delta"] != nil && o.kind == "output_text" {
		m["logprobs"] = []any{}
	}
	return m
}

func (o *openItem) part() map[string]any {
	switch o.kind {
	case "refusal":
		return map[string]any{"type": "refusal", "refusal": o.text}
	case "summary_text":
		return map[string]any{"type": "summary_text", "text": o.text}
	}
	return map[string]any{"type": "output_text", "text": o.text, "annotations": []any{}, "logprobs": []any{}}
}

func (o *openItem) item(status string, parts []any) map[string]any {
	if o.kind == "summary_text" {
		return map[string]any{"id": o.id, "type": "reasoning", "summary": parts}
	}
	return map[string]any{"id": o.id, "type": "message", "status": status, "role": "assistant", "content": parts}
}

func (s *responsesStream) begin(kind string) {
	o := &openItem{kind: kind, index: len(s.output), id: fmt.Sprintf("msg_%d_%d", s.req.N, len(s.output))}
	added := "response.content_part.added"
	if kind == "summary_text" {
		o.id, added = fmt.Sprintf("rs_%d_%d", s.req.N, o.index), "response.reasoning_summary_part.added"
	}
	s.open, s.output = o, append(s.output, nil)
	s.event("response.output_item.added", map[string]any{"output_index": o.index, "item": o.item("in_progress", []any{})})
	s.event(added, o.locate(map[string]any{"part": o.part()}))
}

// close ends the open item, if any.
func (s *responsesStream) close() {
	o := s.open
	if o == nil {
		return
	}
	s.open = nil
	switch o.kind {
	case "output_text":
		s.event("response.output_text.done", o.locate(map[string]any{"text": o.text, "logprobs": []any{}}))
		s.event("response.content_part.done", o.locate(map[string]any{"part": o.part()}))
	case "refusal":
		s.event("response.refusal.done", o.locate(map[string]any{"refusal": o.text}))
		s.event("response.content_part.done", o.locate(map[string]any{"part": o.part()}))
	default:
		s.event("response.reasoning_summary_text.done", o.locate(map[string]any{"text": o.text}))
		s.event("response.reasoning_summary_part.done", o.locate(map[string]any{"part": o.part()}))
	}
	item := o.item("completed", []any{o.part()})
	s.output[o.index] = item
	s.event("response.output_item.done", map[string]any{"output_index": o.index, "item": item})
}

func (s *responsesStream) callAll(calls []Call) {
	s.close()
	first := len(s.output)
	item := func(i int, status, args string) map[string]any {
		return map[string]any{"id": fmt.Sprintf("fc_%d_%d", s.req.N, first+i), "type": "function_call", "status": status, "call_id": calls[i].ID, "name": calls[i].Name, "arguments": args}
	}
	pieces := make([][]string, len(calls))
	for i, call := range calls {
		pieces[i] = cut(call.Args, call.Pieces)
		s.output = append(s.output, item(i, "completed", call.Args))
		s.event("response.output_item.added", map[string]any{"output_index": first + i, "item": item(i, "in_progress", "")})
	}
	for more := true; more; {
		more = false
		for i := range calls {
			if len(pieces[i]) == 0 {
				continue
			}
			more = true
			s.event("response.function_call_arguments.delta", map[string]any{"item_id": item(i, "", "")["id"], "output_index": first + i, "delta": pieces[i][0]})
			pieces[i] = pieces[i][1:]
		}
	}
	for i, call := range calls {
		s.event("response.function_call_arguments.done", map[string]any{"item_id": item(i, "", "")["id"], "name": call.Name, "output_index": first + i, "arguments": call.Args})
		s.event("response.output_item.done", map[string]any{"output_index": first + i, "item": item(i, "completed", call.Args)})
	}
}

func (s *responsesStream) event(kind string, members map[string]any) {
	members["type"], members["sequence_number"] = kind, s.seq
	s.seq++
	s.out.frame(kind, mustJSON(members))
}

func (s *responsesStream) response(status string, incomplete any) map[string]any {
	output := []any{}
	if status != "in_progress" {
		for _, item := range s.output {
			if item != nil {
				output = append(output, item)
			}
		}
	}
	return map[string]any{
		"id": fmt.Sprintf("resp_%d", s.req.N), "object": "response", "created_at": 1700000000, "status": status, "error": nil,
		"incomplete_details": incomplete, "instructions": orNil(s.req.System), "max_output_tokens": nil, "model": s.req.Model, "output": output,
		"parallel_tool_calls": true, "previous_response_id": nil, "reasoning": map[string]any{"effort": nil, "summary": nil}, "store": false,
		"temperature": 1.0, "text": map[string]any{"format": map[string]any{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": 1.0,
		"truncation": "disabled", "usage": nil, "user": nil, "metadata": map[string]any{},
	}
}
