package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// submission is the body of POST /api/chat/{id}/answers, spec/helix.md section 6.5.
type submission struct {
	Kind       inbox.Kind     `json:"kind"`
	ToolCallID string         `json:"toolCallId"`
	Result     jsontext.Value `json:"result"`
	Error      *string        `json:"error"`
	ApprovalID string         `json:"approvalId"`
	Approved   *bool          `json:"approved"`
	Reason     string         `json:"reason"`
}

// candidate checks what can be checked without the chat, CS-13 and CS-15.
func (b submission) candidate() (Candidate, *Problem) {
	c := Candidate{Kind: b.Kind, CallID: b.ToolCallID, ApprovalID: b.ApprovalID, Reason: b.Reason, Error: b.Error}
	if b.Kind == "" {
		c.Kind = inbox.ClientResult
	}
	if b.ToolCallID == "" || !idFits(b.ToolCallID) || !idFits(b.ApprovalID) {
		return c, badID
	}
	switch c.Kind {
	case inbox.ClientResult:
		if (len(b.Result) > 0) == (b.Error != nil) {
			return c, invalid("want a result or an error, and not both")
		}
		if b.Error == nil {
			c.Result = chunk.Value(b.Result)
		}
		if b.Approved != nil {
			return c, invalid("a result is no approval")
		}
	case inbox.Approval:
		if b.Approved == nil || b.ApprovalID == "" || len(b.Result) > 0 || b.Error != nil {
			return c, invalid("want approvalId and approved, and no result")
		}
		c.Approved = *b.Approved
	default:
		return c, invalid("this kind is unknown: want client-tool-result or approval-response")
	}
	return c, nil
}

// answers serves POST /api/chat/{id}/answers: one answer, for clients that do not
// post whole messages. 204: it is stored, and the run goes on if it was the last
// one that was waited for. Somebody who was faster is 409 with what he said, also
// when that was the same.
func (s *Service) answers(w http.ResponseWriter, r *http.Request, to target) {
	if p := s.submit(w, r, to); p != nil {
		s.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", to.id)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) submit(w http.ResponseWriter, r *http.Request, to target) *Problem {
	var b submission
	p := s.readBody(w, r, func(text []byte) *Problem {
		if err := jsonv2.Unmarshal(text, &b, reading); err != nil {
			return invalid("the body is no answer to a call")
		}
		return nil
	})
	if p != nil {
		return p
	}
	c, p := b.candidate()
	if p != nil {
		return p
	}
	if p := s.knows(to.agentType); p != nil {
		return p
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.cfg.Attach)
	defer cancel()
	return s.store(ctx, Request{Session: s.session(to.id), AgentType: to.agentType}, c)
}

// store stores an answer and sees to it that the run goes on. A request that only
// looks does the second: what it finds to be done is done.
func (s *Service) store(ctx context.Context, req Request, c Candidate) *Problem {
	v, snap, err := s.look(ctx, req.Session, req.AgentType, true)
	if err != nil {
		return s.failed(ctx, req.Session, "look", err)
	}
	wait := v.wait(c.CallID)
	if wait == nil {
		return s.unawaited(ctx, &v, snap, c)
	}
	switch wait.mismatch(c) {
	case "":
	case KindMismatch:
		return wrongKind
	default:
		return wrongID
	}
	answer := wait.take(c)
	if wait.expired(v.Now) {
		answer = failAll([]Wait{*wait}, "nobody answered in time", codeDeadline)[0]
	}
	err = s.answer(ctx, answer)
	first, late := errors.AsType[*inbox.AnsweredError](err)
	if err != nil && !late {
		return s.failed(ctx, req.Session, "answer", err)
	}
	if !late && answer.ErrorCode != codeDeadline {
		s.metrics.accepted()
	}
	if plan, _ := s.settle(ctx, &req); plan.Refusal != nil && !late {
		// It is stored: whoever looks at the chat next makes the run go on.
		s.cfg.Log.WarnContext(ctx, "a run could not be resumed yet", "session", req.Session.String(), "code", plan.Refusal.Code)
	}
	if late {
		answer = first.Answer
	}
	if late || answer.ErrorCode == codeDeadline {
		answer.CallID = c.CallID // of a sub-agent's call the inbox has its own id
		return alreadyAnswered(answer)
	}
	return nil
}

// unawaited is for an answer to a call that nothing waits for: it has an outcome, it
// is yet to be asked, or it was never there.
func (s *Service) unawaited(ctx context.Context, v *View, snap fold.Snapshot, c Candidate) *Problem {
	agent, id, nested := strings.Cut(c.CallID, "/")
	if nested && v.Agents[agent] {
		// The calls of a sub-agent that has ended are not in the view.
		child, err := s.cfg.Snapshots.Snapshot(ctx, v.Session.Child(agent))
		if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
			return s.failed(ctx, v.Session, "look", err)
		}
		addCalls(v.Calls, child, agent)
		snap = child
	} else {
		id = c.CallID
	}
	switch call, known := v.Calls[c.CallID]; {
	case !known:
		return unknownCall
	case !call.answered() && (v.working() || snap.Status == fold.Active):
		return s.underWay(ctx, snap, id, c.CallID)
	default:
		return alreadyAnswered(call.first(c.CallID))
	}
}

// underWay is for an answer to a call without an outcome while a run is at work: the
// call is yet to be asked, or its answer is on its way into the log.
func (s *Service) underWay(ctx context.Context, snap fold.Snapshot, callID, clientID string) *Problem {
	for _, p := range snap.Pending {
		if p.CallID != callID {
			continue
		}
		answers, err := s.cfg.Inbox.Answers(ctx, snap.Session, p.RunID)
		if err != nil {
			return s.failed(ctx, snap.Session, "answers", err)
		}
		for _, first := range answers {
			if first.CallID == callID {
				first.CallID = clientID
				return alreadyAnswered(first)
			}
		}
	}
	return notYet
}

// stopRequest is the body of POST /api/chat/{id}/stop. Without a body it is empty.
type stopRequest struct {
	Reason string `json:"reason"`
}

// stop serves POST /api/chat/{id}/stop: the running answer ends at its next step,
// with what it has said. 202 with the run, or 204 when none is at work. It is not
// what a closed connection does: that is no wish to stop.
func (s *Service) stop(w http.ResponseWriter, r *http.Request, to target) {
	run, p := s.interrupt(w, r, to)
	switch {
	case p != nil:
		s.refuse(w, p)
	case run == "":
		w.Header().Set("X-Session-Id", to.id)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("X-Session-Id", to.id)
		s.writeJSON(w, http.StatusAccepted, map[string]string{"runId": run})
	}
}

func (s *Service) interrupt(w http.ResponseWriter, r *http.Request, to target) (run string, p *Problem) {
	var b stopRequest
	if hasBody(r) {
		p := s.readBody(w, r, func(text []byte) *Problem {
			if err := jsonv2.Unmarshal(text, &b, reading); err != nil {
				return invalid("the body is no object with a reason")
			}
			return nil
		})
		if p != nil {
			return "", p
		}
	}
	if p := s.knows(to.agentType); p != nil {
		return "", p
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.cfg.Attach)
	defer cancel()
	session := s.session(to.id)
	run, err := s.halt(ctx, session, to.agentType, b.Reason)
	if err != nil {
		return "", s.failed(ctx, session, "stop", err)
	}
	return run, nil
}

// halt asks for what is at work to end, and gives its run, "" when there is none. A
// run that waits for sub-agents is given up by a command, and they with it: nobody
// reads its inbox, and it goes on under another id.
func (s *Service) halt(ctx context.Context, session chunk.Session, agentType, reason string) (run string, err error) {
	for {
		v, _, err := s.look(ctx, session, agentType, false)
		if err != nil {
			return "", err
		}
		switch c := v.waiting(); {
		case c != nil:
			run = c.RunID
		case v.delegates():
			abort := commands.Command{Kind: commands.Abort, Session: session, AgentType: v.AgentType, RunID: v.Run.ID, Reason: reason}
			if err = s.request(ctx, abort, v.after()); errors.Is(err, commands.ErrBusy) {
				continue // it has just been asked to go on
			}
			return v.Run.ID, err
		case v.flight():
			run = v.Run.ID
		default:
			return "", nil
		}
		return run, s.cfg.Inbox.Stop(ctx, inbox.Stop{Session: session, RunID: run, Kind: inbox.Interrupt, Reason: reason})
	}
}

// hasBody reports whether a request says anything: a proxy makes a body of unknown
// length of one that is empty.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	_, err := body.Peek(1)
	return !errors.Is(err, io.EOF)
}

// writeJSON answers with something that nobody may keep.
func (s *Service) writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.cfg.Log.Error("an answer is no JSON", "err", err)
		s.refuse(w, internal)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.cfg.Log.Debug("an answer was not read", "err", err)
	}
}
