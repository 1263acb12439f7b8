package agentserver

import (
	"context"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// stopRequest is the body of POST /interrupt and POST /abort.
type stopRequest struct {
	SessionID string `json:"sessionId"`
	Reason    string `json:"reason"`
}

// stopping is the answer: the run that was asked to stop.
type stopping struct {
	SessionID string `json:"sessionId"`
	RunID     string `json:"runId"`
}

func (s *Server) interrupt(w http.ResponseWriter, r *http.Request) { s.stop(w, r, inbox.Interrupt) }
func (s *Server) abort(w http.ResponseWriter, r *http.Request)     { s.stop(w, r, inbox.Abort) }

// stop serves both: 202, the wish is stored, and will be heard whatever happens to
// the worker. /status and /sse say when it was.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, kind inbox.StopKind) {
	var b stopRequest
	if p := s.read(w, r, &b); p != nil {
		s.refuse(w, p)
		return
	}
	session, p := s.session(b.SessionID)
	if p != nil {
		s.refuse(w, p)
		return
	}
	ctx, cancel := s.patient(r.Context())
	defer cancel()
	run, p := s.stopRun(ctx, session, kind, b.Reason)
	if p != nil {
		s.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", session.ID)
	s.writeJSON(w, http.StatusAccepted, stopping{session.ID, run})
}

// stopRun stores the wish in the inbox of the run, looks again, and sees to it that
// somebody hears it. Without the second look:
//  1. the run is at work when it is looked at,
//  2. it pauses, and its worker finds nothing in the inbox,
//  3. the wish is stored, and nobody reads it.
func (s *Server) stopRun(ctx context.Context, session chunk.Session, kind inbox.StopKind, reason string) (string, *problem) {
	stored := make(map[string]bool)
	st, p := s.settle(ctx, session, func(st *standing) (*commands.Command, *problem) {
		switch {
		case !st.exists():
			return nil, noSession
		case st.over() && len(stored) == 0:
			return nil, completed
		case st.over():
			return nil, nil
		}
		run := st.heardBy(kind)
		if !stored[run] {
			err := s.cfg.Inbox.Stop(ctx, inbox.Stop{Session: session, RunID: run, Kind: kind, Reason: reason})
			if err != nil {
				return nil, s.failed(ctx, session, "stop", err)
			}
			stored[run] = true
			return nil, again
		}
		if kind == inbox.Abort && st.snap.Status == fold.Paused && st.waiting() == nil {
			// Nobody is at work who could hear it.
			return &commands.Command{Kind: commands.Abort, RunID: run, Reason: reason}, nil
		}
		return nil, nil
	})
	return st.run(), p
}

// heardBy is the run in whose inbox a wish is heard: the latest, or the one that
// will go on with it when it waits for answers. An interrupt makes a run stop
// where it can be resumed. One that waits does so already; but answers would make
// it go on by itself.
func (st *standing) heardBy(kind inbox.StopKind) string {
	if kind == inbox.Interrupt && st.waiting() == nil && st.snap.Run.Status == fold.RunSuspended {
		return commands.ResumeRunID(st.snap.Run.ID)
	}
	return st.run()
}
