package agentserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// standing is how a session stands: the fold of its log, and the command that
// waits or is at work. It is of nearly one moment: what changes between its parts
// is found out by the compare-and-set of whatever is done about it.
type standing struct {
	session   chunk.Session
	agentType string // "" when neither log nor queue know the session
	known     bool   // the log has it
	snap      fold.Snapshot
	command   *commands.Command // nil: there is none
	revision  commands.Revision // of command
}

// look finds out how a session stands. Its command is read before its snapshot.
// The other way round:
//  1. the snapshot says that nothing is at work,
//  2. the run of a command begins, ends, and its command is gone,
//  3. no command is found, and what has just ended was never there.
//
// The queue knows a session by its agent. Only the log tells which that is; a
// session that it does not have yet is looked for under each.
func (s *Server) look(ctx context.Context, session chunk.Session) (standing, error) {
	st := standing{session: session, snap: fold.New(session)}
	snap, known, err := s.snapshot(ctx, session)
	if err != nil {
		return st, err
	}
	types := s.cfg.AgentTypes
	if known && snap.AgentType != "" {
		types = []string{snap.AgentType}
	}
	for _, name := range types {
		c, revision, err := s.cfg.Commands.Pending(ctx, session, name)
		if errors.Is(err, commands.ErrNone) {
			continue
		}
		if err != nil {
			return st, fmt.Errorf("pending command: %w", err)
		}
		st.agentType, st.command, st.revision = name, &c, revision
		break
	}
	if st.snap, st.known, err = s.snapshot(ctx, session); err != nil {
		return st, err
	}
	if st.snap.AgentType != "" {
		st.agentType = st.snap.AgentType
	}
	return st, nil
}

func (s *Server) snapshot(ctx context.Context, session chunk.Session) (fold.Snapshot, bool, error) {
	snap, err := s.cfg.Snapshots.Snapshot(ctx, session)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return fold.New(session), false, nil
	}
	if err != nil {
		return snap, false, fmt.Errorf("snapshot: %w", err)
	}
	return snap, true, nil
}

// exists reports whether anybody has asked for the session.
func (st *standing) exists() bool { return st.known || st.command != nil }

// waiting is the command whose run is yet to begin, or to be aborted; nil when
// there is none.
func (st *standing) waiting() *commands.Command {
	c := st.command
	if c == nil || c.Kind != commands.Abort && st.hasRun(c.RunID) {
		return nil
	}
	return c
}

// after is the place that a new command is requested behind: that of a command
// whose run is over or paused, because its acknowledgement is late, else none.
func (st *standing) after() commands.Revision {
	if st.command != nil && st.waiting() == nil && st.snap.Status != fold.Active {
		return st.revision
	}
	return 0
}

// over reports whether there is nothing more to come.
func (st *standing) over() bool {
	return st.waiting() == nil && (st.snap.Status == fold.Ended || st.snap.Status == fold.Failed)
}

// run is the latest one, also if it is yet to begin.
func (st *standing) run() string {
	if c := st.waiting(); c != nil {
		return c.RunID
	}
	return st.snap.Run.ID
}

func (st *standing) hasRun(id string) bool {
	return st.snap.Run.ID == id || slices.ContainsFunc(st.snap.Past, func(r fold.Run) bool { return r.ID == id })
}

// again is what settle is told to look once more.
var again = &problem{}

// maxRounds is how often a request may look, races that it loses included.
const maxRounds = 16

// settle looks at a session until decide says what to answer, or a command that
// is then requested. The result is how the session stood, with that command.
func (s *Server) settle(ctx context.Context, session chunk.Session, decide func(*standing) (*commands.Command, *problem)) (standing, *problem) {
	for round := range maxRounds {
		if round > 3 && !pause(ctx, time.Duration(round)*5*time.Millisecond) {
			break
		}
		st, err := s.look(ctx, session)
		if err != nil {
			return st, s.failed(ctx, session, "look", err)
		}
		c, p := decide(&st)
		switch {
		case p == again:
			continue
		case c == nil:
			return st, p
		}
		c.Session, c.AgentType = session, cmp.Or(st.agentType, c.AgentType)
		err = s.cfg.Commands.Request(ctx, *c, st.after())
		switch {
		case err == nil:
			// Without another look: the run may be over by now, and would be taken for one
			// that somebody had asked for before.
			st.command, st.agentType = c, c.AgentType
			return st, nil
		case !errors.Is(err, commands.ErrBusy):
			return st, s.failed(ctx, session, "request", err)
		}
		// Somebody was faster: the next look finds what he did.
	}
	s.cfg.Log.WarnContext(ctx, "a request found no end", "session", session.String())
	return standing{}, contended
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// patient is the time that a request may take. A client that goes away meanwhile
// takes nothing back.
func (s *Server) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Patience)
}
