package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/sseedge/sse"
)

// stream is one response that shows a message. It runs on the goroutine of its
// request.
type stream struct {
	service *Service
	plan    *Stream
	view    View
	message *aisdk.Message
	tail    Tail
	out     *sse.Writer
	buffer  []byte

	// held is a pause of the run that does not end the response: the run goes on by
	// itself. Should it turn out to wait for people after all, the pause is told
	// then, at the place of the last record.
	held *chunk.Record
	last chunk.Seq

	ahead []chunk.Record // that came with the history, and are newer than the view

	foreign map[string]bool // calls of earlier messages, whose outcomes are not of this one
	awaited string          // the run that is yet to begin, "" when there is none
}

// serve answers with a stream, or refuses.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, plan *Stream, v View) {
	st := &stream{service: s, plan: plan, view: v, awaited: plan.Run, message: aisdk.New(plan.MessageID, s.cfg.Dialect)}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if p := s.open.enter(st, cancel); p != nil {
		if p == draining {
			w.Header().Set("Connection", "close") // in HTTP/2: do not come back on this one
		}
		s.refuse(w, p)
		return
	}
	defer s.open.leave(st)
	w.Header().Set("X-Session-Id", v.Session.ID)
	switch p := st.prepare(ctx); {
	case p == lost && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNoContent) // what is left of it is in the snapshot
		return
	case p != nil:
		s.refuse(w, p)
		return
	}
	defer st.close()
	err := st.begin(w, r.ProtoMajor)
	if err == nil {
		err = st.tell(ctx)
	}
	if err != nil {
		// A clean end would be taken for the end of the answer.
		s.cfg.Log.DebugContext(ctx, "a chat's stream was cut", "session", v.Session.String(), "err", err)
		panic(http.ErrAbortHandler)
	}
}

// prepare reads what the message has said so far. It is done before the headers
// go out, so that what cannot be read is refused with a status of its own.
func (st *stream) prepare(ctx context.Context) *Problem {
	if st.plan.Show == ShowNothing {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.service.cfg.Attach)
	defer cancel()
	p := st.read(ctx)
	if p != nil {
		st.close()
	}
	return p
}

func (st *stream) read(ctx context.Context) *Problem {
	v := &st.view
	after := v.TurnStart
	if v.opening() {
		after = v.Position
	}
	st.foreign = foreignCalls(v)
	var err error
	if st.tail, err = st.service.cfg.Live.Follow(ctx, v.Session, after); err != nil {
		return st.unreadable(ctx, err)
	}
	if v.opening() {
		return nil
	}
	history, err := st.history(ctx)
	if err != nil {
		return st.unreadable(ctx, err)
	}
	return st.recall(history)
}

func (st *stream) unreadable(ctx context.Context, err error) *Problem {
	if p := st.service.failed(ctx, st.view.Session, "stream", err); p != unavailable {
		return p
	}
	return notStreaming
}

// foreignCalls are the calls whose outcomes belong to messages before this one.
func foreignCalls(v *View) map[string]bool {
	calls := v.Earlier
	if v.opening() {
		calls = v.Unsettled
	}
	foreign := make(map[string]bool, len(calls))
	for _, id := range calls {
		foreign[id] = true
	}
	return foreign
}

// history is what the turn has said up to where the view stands, run_started first.
func (st *stream) history(ctx context.Context) ([]chunk.Record, error) {
	v := &st.view
	var history []chunk.Record
	if rec, ok := openingOf(v); ok {
		history = append(history, rec)
	}
	if v.Reach == v.TurnStart.Seq {
		return history, nil
	}
	for {
		records, err := st.tail.Next(ctx, nil)
		if err != nil {
			return nil, err
		}
		for i, rec := range records {
			// Kept for longer than the tail promises the bytes.
			rec.Data = bytes.Clone(rec.Data)
			history = append(history, rec)
			if rec.Seq >= v.Reach {
				for _, newer := range records[i+1:] {
					newer.Data = bytes.Clone(newer.Data)
					st.ahead = append(st.ahead, newer)
				}
				return history, nil
			}
		}
	}
}

// openingOf is the run_started of the turn as far as it matters: the cursor of the
// log stands behind it, and to read it means to read all that was said before.
func openingOf(v *View) (chunk.Record, bool) {
	if v.TurnStart.Seq == 0 || v.TurnRun.ID == "" {
		return chunk.Record{}, false
	}
	c := chunk.Chunk{
		AgentID: v.Session.ID, AgentType: v.AgentType, Timestamp: v.TurnRun.Began,
		Body: chunk.RunStarted{RunID: v.TurnRun.ID, Epoch: int64(v.TurnRun.Epoch), Mode: v.TurnRun.Mode, Parent: v.TurnRun.Parent},
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		return chunk.Record{}, false // a run that no producer of ours began: its metadata is missing
	}
	return chunk.Record{
		Seq: v.TurnStart.Seq, Session: v.Session, Epoch: v.TurnRun.Epoch, Ordinal: v.TurnStart.Ordinal,
		Type: chunk.TypeRunStarted, Stored: time.UnixMilli(v.TurnRun.Began), Data: data,
	}, true
}

// recall makes frames of what was said before: all of it, or nothing of what the
// client has. They go out when the response has begun.
func (st *stream) recall(history []chunk.Record) *Problem {
	history = slices.DeleteFunc(history, func(rec chunk.Record) bool { return st.isForeign(rec) })
	if n := len(history); n > 0 {
		st.last = history[n-1].Seq
	}
	history = st.hold(history)
	if st.held != nil && !st.view.flight() {
		// What sub-agents have said since then, their questions, comes before the end
		// of the response.
		history = append(history, st.atTheEnd(*st.held))
		st.held = nil
	}
	switch st.plan.Show {
	case ShowTail:
		for _, rec := range history {
			if rec.Seq <= st.plan.After {
				st.message.Prime(rec)
				continue
			}
			st.buffer = st.message.Append(st.buffer, rec)
		}
	case ShowNew:
		if p := st.recallNew(history); p != nil {
			return p
		}
	default:
		st.buffer = st.message.Start(st.buffer)
		st.buffer = st.message.Replay(st.buffer, history)
	}
	if !st.view.flight() {
		st.buffer = st.message.Finish(st.buffer)
	}
	return nil
}

// atTheEnd is a pause as if it were the last record.
func (st *stream) atTheEnd(pause chunk.Record) chunk.Record {
	pause.Seq = max(pause.Seq, st.last)
	return pause
}

// hold takes the last pause out of what was said, unless the run goes on behind it.
func (st *stream) hold(history []chunk.Record) []chunk.Record {
	for i, rec := range slices.Backward(history) {
		if rec.Session != st.view.Session {
			continue
		}
		switch rec.Type {
		case chunk.TypeStreamPaused:
			st.held = &rec
			return slices.Delete(history, i, i+1)
		case chunk.TypeRunStarted, chunk.TypeStreamActive:
			return history
		}
	}
	return history
}

// recallNew is for a client that continues its own message: it gets what was said
// since the pause at which its response ended. Which one that was its steps tell:
// another tab may have answered, and the run may have paused anew since.
func (st *stream) recallNew(history []chunk.Record) *Problem {
	from, ok := st.boundary(history)
	if !ok {
		return running
	}
	for _, rec := range history[:from] {
		st.message.Prime(rec)
	}
	st.message.Continue()
	st.buffer = st.message.Start(st.buffer)
	st.buffer = appendRejections(st.buffer, st.plan.Rejected)
	st.buffer = st.message.Replay(st.buffer, history[from:])
	return nil
}

// boundary is where in the history the client's message ends; false if that is in
// the middle of what a run says: then it must reconnect, because nothing can be
// added to a part that it does not have open any more.
func (st *stream) boundary(history []chunk.Record) (int, bool) {
	twin := aisdk.New(st.plan.MessageID, st.service.cfg.Dialect)
	var frames []byte
	steps, found, atFound := 0, -1, 0
	for i, rec := range history {
		if i > 0 && rec.Session == st.view.Session && rec.Type == chunk.TypeRunStarted && !st.isTakeover(rec) {
			if found < 0 || steps <= st.plan.Steps || st.plan.Steps == 0 {
				found, atFound = i, steps
			}
		}
		frames = twin.Append(frames[:0], rec)
		steps += bytes.Count(frames, startStep)
	}
	flight := st.view.flight()
	switch {
	case !flight && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return len(history), true // it has everything
	case st.awaited != "" && (st.plan.Steps == 0 || st.plan.Steps >= steps):
		return len(history), true // and what follows is yet to begin
	case st.held != nil && st.plan.Steps >= steps:
		return len(history), true
	case found < 0:
		return 0, false
	}
	return found, st.plan.Steps == 0 || st.plan.Steps <= atFound
}

var startStep = []byte(`{"type":"start-step"`)

func (st *stream) isTakeover(rec chunk.Record) bool {
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	b, ok := chunk.As[chunk.RunStarted](c)
	return ok && b.Mode == "takeover"
}

// begin writes the headers and something behind them, so that the client and all
// that lies between know that they are connected.
func (st *stream) begin(w http.ResponseWriter, protocol int) error {
	h := w.Header()
	for name, value := range aisdk.Header() {
		h.Set(name, value)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if protocol == 1 {
		// The write deadline stays on the connection, where it would cut the next
		// response.
		h.Set("Connection", "close")
	}
	st.out = sse.NewWriter(w, st.service.cfg.Patience)
	if protocol > 1 {
		st.out.Multiplexed()
	}
	w.WriteHeader(http.StatusOK)
	return st.out.Comment("stream-open")
}

// tell writes the message until its response is over.
func (st *stream) tell(ctx context.Context) error {
	switch {
	case st.plan.Show == ShowNothing:
		st.buffer = st.emptyTurn()
		return st.out.Send(st.buffer, "")
	case st.view.opening():
		st.buffer = st.message.Start(st.buffer)
	}
	if err := st.flush(); err != nil {
		return err
	}
	if err := st.takeAll(ctx, st.ahead); err != nil {
		return err
	}
	tick := time.NewTicker(st.service.cfg.Heartbeat)
	defer tick.Stop()
	for !st.message.Done() {
		records, err := st.tail.Next(ctx, tick.C)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			if err := st.beat(ctx); err != nil {
				return err
			}
			continue
		}
		if err := st.takeAll(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// takeAll tells records, as far as the response goes.
func (st *stream) takeAll(ctx context.Context, records []chunk.Record) error {
	for _, rec := range records {
		if st.message.Done() {
			break
		}
		if err := st.take(ctx, rec); err != nil {
			return err
		}
	}
	return st.flush()
}

func (st *stream) flush() error {
	if len(st.buffer) == 0 {
		return nil
	}
	err := st.out.Send(st.buffer, "")
	st.buffer = st.buffer[:0]
	return err
}

// take makes frames of a record, if it is one of the message.
func (st *stream) take(ctx context.Context, rec chunk.Record) error {
	own := rec.Session == st.view.Session
	if st.view.opening() && st.awaited != "" {
		if !own || !st.begins(rec) {
			return nil // of a turn before ours
		}
		if err := st.checkID(ctx, rec); err != nil {
			return err
		}
	}
	if own && rec.Type == chunk.TypeRunStarted {
		st.awaited, st.held = "", nil
	}
	st.last = rec.Seq
	if st.isForeign(rec) {
		return nil
	}
	if rec.Type == chunk.TypeStreamPaused {
		return st.paused(ctx, rec, own)
	}
	st.buffer = st.message.Append(st.buffer, rec)
	return nil
}

// checkID makes sure that the message has the id that it was announced with. It
// was counted before the run was asked for: if anything was said between that and
// the run, a whole turn may have been.
func (st *stream) checkID(ctx context.Context, started chunk.Record) error {
	if started.Ordinal == st.view.Position.Ordinal+1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.service.cfg.Attach)
	defer cancel()
	v, _, err := st.service.look(ctx, st.view.Session, st.view.AgentType, false)
	if err == nil && v.Answer != st.plan.MessageID {
		err = errOtherMessage
	}
	return err
}

// begins reports whether a record opens the run that is waited for.
func (st *stream) begins(rec chunk.Record) bool {
	if rec.Type != chunk.TypeRunStarted {
		return false
	}
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	b, ok := chunk.As[chunk.RunStarted](c)
	return ok && b.RunID == st.awaited
}

// paused decides what a pause means. The response must end when a person has to
// answer, because no client sends an answer while a response is open; and it must
// not end when the run goes on by itself, because no client would come back.
func (st *stream) paused(ctx context.Context, rec chunk.Record, own bool) error {
	if own {
		rec.Data = bytes.Clone(rec.Data)
		st.held = &rec
	} else {
		st.buffer = st.message.Append(st.buffer, rec)
	}
	if st.held == nil {
		return nil // a sub-agent waits while its parent is at work
	}
	return st.judge(ctx)
}

// judge looks whether anybody has to answer while the run is paused.
func (st *stream) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, st.service.cfg.Attach)
	defer cancel()
	v, _, err := st.service.look(ctx, st.view.Session, st.view.AgentType, false)
	if err != nil {
		return err
	}
	if st.held == nil || v.flight() || v.Run.Started > st.held.Seq {
		return nil // it goes on by itself, or has already
	}
	st.buffer = st.message.Append(st.buffer, st.atTheEnd(*st.held))
	st.held = nil
	return nil
}

// isForeign reports whether a record is about a call of an earlier message, and
// remembers calls that begin anew.
func (st *stream) isForeign(rec chunk.Record) bool {
	if len(st.foreign) == 0 || rec.Session != st.view.Session {
		return false
	}
	switch rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolApprovalResponse, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeSubagentEnd:
		return st.foreign[callOf(rec)]
	case chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolApprovalRequest:
		delete(st.foreign, callOf(rec))
	}
	return false
}

// callOf is the call that a record is about.
func callOf(rec chunk.Record) string {
	var about struct {
		ToolCallID string `json:"toolCallId"`
		CallID     string `json:"callId"`
	}
	if err := json.Unmarshal(rec.Data, &about); err != nil {
		return ""
	}
	if about.ToolCallID == "" {
		return about.CallID
	}
	return about.ToolCallID
}

// beat tells the client that we are there. While a run is awaited, it also makes
// sure that somebody still means to begin it: a command that no worker can read is
// taken off the queue, and nobody would say so here.
func (st *stream) beat(ctx context.Context) error {
	if err := st.out.Comment("keep-alive"); err != nil {
		return err
	}
	if st.awaited == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.service.cfg.Attach)
	defer cancel()
	v, _, err := st.service.look(ctx, st.view.Session, st.view.AgentType, false)
	switch {
	case err != nil:
		st.service.cfg.Log.DebugContext(ctx, "the chat could not be looked at", "session", st.view.Session.String(), "err", err)
		return nil // it is still true what we know
	case v.awaited() == st.awaited || v.hasRun(st.awaited):
		return nil
	}
	return errNeverBegan
}

var errOtherMessage = errors.New("another turn was answered before this one: the message has another id than it was announced with")

var errNeverBegan = errors.New("the run that was asked for has not begun, and nobody is going to begin it")

// emptyTurn is start and finish, with what is rejected between them. The step in it
// is for clients that post by themselves when everything in the last step of their
// message is answered. Without it:
//  1. a page answers a question that is long over, and posts,
//  2. it is told that the answer is not taken, and the response ends,
//  3. everything in the last step is answered: it posts again, and so on for ever.
//
// The client shows its application a step that begins with the next change only,
// and the predicate looks at what is shown: the empty metadata is that change.
func (st *stream) emptyTurn() []byte {
	start := struct {
		Type      string `json:"type"`
		MessageID string `json:"messageId,omitempty"`
	}{"start", st.plan.MessageID}
	dst := appendFrame(nil, start)
	dst = appendRejections(dst, st.plan.Rejected)
	if !st.service.cfg.Dialect.NoSteps {
		dst = append(dst, "data: {\"type\":\"start-step\"}\n\ndata: {\"type\":\"finish-step\"}\n\n"...)
	}
	return append(dst, "data: {\"type\":\"finish\",\"finishReason\":\"stop\",\"messageMetadata\":{}}\n\ndata: [DONE]\n\n"...)
}

// appendFrame appends a chunk of strings.
func appendFrame(dst []byte, chunk any) []byte {
	data, err := json.Marshal(chunk)
	if err != nil {
		return dst // strings can be written
	}
	dst = append(dst, "data: "...)
	dst = append(dst, data...)
	return append(dst, "\n\n"...)
}

// appendRejections tells what was not taken, in passing: a part that stayed in the
// message would come back with every POST.
func appendRejections(dst []byte, rejected []Rejection) []byte {
	for _, r := range rejected {
		dst = appendFrame(dst, struct {
			Type      string    `json:"type"`
			Data      Rejection `json:"data"`
			Transient bool      `json:"transient"`
		}{"data-resume-rejected", r, true})
	}
	return dst
}

func (st *stream) close() {
	if st.tail != nil {
		st.tail.Close()
		st.tail = nil
	}
}
