package agentserver

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// resumeRequest is the body of POST /resume.
type resumeRequest struct {
	SessionID string         `json:"sessionId"`
	Message   jsontext.Value `json:"message"`
}

// resumption is what somebody wants to be resumed with.
type resumption struct {
	session chunk.Session
	input   []chunk.InputMessage
	key     string // tells messages apart, "" without one
}

// The modes of run_resumed.
const (
	modeContinue = "continue"
	modeMessage  = "with_message"
)

// resume serves POST /resume: a run that was interrupted goes on, with a message
// or without, and so does one that has all its answers, if nobody has seen to it.
// What is at work, or waits for answers, is returned as it is; but not when there
// is a message, which would be lost.
func (s *Server) resume(w http.ResponseWriter, r *http.Request) {
	var b resumeRequest
	if p := s.read(w, r, &b); p != nil {
		s.refuse(w, p)
		return
	}
	wish, p := s.resumption(b)
	if p != nil {
		s.refuse(w, p)
		return
	}
	ctx, cancel := s.patient(r.Context())
	defer cancel()
	st, p := s.settle(ctx, wish.session, func(st *standing) (*commands.Command, *problem) { return s.decideResume(ctx, st, wish) })
	s.answerBegun(w, &st, p)
}

func (s *Server) resumption(b resumeRequest) (wish resumption, p *problem) {
	if wish.session, p = s.session(b.SessionID); p != nil || isNull(b.Message) {
		return wish, p
	}
	if wish.input, p = s.readMessage(b.Message); p != nil {
		return wish, p
	}
	text, err := json.Marshal(wish.input)
	if err != nil {
		return wish, invalid("the message cannot be stored")
	}
	wish.key = "/resume " + string(text)
	return wish, s.addMetadata(wish.input, nil)
}

// runID is the run that goes on with a run. It is a function of the message, too:
// a request that is repeated is known by it, and one with another message does not
// pass for it.
func (r resumption) runID(run string) string {
	if r.key == "" {
		return commands.ResumeRunID(run)
	}
	return commands.RegenerateRunID(r.session, r.key, run)
}

func (s *Server) decideResume(ctx context.Context, st *standing, wish resumption) (*commands.Command, *problem) {
	switch {
	case !st.exists():
		return nil, noSession
	case st.over():
		return nil, completed
	case wish.key != "" && st.resumedBy(wish), wish.key == "" && (st.waiting() != nil || st.snap.Status == fold.Active):
		return nil, nil
	case st.waiting() != nil, st.snap.Status == fold.Active:
		return nil, running
	}
	if st.snap.Run.Status == fold.RunSuspended {
		open, p := s.openCalls(ctx, &st.snap)
		switch {
		case p != nil:
			return nil, p
		case open.none():
		case wish.key == "":
			return nil, nil
		default:
			return nil, awaiting
		}
	}
	run := st.snap.Run.ID
	c := &commands.Command{Kind: commands.Resume, RunID: wish.runID(run), Resumes: run, Mode: modeContinue, Input: wish.input}
	if wish.key != "" {
		c.Mode = modeMessage
	}
	return c, nil
}

// resumedBy reports whether the latest run is the one that was asked for by the
// same request before.
func (st *standing) resumedBy(wish resumption) bool {
	if c := st.waiting(); c != nil {
		return c.Kind == commands.Resume && c.RunID == wish.runID(c.Resumes)
	}
	return slices.ContainsFunc(st.snap.Past, func(r fold.Run) bool { return wish.runID(r.ID) == st.snap.Run.ID })
}
