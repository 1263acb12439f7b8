package aisdk

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// noOutcome is the error of a call of an earlier answer that got no outcome. Models reject a history with an open call.
const noOutcome = "the tool was not run"

// RequestMessages returns the history as a client of a server of the AI SDK posts it: the messages that useChat would have built from that server's own
// stream. They differ from those of UIMessages, which clients of this package's stream have:
//
//   - Each step begins with step-start; without it convertToModelMessages moves the outcomes of all calls behind the texts.
//   - A call is a part tool-<name>, and providerExecuted only if its outcome is not known: the server runs the other tools that the log has.
//   - A denied call of the last message is approval-responded, as at the moment at which the user decided it.
//   - A user message has the id that the client gave to it. Hidden messages are in the history.
func RequestMessages(list []fold.Message) []UIMessage {
	var out []UIMessage
	var data map[dataKey]int // places of the data parts with an id in the last message
	shown := -1              // number of the message that out ends with
	for i := range list {
		m := &list[i]
		if m.Replaced || len(m.Parts) == 0 {
			continue
		}
		if shown != m.Shown || len(out) == 0 || out[len(out)-1].Role != m.Role {
			shown, data = m.Shown, make(map[dataKey]int)
			out = append(out, UIMessage{ID: requestID(m), Role: m.Role})
		}
		last := &out[len(out)-1]
		if m.Role == fold.Assistant {
			last.Parts = append(last.Parts, chunk.Value(`{"type":"step-start"}`))
		}
		last.Parts = appendRequestParts(last.Parts, data, m, i == len(list)-1)
		last.Metadata = fold.MergeMetadata(last.Metadata, m.Metadata)
	}
	return out
}

func requestID(m *fold.Message) string {
	if m.Role == fold.User && m.ClientID != "" {
		return m.ClientID
	}
	return fold.MessageID(m.Shown)
}

func appendRequestParts(parts []chunk.Value, data map[dataKey]int, m *fold.Message, latest bool) []chunk.Value {
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Call != nil:
			parts = append(parts, requestCall(*p.Call, latest))
		case p.Kind == fold.PartStepStart:
		case p.Data != nil && strings.HasPrefix(p.Data.Name, customPrefix): // a part of the server's stream, not of its messages
		default:
			closed := *p
			closed.Streaming = false // of an interrupted answer
			parts = append(parts, closed.AppendJSON(nil))
			if p.Data != nil && p.Data.ID != nil {
				key := dataKey{p.Data.Name, *p.Data.ID}
				if at, again := data[key]; again {
					parts[at], parts = parts[len(parts)-1], parts[:len(parts)-1]
					continue
				}
				data[key] = len(parts) - 1
			}
		}
	}
	return parts
}

// requestCall returns the part of a call. latest reports whether the answer continues after it.
func requestCall(c fold.ToolCall, latest bool) chunk.Value {
	unknown := c.OutcomeUnknown()
	switch {
	case unknown, c.State == fold.CallDone, c.State == fold.CallFailed:
	case c.State == fold.CallDenied:
		if latest {
			c.State = fold.CallApproved
		}
	case c.State == fold.CallApproved:
		if !latest {
			c.State, c.Error = fold.CallFailed, noOutcome
		}
	default:
		c.State, c.Error = fold.CallFailed, noOutcome
	}
	decided := c.Approval != nil && c.Approval.Approved != nil
	if !decided || !*c.Approval.Approved && (c.State == fold.CallDone || c.State == fold.CallFailed) {
		c.Approval = nil // it was abandoned, or has expired
	}
	if c.Input == nil {
		c.Input = emptyInput
	}
	o := rawjson.Begin(nil)
	o.String("type", "tool-"+c.Name)
	o.String("toolCallId", c.ID)
	o.String("state", string(c.State))
	o.Raw("input", c.Input)
	o.Flag("providerExecuted", unknown)
	switch c.State {
	case fold.CallDone:
		o.Raw("output", dialect.OrNull(c.Output))
	case fold.CallFailed:
		o.String("errorText", c.Error)
	}
	if c.Approval != nil {
		o.Nest("approval")
		o.String("id", c.Approval.ID)
		o.Bool("approved", *c.Approval.Approved)
		o.Maybe("reason", c.Approval.Reason)
		o.Close()
	}
	for _, m := range c.Extra {
		o.Raw(m.Name, m.Value)
	}
	return o.End()
}
