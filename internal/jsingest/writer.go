package jsingest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
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
	translator codec.Translator // nil for native lines
	first      int64            // with a translator, as codec.InputPosition has it
	step       int64            // likewise
	sessions   map[string]*session
	wrote      bool   // a record was stored by this writer, see put
	event      string // of the next records, see codec.InputPosition
	lax        bool   // see ingestion.Request
	events     bool   // the lines are of events
	appends    bool   // the lines have no numbers of the client: none of them is stored yet
	calls      ingestion.Calls

	writing sync.Mutex // held while a native line is written

	mu      sync.Mutex // guards the fields below
	current *session   // whose records are queued; nil before the first
	before  position   // what is stored of the other sessions
	seen    int64      // last line of which everything is queued
	last    codec.InputPosition
	base    int64 // number of the line before the first one of the request
	placed  bool  // base is known: not before the first line of a request that appends
	held    *heldLine
	warned  []ingestion.Warning
}

// heldLine is a stream_end that waits for the next line, because of two ends the worse one counts: a stream_failed takes its place.
type heldLine struct {
	number       int64
	agent, event string
	text         []byte
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
	failed    bool           // likewise, with a failure
	waits     bool           // the run waits since an earlier response of the dialect
	agentType string         // of the last record
	step      int64          // likewise
}

// Attach implements ingestion.Runs.
func (s *Service) Attach(ctx context.Context, r ingestion.Request) (ingestion.Writer, error) {
	w := &writer{Service: s, of: r.Run, dialect: r.Dialect, sessions: map[string]*session{}, appends: r.First == 0, lax: r.Lax, base: max(r.First-1, 0), placed: r.First > 0}
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
	if started, isFirst := chunk.As[chunk.RunStarted](h.Chunk); isFirst {
		w.calls.Begin(started.Mode)
	} else {
		w.calls.Incomplete = true // earlier requests have written lines
	}
	if w.appends {
		w.event = rand.Text() // otherwise an equal record of another request at the same position would be taken for this one's
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
	incomplete := h.Input.First > 0 && statusOf(h.Type) == ingestion.Active // a translated response
	switch native := r.Dialect == "" || r.Dialect == dialect.Native; {
	case w.appends && (incomplete || !native && h.Input.Line > 0):
		return unnumbered(h)
	case w.appends && native:
		return nil
	case native:
		return w.beginNative(ctx, r.First, h)
	case w.appends:
		r.First, w.base, w.placed = 1, 0, true
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
	w.translator, ok = w.newTranslator(r.Dialect, codec.Run{Session: r.Session.ID, AgentType: h.Chunk.AgentType, RunID: r.ID, Step: step})
	if !ok {
		text, near := dialect.Unknown(r.Dialect, dialect.Names())
		return &ingestion.RefusalError{Reason: ingestion.ReasonDialect, Text: text, Nearest: near}
	}
	return nil
}

// unnumbered returns the refusal of a response that does not say where it begins, of a run that has one. Its translation depends on where that is.
func unnumbered(h producers.Head) error {
	r := &ingestion.RefusalError{Reason: ingestion.ReasonFirstLine, Line: max(h.Input.First, 1)}
	again := fmt.Sprintf("%d to repeat", h.Input.First)
	switch next := stateOf(h).Next; {
	case h.Type.Terminal() || next == h.Input.First:
		r.Text = "send Tailrace-First-Line: " + again
	case h.Input.First == 0:
		r.Line, r.Text = next, fmt.Sprintf("send Tailrace-First-Line: %d to continue", next)
	default:
		r.Line, r.Text = next, fmt.Sprintf("send Tailrace-First-Line: %d to continue, %s", next, again)
	}
	return r
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
	s := &session{Head: h, agentType: h.Chunk.AgentType, step: h.Chunk.Step, failed: status == ingestion.Failed}
	s.over = s.failed || status == ingestion.Ended
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
	return w.atLimit(ctx, w.line(ctx, number, text))
}

// atLimit fails the run if a line is beyond a limit of its session. The client may never end it.
func (w *writer) atLimit(ctx context.Context, err error) error {
	r, ok := errors.AsType[*ingestion.RefusalError](err)
	if !ok || r.Reason != ingestion.ReasonLimit {
		return err
	}
	code, text := control.CodeSessionLimit, "the session has reached its limit"
	if failed := w.Fail(ctx, text, &chunk.ErrorDetail{Message: text, Code: &code}); failed != nil {
		r.Cause = errors.Join(r.Cause, failed)
	}
	return err
}

func (w *writer) line(ctx context.Context, number int64, text []byte) error {
	if w.translator == nil {
		return w.native(ctx, number, text)
	}
	if number == 1 && !w.lax && !isDone(text) {
		if guess, fits := dialect.Fits(w.dialect, text); !fits {
			return otherDialect(guess, "use")
		}
	}
	number += w.base
	chunks, err := translate(w.translator, w.dialect, text)
	if err != nil {
		return withLine(refusal(err), number)
	}
	return w.putAll(ctx, number, chunks)
}

// EndOfBody implements ingestion.Writer.
func (w *writer) EndOfBody(ctx context.Context, number int64) error {
	if w.translator != nil {
		return w.putAll(ctx, w.base+number+1, w.translator.End())
	}
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.release(ctx); err != nil {
		return err
	}
	if w.placed && number > 0 {
		w.done(w.base + number)
	}
	return nil
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

// native writes a native line. The lines of a request that appends get other numbers after a conflict with another request.
func (w *writer) native(ctx context.Context, number int64, text []byte) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if isBlank(text) || isDone(text) {
		if w.placed && w.held == nil {
			w.done(w.base + number)
		}
		return nil
	}
	o, ok := ingestion.Outlined(text)
	agent := cmp.Or(o.AgentID, w.of.Session.ID)
	if w.held != nil && o.Type == chunk.TypeStreamFailed && agent == w.held.agent {
		w.hold(nil)
	}
	if err := w.release(ctx); err != nil {
		return err
	}
	if err := w.checkNative(number, o, text); err != nil {
		return err
	}
	if ok && o.Type == chunk.TypeStreamEnd {
		w.hold(&heldLine{number, agent, w.event, bytes.Clone(text)})
		return nil
	}
	return w.writeNative(ctx, number, o, ok, text)
}

func (w *writer) hold(line *heldLine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = line
}

// release writes the line that is held.
func (w *writer) release(ctx context.Context) error {
	held := w.held
	if held == nil {
		return nil
	}
	w.hold(nil)
	event := w.event
	defer func() { w.event = event }()
	w.event = held.event
	o, _ := ingestion.Outlined(held.text)
	return w.writeNative(ctx, held.number, o, true, held.text)
}

func (w *writer) writeNative(ctx context.Context, number int64, o ingestion.Outline, isObject bool, text []byte) error {
	if !isObject {
		o.AgentID = "" // chunk.Decode refuses it
	}
	for {
		err := w.tryNative(ctx, number, o, isObject, text)
		if !w.appends || !w.retries(ctx, err) {
			return err
		}
		if err := w.reload(ctx); err != nil {
			return err
		}
	}
}

// otherDialect returns the refusal of a first line that looks like another dialect's.
func otherDialect(guess, verb string) error {
	hint := verb + " ?dialect=" + guess
	if guess == dialect.Native {
		hint = "leave out ?dialect"
	}
	return &ingestion.RefusalError{Reason: ingestion.ReasonOtherDialect, Line: 1, Text: fmt.Sprintf("the first line looks like %s: %s", guess, hint), Nearest: guess}
}

// checkNative refuses a line of a type that does not exist, and a first line of another dialect.
func (w *writer) checkNative(number int64, o ingestion.Outline, text []byte) error {
	unknown, near := o.UnknownType()
	if w.lax || unknown == "" && (o.Type != "" || number > 1 || w.events) {
		return nil
	}
	if number == 1 && !w.events {
		switch guess := dialect.Guess(text); {
		case guess == "" || guess == dialect.Native:
		case unknown == "":
			return otherDialect(guess, "add")
		default:
			unknown, near = fmt.Sprintf("this is a line of %s: add ?dialect=%s", guess, guess), guess
		}
	}
	if unknown == "" {
		return nil
	}
	return &ingestion.RefusalError{Reason: ingestion.ReasonType, Line: w.base + number, Text: unknown, Nearest: near}
}

func (w *writer) tryNative(ctx context.Context, number int64, o ingestion.Outline, isObject bool, text []byte) error {
	id := cmp.Or(o.AgentID, w.of.Session.ID)
	s, err := w.session(ctx, w.base+number, id)
	if err != nil {
		return err
	}
	if number, err = w.numberOf(ctx, s, number); err != nil {
		return err
	}
	at := w.at(number, 0, 1)
	if whole, _ := s.Input.Stored(number, 0); whole {
		if o.Type != chunk.TypeSubagentStart { // its session may be missing
			w.done(number)
			return nil
		}
	}
	if isObject {
		text = o.Filled(ingestion.Base{AgentID: id, AgentType: s.agentType, Timestamp: time.Now().UnixMilli(), Step: s.step})
	}
	c, err := chunk.DecodeUnstored(text)
	if err != nil {
		return withLine(refusal(err), number)
	}
	if err := w.put(ctx, c, at); err != nil {
		return err
	}
	warnings := w.calls.Warnings(number, text, c)
	w.mu.Lock()
	w.warned = append(w.warned, warnings...)
	w.warned = w.warned[:min(len(w.warned), ingestion.MaxWarnings)]
	w.mu.Unlock()
	w.done(number)
	return nil
}

// numberOf returns the number of a native line, the one with a number in its request. A line without a number of the client gets one that is not used yet: another
// request may have used it for its own line since the log was read, so what is stored with such a number is a conflict, never a repetition. Only an event is found
// to be stored, by its hash.
func (w *writer) numberOf(ctx context.Context, s *session, number int64) (int64, error) {
	if w.events && w.event != "" && s.Input.Event == w.event {
		return s.Input.Line, nil
	}
	if !w.placed {
		tree, err := w.producer.TreeInput(ctx, w.of.Session.Tree(), w.of.ID, 0)
		if err != nil {
			return 0, refusal(err)
		}
		// The list may be that of a replica that lags behind. The heads are those of the leader.
		w.mu.Lock()
		w.base, w.placed = max(w.sessions[w.of.Session.ID].Input.Line, tree.Furthest.Line, s.Input.Line), true
		w.mu.Unlock()
	}
	number += w.base
	if w.appends && number <= s.Input.Line {
		return 0, &ingestion.RefusalError{Reason: ingestion.ReasonSuperseded}
	}
	return number, nil
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
	if subjects.CheckID("agentId", id) != nil {
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

// Flush implements ingestion.Writer.
func (w *writer) Flush(ctx context.Context) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	err := w.release(ctx)
	if err == nil {
		err = w.flush(ctx)
	}
	return w.atLimit(ctx, err)
}

func (w *writer) flush(ctx context.Context) error {
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
	p := ingestion.Progress{Line: w.before.line, At: w.before.at, Held: w.held != nil, Warned: w.warned}
	if w.placed {
		p.First = w.base + 1
	}
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
