package jsingest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// writer implements ingestion.Writer.
//
// The records of all sessions of the run are stored in the order of the lines: before a record of another session is queued, those of the last one are stored. So
// the position of the last record of any of them says that all lines before it are stored.
type writer struct {
	*Service

	of         ingestion.Run
	dialect    string
	translator dialect.Translator // nil for native lines
	first      int64              // with a translator, as codec.InputPosition has it
	step       int64              // likewise
	sessions   map[string]*session
	wrote      bool   // a record was stored by this writer, see put
	event      string // of the next records, see codec.InputPosition

	mu      sync.Mutex // guards the fields below
	current *session   // whose records are queued; nil before the first
	before  position   // what is stored of the other sessions
	seen    int64      // last line of which everything is queued
	last    codec.InputPosition
}

// position is how far the lines are stored.
type position struct {
	line int64
	at   chunk.Cursor
}

// session is a session of the run: its own, or that of a sub-agent.
type session struct {
	producers.Head

	run       *producers.Run // nil if it had ended before this request
	over      bool           // the run has ended
	waits     bool           // the run waits since an earlier response of the dialect
	agentType string         // of the last record
	step      int64          // likewise
}

// Attach implements ingestion.Runs.
func (s *Service) Attach(ctx context.Context, r ingestion.Request) (ingestion.Writer, error) {
	w := &writer{Service: s, of: r.Run, dialect: r.Dialect, sessions: map[string]*session{}}
	h, err := s.head(ctx, r.Run)
	if err != nil {
		return nil, err
	}
	if h.Input.Run == "" {
		h.Input.Run = r.ID
	}
	if err := w.begin(ctx, r, h); err != nil {
		return nil, err
	}
	state := stateOf(h)
	w.before = position{state.Stored, h.Cursor()}
	if err := w.add(ctx, h); err != nil {
		return nil, err
	}
	return w, nil
}

// begin checks the first line, and creates the translator.
func (w *writer) begin(ctx context.Context, r ingestion.Request, h producers.Head) error {
	if r.Dialect == "" || r.Dialect == dialect.Native {
		return w.beginNative(ctx, r.First, h)
	}
	at := h.Input
	var step int64
	switch waits := h.Type == chunk.TypeStreamPaused; {
	case r.First == 1 && (at.First == 1 || at.Line == 0):
	case r.First == at.First: // the response that the last lines are of
		step = at.Step
	case !at.Partial && (waits && r.First > at.Line || at.First == 0 && r.First == at.Line+1): // the next response
		step = h.Chunk.Step
	default:
		return &ingestion.RefusalError{Reason: ingestion.ReasonFirstLine, Line: max(stateOf(h).Next, 1)}
	}
	w.first, w.step = r.First, step
	var ok bool
	w.translator, ok = w.newTranslator(r.Dialect, dialect.Run{Session: r.Session.ID, AgentType: h.Chunk.AgentType, RunID: r.ID, Step: step})
	if !ok {
		return &ingestion.RefusalError{Reason: ingestion.ReasonDialect}
	}
	return nil
}

// beginNative refuses a body that leaves out lines.
func (w *writer) beginNative(ctx context.Context, first int64, h producers.Head) error {
	next := h.Input.Lines() + 1
	if h.Input.First > 0 && h.Input.Partial {
		next = h.Input.First
	}
	if first >= 1 && first <= next {
		return nil
	}
	if first > next {
		if lines, certain := w.lines(ctx, h); first <= lines+1 || !certain {
			return nil
		}
	}
	return &ingestion.RefusalError{Reason: ingestion.ReasonFirstLine, Line: next}
}

// add continues the session of h, unless its run has ended.
func (w *writer) add(ctx context.Context, h producers.Head) error {
	status := statusOf(h.Type)
	s := &session{Head: h, agentType: h.Chunk.AgentType, step: h.Chunk.Step, over: status == ingestion.Ended || status == ingestion.Failed}
	s.waits = w.translator != nil && status == ingestion.Paused && h.Input.First != w.first
	if !s.over {
		run, err := w.producer.Continue(ctx, h, w.of.ID)
		if err != nil {
			return refusal(err)
		}
		s.run = run
	}
	w.sessions[h.Session.ID] = s
	return nil
}

// Line implements ingestion.Writer.
func (w *writer) Line(ctx context.Context, number int64, text []byte) error {
	if w.translator == nil {
		return w.native(ctx, number, text)
	}
	chunks, err := translate(w.translator, w.dialect, text)
	if err != nil {
		return withLine(refusal(err), number)
	}
	return w.putAll(ctx, number, chunks)
}

// EndOfBody implements ingestion.Writer.
func (w *writer) EndOfBody(ctx context.Context, number int64) error {
	if w.translator == nil {
		return nil
	}
	return w.putAll(ctx, number+1, w.translator.End())
}

func (w *writer) putAll(ctx context.Context, number int64, chunks []chunk.Chunk) error {
	for i, c := range chunks {
		if err := w.put(ctx, c, w.at(number, int64(i), len(chunks))); err != nil {
			return err
		}
	}
	w.done(number)
	return nil
}

func (w *writer) native(ctx context.Context, number int64, text []byte) error {
	if isBlank(text) || isDone(text) {
		w.done(number)
		return nil
	}
	o, ok := ingestion.Outlined(text)
	id := o.AgentID
	if !ok || id == "" {
		id = w.of.Session.ID
	}
	s, err := w.session(ctx, number, id)
	if err != nil {
		return err
	}
	at := w.at(number, 0, 1)
	if whole, _ := s.Input.Stored(number, 0); whole {
		if o.Type != chunk.TypeSubagentStart { // its session may be missing
			w.done(number)
			return nil
		}
	}
	if ok {
		text = o.Filled(ingestion.Base{AgentID: id, AgentType: s.agentType, Timestamp: time.Now().UnixMilli(), Step: s.step})
	}
	c, err := chunk.Decode(text)
	if err != nil {
		return withLine(refusal(err), number)
	}
	if err := w.put(ctx, c, at); err != nil {
		return err
	}
	w.done(number)
	return nil
}

func withLine(err error, number int64) error {
	if r, ok := errors.AsType[*ingestion.RefusalError](err); ok && r.Line == 0 {
		switch r.Reason {
		case ingestion.ReasonInvalid, ingestion.ReasonTooLarge, ingestion.ReasonLimit, ingestion.ReasonEnded, ingestion.ReasonPaused:
			r.Line = number
		default:
		}
	}
	return err
}

func (w *writer) done(number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = max(w.seen, number)
}

// at returns the position behind a chunk of a line with count chunks. i counts from 0.
func (w *writer) at(number, i int64, count int) codec.InputPosition {
	return codec.InputPosition{Run: w.of.ID, Line: number, Chunks: i + 1, Partial: i < int64(count)-1, First: w.first, Step: w.step, Event: w.event}
}

// session returns the session of a chunk.
func (w *writer) session(ctx context.Context, number int64, id string) (*session, error) {
	if s, ok := w.sessions[id]; ok {
		return s, nil
	}
	unknown := invalid(number, "agentId: want the session of the run, or the subSessionId of a subagent_start before this line")
	if subjects.CheckToken("agentId", id) != nil {
		return nil, unknown
	}
	h, err := w.producer.Head(ctx, w.of.Session.Child(id))
	switch {
	case errors.Is(err, producers.ErrNoRecord):
		return nil, unknown
	case err != nil:
		return nil, refusal(err)
	case h.Input.Run != w.of.ID:
		return nil, unknown
	}
	if err := w.add(ctx, h); err != nil {
		return nil, err
	}
	return w.sessions[id], nil
}

// put stores a chunk unless it is stored. at is the position behind it.
//
// Two requests may write the same run: the client repeats one whose connection it has lost, and the edge of the first does not know that yet. Each of them stores a
// record only directly behind the last one that it knows, so neither repeats or reorders anything; the one that gets a conflict decides. The first record of a
// request is waited for, and after a conflict the request reads again what is stored. So the later one gets its turn. A request that has stored a record before
// ends: the other one has read the log later than it.
func (w *writer) put(ctx context.Context, c chunk.Chunk, at codec.InputPosition) error {
	for {
		s, err := w.session(ctx, at.Line, c.AgentID)
		if err == nil {
			err = w.ofRun(ctx, s, w.tryPut(ctx, s, c, at))
		}
		if !w.retries(ctx, err) {
			return withLine(err, at.Line)
		}
		if err := w.reload(ctx); err != nil {
			return err
		}
	}
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
	_ = w.Close() // reports the conflict again
	clear(w.sessions)
	w.mu.Lock()
	w.current = nil
	w.mu.Unlock()
	return w.add(ctx, h)
}

func (w *writer) tryPut(ctx context.Context, s *session, c chunk.Chunk, at codec.InputPosition) error {
	whole, bytes := s.Input.Stored(at.Line, at.Chunks-1)
	if whole {
		return w.skip(ctx, s, c, at)
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

// skip is called for a chunk that is stored.
func (w *writer) skip(ctx context.Context, s *session, c chunk.Chunk, at codec.InputPosition) error {
	if sub, ok := c.Body.(chunk.SubagentStart); ok {
		return w.startChild(ctx, s, sub, at)
	}
	return nil
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
		if err := w.Flush(ctx); err != nil {
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
		if body.SubSessionID == s.Session.ID || body.SubSessionID == s.Session.Root || subjects.CheckToken("subSessionId", body.SubSessionID) != nil {
			return invalid(at.Line, "subSessionId: want a new session, 1 to 64 letters, digits, - or _")
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

// startChild starts the run of a sub-agent, unless an earlier request has. The line of its subagent_start is complete when both records are stored: otherwise a
// later request could begin behind that line, and the lines of the sub-agent would be those of an unknown session.
func (w *writer) startChild(ctx context.Context, parent *session, sub chunk.SubagentStart, at codec.InputPosition) error {
	child := parent.Session.Child(sub.SubSessionID)
	if s, ok := w.sessions[child.ID]; ok {
		if !s.over {
			return nil
		}
		if err := w.drop(s); err != nil {
			return err
		}
	}
	at.Bytes = 0
	for {
		h, err := w.producer.Head(ctx, child)
		if err != nil && !errors.Is(err, producers.ErrNoRecord) {
			return err
		}
		if err == nil && h.Input.Run == w.of.ID && (h.Input.Compare(at) >= 0 || !h.Idle()) {
			return w.add(ctx, h)
		}
		if err == nil && h.Input.Run != w.of.ID {
			// Of an older run, or of the one that has replaced this one: that must not be taken over.
			if _, err := w.head(ctx, w.of); err != nil {
				return err
			}
		}
		run, err := w.producer.Start(ctx, child, chunk.RunStarted{Parent: &chunk.Parent{SessionID: parent.Session.ID, CallID: sub.CallID}},
			producers.AgentType(sub.SubAgentType), producers.TakeOver(), producers.ExpectPosition(h.Position()), producers.InputAt(at))
		if errors.Is(err, producers.ErrPositionMismatch) && ctx.Err() == nil {
			continue // perhaps started by another request of the same run
		}
		if err != nil {
			return err
		}
		s := &session{run: run, agentType: sub.SubAgentType}
		s.Session, s.Input = child, codec.InputPosition{Run: w.of.ID}
		w.sessions[child.ID] = s
		w.wrote = true
		w.mu.Lock()
		w.before.line = max(w.before.line, at.Lines())
		w.mu.Unlock()
		return nil
	}
}

// drop releases a session whose run is over.
func (w *writer) drop(s *session) error {
	delete(w.sessions, s.Session.ID)
	w.mu.Lock()
	if w.current == s {
		w.current = nil
	}
	w.mu.Unlock()
	if s.run == nil {
		return nil
	}
	return s.run.Close()
}

// endChild ends the run of a sub-agent when its parent reports its end, unless the input did so.
func (w *writer) endChild(ctx context.Context, id string, parent *session, at codec.InputPosition) error {
	s := w.sessions[id]
	if s == nil {
		var err error
		if s, err = w.session(ctx, at.Line, id); err != nil {
			if r, ok := errors.AsType[*ingestion.RefusalError](err); ok && r.Reason == ingestion.ReasonInvalid {
				return nil // of another writer
			}
			return err
		}
	}
	if s.run == nil || id == w.of.Session.ID {
		return nil
	}
	at = beforeChunk(at)
	if stored, _ := s.run.Stored(); stored.Run == at.Run && stored.Compare(at) >= 0 {
		return nil // another request of this run is further on, and the sub-agent has begun again
	}
	if err := w.switchTo(ctx, s); err != nil {
		return err
	}
	s.run.SetInput(at)
	if err := w.ended(s, s.run.End(ctx, nil)); err != nil && !errors.Is(err, producers.ErrEnded) {
		return err
	}
	return w.switchTo(ctx, parent)
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

// Flush implements ingestion.Writer.
func (w *writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	s := w.current
	w.mu.Unlock()
	if s == nil || s.run == nil {
		return nil
	}
	at, err := s.run.Flush(ctx)
	if err != nil {
		return refusal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	input, _ := s.run.Stored()
	w.before.line = max(w.before.line, input.Lines(), w.seen)
	w.before.at = chunk.Cursor{Seq: max(w.before.at.Seq, at.Seq)}
	return nil
}

// Progress implements ingestion.Writer.
func (w *writer) Progress() ingestion.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := ingestion.Progress{Line: w.before.line, At: w.before.at}
	if w.current == nil || w.current.run == nil {
		p.Line = max(p.Line, w.seen)
		return p
	}
	input, pos := w.current.run.Stored()
	p.Line, p.Err = max(p.Line, input.Lines()), refusal(w.current.run.Err())
	if pos.Seq > p.At.Seq {
		p.At = chunk.Cursor{Seq: pos.Seq}
	}
	if p.Queued = input.Compare(w.last) < 0; !p.Queued {
		p.Line = max(p.Line, w.seen)
	}
	return p
}

// Close implements ingestion.Writer.
func (w *writer) Close() error {
	var errs []error
	for _, s := range w.sessions {
		if s.run != nil {
			errs = append(errs, s.run.Close())
		}
	}
	return errors.Join(errs...)
}
