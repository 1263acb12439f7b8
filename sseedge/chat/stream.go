package chat

import (
	"bytes"
	"context"
	"errors"
	"net/http"
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
	did     account

	// held is a pause of the run that does not end the response: the run goes on by
	// itself. Should it turn out to wait for people after all, the pause is told
	// then, at the place of the last record.
	held *chunk.Record
	last chunk.Seq

	ahead []chunk.Record // that came with the history, and are newer than the view

	foreign map[string]bool // calls of earlier messages, whose outcomes are not of this one
	awaited string          // the run that is yet to begin, "" when there is none
}

// serve answers with a stream, or says why not.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, plan *Stream, v View, did account) *Problem {
	st := &stream{service: s, plan: plan, view: v, awaited: plan.Run, buffer: streamOpen(), did: did, message: aisdk.New(plan.MessageID, s.cfg.Dialect)}
	defer st.close()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if !s.open.enter(st, cancel) {
		return draining
	}
	defer s.open.leave(st)
	switch p := st.prepare(ctx); {
	case p == lost && r.Method == http.MethodGet:
		s.metrics.resumed(codeLabel(lost))
		w.WriteHeader(http.StatusNoContent) // what is left of it is in the snapshot
		return nil
	case p != nil && errors.Is(context.Cause(ctx), errDrained):
		return draining
	case p != nil:
		return p
	}
	st.did.opened()
	st.begin(w, r.ProtoMajor)
	err := st.tell(ctx)
	reason := st.did.close(ctx, err)
	if err != nil {
		// A clean end would be taken for the end of the answer.
		s.cfg.Log.Log(ctx, levelOf(reason), "a chat's stream was cut", "session", v.Session.String(), "reason", reason, "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// prepare reads what the message has said so far. It is done before the headers
// go out, so that what cannot be read is refused with a status of its own.
func (st *stream) prepare(ctx context.Context) *Problem {
	if st.plan.Show == ShowNothing {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.service.cfg.Attach)
	defer cancel()
	return st.read(ctx)
}

func (st *stream) read(ctx context.Context) *Problem {
	v := &st.view
	after := v.TurnStart
	if v.opening() {
		after = v.Position
	}
	st.foreign = foreignCalls(v)
	if err := st.follow(ctx, after); err != nil {
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

// follow opens the tail, or takes the one that was opened ahead.
func (st *stream) follow(ctx context.Context, after chunk.Position) (err error) {
	if a := st.plan.ahead; a != nil {
		st.plan.ahead = nil
		st.tail, err = a.take(ctx)
	} else {
		st.tail, err = st.service.cfg.Live.Follow(ctx, st.view.Session, after)
	}
	return err
}

func (st *stream) unreadable(ctx context.Context, err error) *Problem {
	if p := st.service.failed(ctx, st.view.Session, "stream", err); p != unavailable {
		return p
	}
	return notStreaming
}

// streamOpen is what every response begins with, also one that has nothing to say
// yet: so the client and all that lies between know that they are connected. It
// goes out with what comes next, in one write.
func streamOpen() []byte { return []byte(": stream-open\n\n") }

// begin says the headers.
func (st *stream) begin(w http.ResponseWriter, protocol int) {
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
}

// tell writes the message until its response is over.
func (st *stream) tell(ctx context.Context) error {
	switch {
	case st.plan.Show == ShowNothing:
		st.buffer = append(st.buffer, st.emptyTurn()...)
		return st.flush()
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
	if err == nil {
		st.did.sent(st.awaited == "")
	}
	return err
}

// take makes frames of a record, if it is one of the message.
func (st *stream) take(ctx context.Context, rec chunk.Record) error {
	own := rec.Session == st.view.Session
	if st.view.opening() && st.awaited != "" {
		started, begins := st.begins(rec)
		if !own || !begins {
			return nil // of a turn before ours
		}
		if err := st.checkID(ctx, rec, started); err != nil {
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
// the run, a whole turn may have been; and if somebody else had asked for the run,
// he may have brought more messages, or fewer.
func (st *stream) checkID(ctx context.Context, rec chunk.Record, started chunk.RunStarted) error {
	if rec.Ordinal == st.view.Position.Ordinal+1 && len(started.Input) == len(st.view.Command.Input) {
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

// begins reports whether a record opens the run that is waited for, and how.
func (st *stream) begins(rec chunk.Record) (chunk.RunStarted, bool) {
	if rec.Type != chunk.TypeRunStarted {
		return chunk.RunStarted{}, false
	}
	c, err := rec.Decode()
	if err != nil {
		return chunk.RunStarted{}, false
	}
	b, ok := chunk.As[chunk.RunStarted](c)
	return b, ok && b.RunID == st.awaited
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

func (st *stream) close() {
	st.plan.ahead.drop()
	if st.tail != nil {
		st.tail.Close()
		st.tail = nil
	}
}
