package chat

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// runRequest returns the request that a RunAgentInput is: its thread is the session. New messages start a run, results of the client's tools and answers to interrupts
// resume it, and a cursor without either continues a response that was cut.
func runRequest(in agui.RunInput) dialect.Request {
	r := dialect.Request{SessionID: in.ThreadID, Messages: slices.Clone(in.Messages), Nonce: in.RunID}
	if in.Cursor.Seq > 0 {
		r.LastEvent = &in.Cursor
	}
	if n := len(r.Messages); n > 0 {
		if metadata := withContext(r.Messages[n-1].Metadata, in); len(metadata) > dialect.MaxMetadata {
			r.DroppedMetadata++
		} else {
			r.Messages[n-1].Metadata = &metadata
		}
	}
	var answers []control.Answer
	for _, res := range in.Results {
		a := control.Answer{Kind: control.ClientResult, CallID: res.CallID, Result: res.Result}
		if res.Error != nil {
			a.Error, a.ErrorCode = *res.Error, control.CodeToolFailed
		}
		answers = append(answers, a)
	}
	for _, res := range in.Resume {
		if approved, reason, ok := res.Approval(); ok {
			answers = append(answers, control.Answer{Kind: control.Approval, ApprovalID: res.InterruptID, Approved: approved, Reason: reason})
		}
	}
	if len(answers) > 0 {
		r.Answered = &dialect.Answered{Answers: answers, Latest: true}
	}
	return r
}

// withContext returns the metadata of a message with what an agent of AG-UI gets besides the messages.
func withContext(metadata *chunk.Value, in agui.RunInput) chunk.Value {
	o := rawjson.Begin(nil)
	if metadata != nil {
		for name, value := range rawjson.Members(*metadata) {
			if !name.Is(agui.ContextMember) {
				o.Raw(string(name.Content()), value)
			}
		}
	}
	o.Nest(agui.ContextMember)
	o.String("runId", in.RunID)
	o.Text("parentRunId", in.ParentRunID)
	o.List("tools", len(in.Tools), func(dst []byte, i int) []byte {
		t := rawjson.Begin(dst)
		t.String("name", in.Tools[i].Name)
		t.Text("description", in.Tools[i].Description)
		t.Raw("parameters", in.Tools[i].Parameters)
		return t.End()
	})
	o.List("context", len(in.Context), func(dst []byte, i int) []byte {
		c := rawjson.Begin(dst)
		c.String("description", in.Context[i].Description)
		c.String("value", in.Context[i].Value)
		return c.End()
	})
	o.Raw("state", in.State)
	o.Raw("forwardedProps", in.ForwardedProps)
	o.Close()
	return o.End()
}
