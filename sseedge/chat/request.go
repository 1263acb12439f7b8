package chat

import (
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/sse"
)

// requestOf returns the request that a body is.
func requestOf(in aisdk.ChatInput) conversation.Request {
	req := conversation.Request{
		AgentType: in.AgentType, Post: true, Trigger: conversation.Submit, MessageID: in.MessageID, Turn: turnInput(in.Messages), Params: in.Params, Nonce: rand.Text(),
		Mode: conversation.Mode(in.Mode),
	}
	if in.Regenerate {
		req.Trigger = conversation.Regenerate
	}
	if in.Answered != nil {
		req.Answered = &conversation.AssistantMessage{ID: in.Answered.ID, Steps: in.Answered.Steps}
		for _, a := range in.Answered.Answers {
			req.Answered.Answers = append(req.Answered.Answers, submittedAnswer(a))
		}
	}
	return req
}

// turnInput returns the messages of a user as a request has them.
func turnInput(messages []chunk.InputMessage) []conversation.Input {
	var turn []conversation.Input
	for _, m := range messages {
		in := conversation.Input{Message: m}
		if m.ClientMessageID != nil {
			in.ID = *m.ClientMessageID
		}
		turn = append(turn, in)
	}
	return turn
}

func submittedAnswer(a aisdk.CallAnswer) conversation.SubmittedAnswer {
	out := conversation.SubmittedAnswer{Kind: control.ClientResult, CallID: a.CallID, ToolName: a.ToolName, Result: a.Result, Error: a.Error}
	if a.Approved == nil {
		return out
	}
	out.Kind, out.ApprovalID, out.Approved, out.Reason = control.Approval, a.ApprovalID, *a.Approved, a.Reason
	if out.Approved && len(a.Input) > 0 {
		out.InputHash = conversation.ShownHash(a.Input)
	}
	return out
}

// readCursor returns the last event that the client of a GET has, CS-1. A malformed cursor is refused, as at an event stream: a client that got the whole answer
// instead would show it twice. "undefined" and "null" are not cursors, CS-2: that is what a page sends whose variable has no value yet.
func readCursor(h http.Header) (c chunk.Cursor, ok bool, p *httpkit.Problem) {
	cursor, ok, err := sse.ReadHeaderCursor(h, "undefined", "null")
	if err != nil {
		return chunk.Cursor{}, false, badCursor
	}
	return cursor.Cursor, ok, nil
}

// resumeFrom returns the sequence that the client of a GET resumes after, nil without a cursor. If the log was rolled back or recreated since the client got
// the event, that is the beginning: the client gets the whole answer, because it may show parts of an answer that no longer exists.
func (s *Service) resumeFrom(r *http.Request, session chunk.Session) (*chunk.Seq, *httpkit.Problem) {
	cursor, ok, p := readCursor(r.Header)
	if p != nil || !ok {
		return nil, p
	}
	if cursor.Anchor == 0 {
		return &cursor.Seq, nil
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	err := s.shared.Hub.CheckCursor(ctx, session, cursor)
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedRecreated:
		cursor.Seq = 0
	case err != nil && !isTruncated:
		return nil, problemOf(s.logic.Failed(ctx, session, "cursor", err))
	}
	return &cursor.Seq, nil
}
