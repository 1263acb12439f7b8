package jsingest

import (
	"context"
	"errors"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// put stores a chunk unless it is stored. at is the position behind it.
//
// Two requests may write the same run: the client repeats one whose connection it has lost, and the edge of the first does not know that yet. Each of them stores a
// record only directly behind the last one that it knows, so neither repeats or reorders anything; the one that gets a conflict decides. The first record of a
// request is waited for, and after a conflict the request reads again what is stored. So the later one gets its turn. A request that has stored a record before
// ends: the other one has read the log later than it.
func (w *writer) put(ctx context.Context, c chunk.Chunk, at codec.InputPosition) error {
	if namesUser(c) {
		return invalid(at.Line, "leave out the member by: the server writes it, with the user of the request that a record follows from")
	}
	for {
		s, err := w.session(ctx, at.Line, c.AgentID)
		if err == nil {
			err = w.ofRun(ctx, s, w.tryPut(ctx, s, c, at))
		}
		if w.appends || !w.retries(ctx, err) {
			return withLine(err, at.Line)
		}
		if err := w.reload(ctx); err != nil {
			return err
		}
	}
}

// namesUser reports whether a chunk has the member that names the user of a request, as control.ByMember writes it.
func namesUser(c chunk.Chunk) bool {
	if o, ok := c.Body.(chunk.Opaque); ok {
		return rawjson.Get(o.Raw, control.MemberBy) != nil
	}
	return slices.ContainsFunc(c.Extra, func(m chunk.Member) bool { return m.Name == control.MemberBy })
}

// ofRun returns the refusal of a chunk. A session of a sub-agent is fenced when another run of the root has taken it over, or another request of this run.
func (w *writer) ofRun(ctx context.Context, s *session, err error) error {
	r, ok := errors.AsType[*ingestion.RefusalError](err)
	if !ok || r.Reason != ingestion.ReasonFenced || s.Session.ID == w.of.Session.ID {
		return err
	}
	if _, err := w.head(ctx, w.of); err != nil {
		return err
	}
	return &ingestion.RefusalError{Reason: ingestion.ReasonSuperseded, Cause: err}
}

// retries reports whether the request reads the log again after an error.
func (w *writer) retries(ctx context.Context, err error) bool {
	r, ok := errors.AsType[*ingestion.RefusalError](err)
	return ok && r.Reason == ingestion.ReasonSuperseded && !w.wrote && ctx.Err() == nil
}

// reload reads again what is stored. Nothing is queued.
func (w *writer) reload(ctx context.Context) error {
	h, err := w.head(ctx, w.of)
	if err != nil {
		return err
	}
	if h.Input.Run == "" {
		h.Input.Run = w.of.ID
	}
	_ = w.closeRuns() // reports the conflict again
	clear(w.sessions)
	w.calls.Incomplete = true // another request has written lines
	w.mu.Lock()
	w.current, w.placed = nil, !w.appends
	w.mu.Unlock()
	return w.add(ctx, h)
}

func (w *writer) tryPut(ctx context.Context, s *session, c chunk.Chunk, at codec.InputPosition) error {
	whole, bytes := s.Input.Stored(at.Line, at.Chunks-1)
	switch {
	case w.translator != nil && w.appends && (whole || bytes > 0): // another response has begun
		return &ingestion.RefusalError{Reason: ingestion.ReasonSuperseded}
	case whole:
		if sub, ok := c.Body.(chunk.SubagentStart); ok {
			return w.startChild(ctx, s, sub, at)
		}
		return nil
	}
	if t := c.Type(); s.over && (s.failed && t.Terminal() || t == chunk.TypeStreamEnd) { // of two ends the worse one counts
		return nil
	}
	if err := w.switchTo(ctx, s); err != nil {
		return err
	}
	if s.run == nil {
		return &ingestion.RefusalError{Reason: ingestion.ReasonEnded}
	}
	if err := w.activate(ctx, s, c, at); err != nil {
		return refusal(err)
	}
	if bytes > 0 {
		var ok bool
		if c, ok = withoutText(c, bytes); !ok {
			return invalid(at.Line, "this line differs from the one that is stored in part")
		}
		at.Bytes = bytes
	}
	stored := at
	if _, begins := c.Body.(chunk.SubagentStart); begins {
		stored.Partial = true // until its session has begun, see startChild
	}
	s.run.SetInput(stored)
	s.run.SetStep(c.Step)
	s.run.SetAgentType(c.AgentType)
	if err := w.write(ctx, s, c, at); err != nil {
		return refusal(err)
	}
	s.agentType, s.step = c.AgentType, c.Step
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = stored
	return nil
}

// activate continues a session that waits since an earlier response, for the first chunk of this one: its translator does not know that the run waits.
func (w *writer) activate(ctx context.Context, s *session, c chunk.Chunk, at codec.InputPosition) error {
	if t := c.Type(); !s.waits || t == chunk.TypeStreamActive || t.Terminal() {
		return nil
	}
	// With the position of this response, so that a request which is cut behind this record can begin with it again.
	s.run.SetInput(beforeChunk(at))
	if err := s.run.Activate(ctx); err != nil {
		return err
	}
	s.waits = false
	return w.stored(nil)
}

// beforeChunk returns the position before a chunk, for a record that is stored before it.
func beforeChunk(at codec.InputPosition) codec.InputPosition {
	at.Partial, at.Chunks, at.Bytes = true, at.Chunks-1, 0
	return at
}

// switchTo stores what is queued for another session.
func (w *writer) switchTo(ctx context.Context, s *session) error {
	w.mu.Lock()
	last := w.current
	w.mu.Unlock()
	if last == s {
		return nil
	}
	if last != nil {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = s
	return nil
}

func (w *writer) write(ctx context.Context, s *session, c chunk.Chunk, at codec.InputPosition) error {
	if s.Session.ID == w.of.Session.ID {
		if err := w.beforeEnd(ctx, s, c.Body, at); err != nil {
			return err
		}
	}
	if done, err := transition(ctx, s.run, c.Body); done {
		if c.Type().Terminal() {
			s.failed = err == nil && c.Type() == chunk.TypeStreamFailed
			return w.ended(s, err)
		}
		s.waits = s.waits && err != nil
		return w.stored(err)
	}
	switch body := c.Body.(type) {
	case chunk.Truncated:
		return errTruncated
	case chunk.RunStarted:
		return invalid(at.Line, "type run_started: the run is open, and a sub-agent begins with its subagent_start")
	case chunk.SubagentStart:
		if body.SubSessionID == s.Session.ID || body.SubSessionID == s.Session.Root || subjects.CheckID("subSessionId", body.SubSessionID) != nil {
			return invalid(at.Line, "subSessionId: want a new session, 1 to 64 characters of a URI")
		}
		// Stored before the first record of the child: readers of the tree find the sub-agent before its chunks.
		_, err := s.run.Write(ctx, c)
		if w.stored(err) != nil {
			return err
		}
		return w.startChild(ctx, s, body, at)
	case chunk.SubagentEnd:
		if err := w.endChild(ctx, body.SubSessionID, s, at); err != nil {
			return err
		}
		s.run.SetInput(at)
	}
	if !w.wrote {
		_, err := s.run.Write(ctx, c)
		return w.stored(err)
	}
	return s.run.Emit(ctx, c)
}

// beforeEnd ends the sub-agents before a chunk that ends the run.
func (w *writer) beforeEnd(ctx context.Context, root *session, body chunk.Body, at codec.InputPosition) error {
	with := outcome(end)
	switch body := body.(type) {
	case chunk.StreamEnd:
	case chunk.StreamFailed:
		with = failure(body.Error, body.ErrorDetail)
	default:
		return nil
	}
	before := beforeChunk(at)
	if err := w.endChildren(ctx, &before, with); err != nil {
		return err
	}
	return w.switchTo(ctx, root)
}

func (w *writer) ended(s *session, err error) error {
	s.over = s.over || err == nil
	return w.stored(err)
}

func (w *writer) stored(err error) error {
	w.wrote = w.wrote || err == nil
	return err
}

// withoutText returns a delta without the first bytes of its text.
func withoutText(c chunk.Chunk, n int64) (chunk.Chunk, bool) {
	cut := func(s string) (string, bool) {
		if n >= int64(len(s)) {
			return "", false
		}
		return s[n:], true
	}
	var ok bool
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		b.Delta, ok = cut(b.Delta)
		c.Body = b
	case chunk.Thinking:
		b.Content, ok = cut(b.Content)
		c.Body = b
	case chunk.ToolArgStreamDelta:
		b.Delta, ok = cut(b.Delta)
		c.Body = b
	}
	return c, ok
}
