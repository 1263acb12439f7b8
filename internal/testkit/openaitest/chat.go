package openaitest

import (
	"context"
	"net/http"
	"strconv"
)

// streamChat streams chat.completion.chunk objects: the role first, then deltas, then an empty delta with the
// finish reason, then a chunk without choices that has the usage, then [DONE].
func streamChat(ctx context.Context, out *writer, req Request, reply Reply) {
	c := &chatStream{out: out, req: req}
	c.chunk(map[string]any{"role": "assistant", "content": "", "refusal": nil}, nil)
	for _, w := range reply.Events {
		if !wait(ctx, w) && !c.write(w) {
			return
		}
	}
	if reply.Bare {
		out.frame("", []byte("[DONE]"))
		return
	}
	finish := reply.Finish
	if finish == "" {
		finish = "stop"
		if c.calls > 0 {
			finish = "tool_calls"
		}
	}
	c.chunk(map[string]any{}, finish)
	u := reply.Usage.orDefault()
	last := c.object([]any{})
	last["usage"] = map[string]any{
		"prompt_tokens": u.In, "completion_tokens": u.Out, "total_tokens": u.In + u.Out,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
	}
	out.frame("", mustJSON(last))
	out.frame("", []byte("[DONE]"))
}

type chatStream struct {
	out   *writer
	req   Request
	calls int
}

// write writes an event. It returns false after the last one.
func (c *chatStream) write(w Event) bool {
	switch w := w.(type) {
	case Text:
		c.chunk(map[string]any{"content": string(w)}, nil)
	case Think: // an extension of compatible servers
		c.chunk(map[string]any{"content": nil, "reasoning_content": string(w)}, nil)
	case Refusal:
		c.chunk(map[string]any{"refusal": string(w)}, nil)
	case Call:
		c.callAll([]Call{w})
	case Calls:
		c.callAll(w)
	case Raw:
		c.out.raw(string(w))
	case StreamError:
		c.out.frame("", mustJSON(map[string]any{"error": Error(w).members()}))
		return false
	case Failed:
		return c.write(StreamError(w))
	case CloseConnection:
		panic(http.ErrAbortHandler)
	case EndStream:
		return false
	}
	return true
}

// callAll streams calls: the first delta of each has its id and name, all have its index.
func (c *chatStream) callAll(calls []Call) {
	first := c.calls
	c.calls += len(calls)
	pieces := make([][]string, len(calls))
	for i, call := range calls {
		pieces[i] = cut(call.Args, call.Pieces)
		c.delta(map[string]any{"index": first + i, "id": call.ID, "type": "function", "function": map[string]any{"name": call.Name, "arguments": ""}})
	}
	for more := true; more; {
		more = false
		for i := range calls {
			if len(pieces[i]) == 0 {
				continue
			}
			more = true
			c.delta(map[string]any{"index": first + i, "function": map[string]any{"arguments": pieces[i][0]}})
			pieces[i] = pieces[i][1:]
		}
	}
}

func (c *chatStream) delta(call map[string]any) {
	c.chunk(map[string]any{"tool_calls": []any{call}}, nil)
}

func (c *chatStream) chunk(delta map[string]any, finish any) {
	c.out.frame("", mustJSON(c.object([]any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}})))
}

func (c *chatStream) object(choices []any) map[string]any {
	return map[string]any{
		"id": "chatcmpl-" + strconv.Itoa(c.req.N), "object": "chat.completion.chunk", "created": 1700000000, "model": c.req.Model,
		"service_tier": "default", "system_fingerprint": "fp_test", "choices": choices, "usage": nil,
	}
}
