package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/sse"
	"github.com/tailrace/tailrace/projector/fold"
)

// stream is one response with a message. It runs on the goroutine of its request.
type stream struct {
	service *Service
	plan    *conversation.Stream
	state   conversation.State
	message message
	tail    recordStream
	out     *sse.Writer
	buffer  []byte
	counts  requestCounts

	// deferredPause is a pause of the run that does not end the response, because the run continues without the user. If it turns out to wait for the user after
	// all, the pause is written then, at the position of the last record.
	deferredPause *chunk.Record
	last          chunk.Cursor

	history    history
	resumeFrom int            // index in the history at which the client's message ends
	ahead      []chunk.Record // records that were read with the history and are newer than the state

	earlier map[string]bool // calls of earlier messages, whose outcomes do not belong to this one
	awaited awaitedRun
}

// serve responds with a stream, or returns the problem.
func (s *Service) serve(
	w http.ResponseWriter, r *http.Request, of chat, plan *conversation.Stream, state conversation.State, counts requestCounts,
) *httpkit.Problem {
	st := &stream{service: s, plan: plan, state: state, buffer: streamOpen(), counts: counts}
	st.message = message{aisdk.New(plan.MessageID, s.cfg.Dialect), of.view}
	st.awaited = s.await(state.Session, state.AgentType, plan.Run)
	st.awaited.queued, st.awaited.logic = plan.Queued, of.logic
	defer st.close()
	ctx, leave, ok := s.surface.Streams.Enter(r.Context())
	if !ok {
		return draining
	}
	defer leave()
	switch p := st.prepare(ctx); {
	case p == streamLost && r.Method == http.MethodGet:
		s.metrics.resumed(streamLost.Label())
		w.WriteHeader(http.StatusNoContent) // the snapshot has the rest of the message
		return nil
	case p != nil && errors.Is(context.Cause(ctx), httpkit.ErrDrained):
		return draining
	case p != nil:
		return p
	}
	st.counts.opened()
	httpkit.DropCredential(r)
	st.begin(w, r.ProtoMajor)
	err := st.write(ctx)
	if err == nil {
		err = st.out.Complete()
	}
	reason := st.counts.close(ctx, err)
	httpkit.LogStreamEnd(ctx, state.Session, reason)
	if err != nil {
		// The client would take a clean end for the end of the answer.
		s.shared.Log.Log(ctx, httpkit.EndLevel(reason), "chat stream aborted", "session", state.Session.String(), "reason", reason, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// maxReads limits how often a message is read from its beginning.
const maxReads = 4

// prepare reads the records of the message. It runs before the headers are sent, so that a failed read gets a status of its own. The message is read again if
// the feed of the edge has missed a record, and the order cannot be restored in memory.
func (st *stream) prepare(ctx context.Context) *httpkit.Problem {
	if st.plan.Show == conversation.ShowEmpty {
		return nil
	}
	ctx, cancel := st.service.withTimeout(ctx)
	defer cancel()
	for n := 1; ; n++ {
		p, err := st.read(ctx)
		if err == nil {
			return p
		}
		truncated, ok := errors.AsType[*chunk.TruncatedError](err)
		if n == maxReads || !ok || truncated.Reason != chunk.TruncatedGap {
			return st.unreadable(ctx, err)
		}
		st.close()
		st.history, st.ahead, st.deferredPause = history{}, nil, nil
	}
}

// read reads the records of the message once.
func (st *stream) read(ctx context.Context) (*httpkit.Problem, error) {
	after, through := st.state.TurnStart, st.state.MaxSeq
	if st.opening() {
		after, through = st.state.Position, st.state.Position.Seq
	}
	st.earlier = earlierCalls(&st.state)
	if err := st.follow(ctx, after, through); err != nil || st.opening() {
		return nil, err
	}
	if err := st.readHistory(ctx); err != nil {
		return nil, err
	}
	return st.decide(ctx)
}

// follow opens the tail, or takes the prefetched one.
func (st *stream) follow(ctx context.Context, after chunk.Position, through chunk.Seq) (err error) {
	if a, ok := st.plan.Ahead.(*prefetch); ok {
		st.plan.Ahead = nil
		st.tail, err = a.take(ctx)
	} else {
		st.tail, err = st.service.follow(ctx, st.state.Session, after, through)
	}
	return err
}

func (st *stream) unreadable(ctx context.Context, err error) *httpkit.Problem {
	if p := problemOf(st.service.logic.Failed(ctx, st.state.Session, "stream", err)); p != unavailable {
		return p
	}
	return notStreaming
}

// streamOpen returns the first bytes of every response, also of one without frames so far: they show the client and the proxies between that the connection
// is open. They are sent in one write with the next frames.
func streamOpen() []byte { return []byte(": stream-open\n\n") }

// begin writes the headers.
func (st *stream) begin(w http.ResponseWriter, protocol int) {
	h := w.Header()
	for name, value := range aisdk.Header() {
		h.Set(name, value)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	st.out = sse.NewWriter(w, st.service.shared.WriteTimeout)
	if protocol > 1 {
		st.out.SetMultiplexed()
	}
	w.WriteHeader(http.StatusOK)
}

// write writes the message until its response is over.
func (st *stream) write(ctx context.Context) error {
	switch {
	case st.plan.Show == conversation.ShowEmpty:
		st.buffer = append(st.buffer, st.emptyTurn()...)
		return st.flush()
	case st.plan.Queued: // the id of the message is known when its run begins
	case st.state.Opening():
		st.buffer = st.message.Start(st.buffer)
	default:
		if err := st.writeHistory(ctx); err != nil {
			return err
		}
	}
	if err := st.flush(); err != nil {
		return err
	}
	st.history, st.buffer = history{}, nil // the response may be open for hours
	if err := st.writeRecords(ctx, st.ahead); err != nil {
		return err
	}
	expiry := httpkit.NewExpiry(ctx, st.service.shared.MaxStreamAge)
	tick := time.NewTicker(expiry.Wait(st.service.shared.Heartbeat))
	defer tick.Stop()
	for !st.message.Done() {
		records, err := st.tail.Next(ctx, tick.C)
		switch {
		case err != nil:
			return err
		case len(records) > 0:
			err = st.writeRecords(ctx, records)
		case !expiry.Reached(time.Now()):
			err = st.heartbeat(ctx)
			tick.Reset(expiry.Wait(st.service.shared.Heartbeat))
		}
		if errors.Is(err, errWithdrawn) {
			return nil
		}
		if err != nil {
			return err
		}
		if !st.message.Done() && expiry.Reached(time.Now()) {
			return expiry.Err()
		}
	}
	return nil
}

// writeRecords writes the frames of records up to the end of the response.
func (st *stream) writeRecords(ctx context.Context, records []chunk.Record) error {
	for _, rec := range records {
		if st.message.Done() {
			break
		}
		if err := st.writeRecord(ctx, rec); err != nil {
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
		st.counts.sent(st.awaited.id == "")
	}
	return err
}

// writeRecord converts a record to frames if it belongs to the message.
func (st *stream) writeRecord(ctx context.Context, rec chunk.Record) error {
	own := rec.Session == st.state.Session
	if st.opening() && st.awaited.id != "" {
		started, begins := st.begins(rec)
		if !own || !begins {
			return nil // of an earlier turn
		}
		if err := st.checkID(ctx, rec, started); err != nil {
			return err
		}
	}
	if own && rec.Type == chunk.TypeRunStarted {
		st.awaited.id, st.deferredPause = "", nil
	}
	st.last = rec.Cursor()
	if st.isEarlierCall(rec) {
		return nil
	}
	if rec.Type == chunk.TypeStreamPaused {
		return st.paused(ctx, rec, own)
	}
	st.buffer = st.message.append(st.buffer, rec)
	return nil
}

// opening reports whether the message begins with a run that has not begun.
func (st *stream) opening() bool { return st.plan.Queued || st.state.Opening() }

// beginQueued begins the message of a run that has waited for the end of others. The id of the answer follows from its question: that run may have ended by now,
// and the next one may have begun.
func (st *stream) beginQueued(ctx context.Context, started chunk.RunStarted) error {
	ctx, cancel := st.service.withTimeout(ctx)
	defer cancel()
	state, snap, err := st.service.logic.LoadPage(ctx, st.state.Session, st.state.AgentType)
	if err != nil {
		return err
	}
	answer := state.Answer
	if state.TurnRun.ID == st.awaited.id {
		st.earlier = earlierCalls(&state)
	} else if answer = answerToTurn(snap.Inputs(), started.Input); answer == "" {
		return errOtherMessage
	}
	st.message.MessageWriter = aisdk.New(answer, st.service.cfg.Dialect)
	st.buffer = st.message.Start(st.buffer)
	return nil
}

// answerToTurn returns the id of the answer to the messages of a turn, "" if the log does not have them.
func answerToTurn(all []fold.Input, turn []chunk.InputMessage) string {
	if len(turn) == 0 || turn[len(turn)-1].ClientMessageID == nil {
		return ""
	}
	for _, in := range all {
		if in.ClientID == *turn[len(turn)-1].ClientMessageID {
			return fold.MessageID(in.Index + 1)
		}
	}
	return ""
}

// checkID checks that the message has the id that was announced. The id was computed before the run was requested: if records follow that state, they may be a
// whole turn; and if another client requested the run, its number of messages may differ.
func (st *stream) checkID(ctx context.Context, rec chunk.Record, started chunk.RunStarted) error {
	if st.plan.Queued {
		return st.beginQueued(ctx, started)
	}
	if rec.Ordinal == st.state.Position.Ordinal+1 && len(started.Input) == len(st.state.Command.Input) {
		return nil
	}
	ctx, cancel := st.service.withTimeout(ctx)
	defer cancel()
	state, err := st.look(ctx)
	if err == nil && state.Answer != st.plan.MessageID {
		err = errOtherMessage
	}
	return err
}

// look loads the state of the chat.
func (st *stream) look(ctx context.Context) (conversation.State, error) {
	return st.service.logic.Load(ctx, st.state.Session, st.state.AgentType)
}

// begins reports whether a record starts the awaited run, and returns its run_started.
func (st *stream) begins(rec chunk.Record) (chunk.RunStarted, bool) {
	if rec.Type != chunk.TypeRunStarted {
		return chunk.RunStarted{}, false
	}
	c, err := rec.Decode()
	if err != nil {
		return chunk.RunStarted{}, false
	}
	b, ok := chunk.As[chunk.RunStarted](c)
	return b, ok && b.RunID == st.awaited.id
}

// paused handles a pause. The response must end when the user has to answer, because no client sends an answer while a response is open; and it must not end when
// the run continues without the user, because no client would reconnect.
func (st *stream) paused(ctx context.Context, rec chunk.Record, own bool) error {
	if own {
		rec.Data = bytes.Clone(rec.Data)
		st.deferredPause = &rec
	} else {
		st.buffer = st.message.append(st.buffer, rec)
	}
	if st.deferredPause == nil {
		return nil // a sub-agent waits while its parent is running
	}
	return st.checkPause(ctx)
}

// checkPause checks whether the user has to answer while the run is paused.
func (st *stream) checkPause(ctx context.Context) error {
	ctx, cancel := st.service.withTimeout(ctx)
	defer cancel()
	state, err := st.look(ctx)
	if err != nil {
		return err
	}
	if st.deferredPause == nil || state.InFlight() || state.Run.StartSeq > st.deferredPause.Seq {
		return nil // the run continues without the user, or has continued already
	}
	st.buffer = st.message.append(st.buffer, st.atTheEnd(*st.deferredPause))
	st.deferredPause = nil
	if st.message.view != nil { // what the user has to answer may be hidden from this client, and it must be able to send a message
		st.buffer = st.message.Finish(st.buffer)
	}
	return nil
}

// heartbeat writes a comment, and checks the run that is awaited.
func (st *stream) heartbeat(ctx context.Context) error {
	if err := st.out.Comment("keep-alive"); err != nil {
		return err
	}
	waiting, err := st.awaited.check(ctx)
	if errors.Is(err, errWithdrawn) {
		st.buffer = append(st.buffer, st.emptyTurn()...)
		return cmp.Or(st.flush(), err)
	}
	if err != nil || waiting == nil {
		return err
	}
	return st.writeWait(waiting)
}

var errOtherMessage = errors.New("message id differs from the announced one: an earlier turn was answered first")

func (st *stream) close() {
	if st.plan.Ahead != nil {
		st.plan.Ahead.Drop()
	}
	if st.tail != nil {
		st.tail.Close()
		st.tail = nil
	}
}
