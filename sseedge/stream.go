package sseedge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/sse"
)

var (
	errDrained = errors.New("the edge is being stopped")
	errCut     = errors.New("the log has nothing to go on with")
)

// stream is one open connection. It runs on the goroutine of its request, and
// needs no other for its sessions.
type stream struct {
	edge  *Edge
	seats []*seat // one for each session that it shows
	named bool    // events say which session they are of, see many.go
	out   *sse.Writer
	did   account

	waits   []<-chan struct{}
	cases   []reflect.SelectCase
	scratch []byte
}

// events serves GET /v1/sessions/{id}/events.
func (e *Edge) events(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	one, p := e.newStream(r, s)
	if p == nil {
		w.Header().Set("X-Session-Id", s.ID)
	}
	e.open(w, r, p, one)
}

// newStream is apart from events for the sake of the stack, see serve.
//
//go:noinline
func (e *Edge) newStream(r *http.Request, s chunk.Session) (*stream, *problem) {
	req, p := readStream(r, s, e.cfg.Views)
	return &stream{edge: e, seats: []*seat{newSeat(e, req)}}, p
}

// open serves a stream, if there is no problem with its request.
func (e *Edge) open(w http.ResponseWriter, r *http.Request, p *problem, s *stream) {
	if p == nil && !sse.Accepts(r.Header) {
		p = newProblem(http.StatusNotAcceptable, codeNotAcceptable, "this is an event stream", "Accept: want text/event-stream")
	}
	if p != nil {
		e.refuseStream(w, r, p)
		return
	}
	if r.Method == http.MethodHead {
		e.head(w)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if !e.enter(s, cancel) {
		// In HTTP/2 this says GOAWAY: a client of one long connection would come
		// back on it, to the edge that is being stopped.
		w.Header().Set("Connection", "close")
		e.refuseStream(w, r, draining)
		return
	}
	defer e.leave(s)
	mine := e.room.place(r, s.sessions())
	if p := e.room.limits.acquire(mine); p != nil {
		e.refuseStream(w, r, p)
		return
	}
	defer e.room.limits.release(mine)
	defer s.detach()
	if e.attach(ctx, w, r, s) {
		s.serve(ctx, w, r.ProtoMajor)
	}
}

// attach puts the stream in its places, or answers why there is none.
//
//go:noinline
func (e *Edge) attach(ctx context.Context, w http.ResponseWriter, r *http.Request, s *stream) bool {
	switch err := s.attach(ctx); {
	case errors.Is(err, hub.ErrEnded):
		e.metrics.connected("ended")
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, chunk.ErrUnknownSession):
		e.refuseStream(w, r, noStream)
	case err != nil:
		e.cfg.Log.Warn("stream refused", "session", s.seats[0].req.Session.String(), "err", err)
		e.refuseStream(w, r, unavailable)
	default:
		return true
	}
	return false
}

// head answers as GET would, without a stream.
func (e *Edge) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
}

func (s *stream) sessions() []chunk.Session {
	sessions := make([]chunk.Session, len(s.seats))
	for i, v := range s.seats {
		sessions[i] = v.req.Session
	}
	return sessions
}

// attach puts every seat in its place. hub.ErrEnded: nothing can follow for any
// of them. chunk.ErrUnknownSession: there is none of the sessions.
func (s *stream) attach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.edge.cfg.Attach)
	defer cancel()
	unknown := 0
	for _, v := range s.seats {
		err := v.attach(ctx)
		switch {
		case errors.Is(err, hub.ErrEnded):
			v.done = true
		case errors.Is(err, chunk.ErrUnknownSession):
			if unknown++; unknown == len(s.seats) {
				return err
			}
			v.lose(&chunk.TruncatedError{Session: v.target(), Reason: chunk.TruncatedExpired, After: v.req.After.Seq})
		case err != nil:
			return err
		}
		if v.req.After.Seq != 0 && v.pending == nil {
			s.edge.metrics.resumed()
		}
	}
	if s.done() {
		return hub.ErrEnded
	}
	return nil
}

func (s *stream) detach() {
	for _, v := range s.seats {
		v.detach()
	}
}

// done reports whether every session is complete, and delivered.
func (s *stream) done() bool {
	return !slices.ContainsFunc(s.seats, func(v *seat) bool { return !v.done })
}

// serve writes until every session is complete, and returns; or until anything
// else ends it, and aborts.
//
// A client spends its life in relay, on the stack of everything above it. What
// is done once, before and after, stands in functions that are not inlined:
// their frames would make the stack of every idle client twice as large.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, protocol int) {
	err := s.begin(w, protocol)
	if err == nil {
		err = s.relay(ctx)
	}
	s.finish(ctx, err)
}

//go:noinline
func (s *stream) begin(w http.ResponseWriter, protocol int) error {
	if protocol == 1 {
		// The write deadline stays on the connection, where it guards the last
		// bytes of this response and would cut the next one.
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("X-Stream-Epoch", s.epochs())
	s.out = sse.NewWriter(w, s.edge.cfg.Patience)
	if protocol > 1 {
		s.out.Multiplexed()
	}
	s.did = s.edge.metrics.open()
	return s.out.Open(s.edge.retry())
}

//go:noinline
func (s *stream) finish(ctx context.Context, err error) {
	reason := s.did.close(ctx, err)
	s.edge.cfg.Log.Log(ctx, levelOf(reason), "stream ended", "reason", reason, "session", s.seats[0].req.Session.String(),
		"duration", time.Since(s.did.opened), "events", s.did.events, "bytes", s.did.bytes, "err", err)
	if reason == endDrain {
		s.farewell()
	}
	if reason != endClean {
		panic(http.ErrAbortHandler)
	}
}

// relay moves batches from the seats to the client, and lets it hear a heartbeat
// where there are none. It returns io.EOF when every session is complete.
func (s *stream) relay(ctx context.Context) error {
	// One channel for the heartbeat and for the end: a select locks each of its
	// channels for every wake-up, and takes the timer of one in and out.
	bell := make(chan struct{}, 1)
	ring := func() {
		select {
		case bell <- struct{}{}:
		default: // it rings
		}
	}
	tick := time.AfterFunc(s.edge.cfg.Heartbeat, ring)
	defer tick.Stop()
	defer context.AfterFunc(ctx, ring)()
	for {
		said, err := s.turn(ctx)
		if err != nil {
			return err
		}
		if said {
			continue
		}
		if !s.wait(bell) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.did.silent()
		if err := s.beat(); err != nil {
			return err
		}
		tick.Reset(s.edge.cfg.Heartbeat - time.Since(s.out.Wrote()))
	}
}

// turn lets every seat say what it has, and reports whether one had something.
// If none had, s.waits is what to wait for.
func (s *stream) turn(ctx context.Context) (said bool, err error) {
	s.waits = s.waits[:0]
	for _, v := range s.seats {
		if v.done {
			continue
		}
		batch, wait, err := v.poll(ctx)
		switch {
		case errors.Is(err, io.EOF):
			v.done = true
			v.detach()
			continue
		case err != nil:
			return said, err
		case wait != nil:
			s.waits = append(s.waits, wait)
			continue
		}
		said = true
		if err := s.send(v, batch); err != nil {
			return said, err
		}
	}
	if !said && len(s.waits) == 0 {
		return false, io.EOF
	}
	return said, nil
}

// beat tells the places that hidden records moved the client to, or sends a
// comment when it has heard nothing for too long.
func (s *stream) beat() error {
	for _, v := range s.seats {
		if v.cur == nil {
			continue
		}
		if hidden := v.cur.Hidden(); hidden.Mark != 0 {
			if err := s.send(v, hidden); err != nil {
				return err
			}
		}
	}
	if time.Since(s.out.Wrote()) < s.edge.cfg.Heartbeat {
		return nil
	}
	return s.out.Comment("keepalive")
}

func (s *stream) send(v *seat, batch hub.Batch) error {
	if len(batch.Frames) == 0 && batch.Mark == 0 {
		return nil
	}
	if err := s.write(v, batch); err != nil {
		return err
	}
	s.did.sent(batch, s.out.Wrote())
	return nil
}

func (s *stream) write(v *seat, batch hub.Batch) error {
	if s.named {
		return s.sendNamed(v, batch)
	}
	id := ""
	if batch.Mark != 0 {
		id = strconv.FormatUint(uint64(batch.Mark), 10)
	}
	return s.out.Send(batch.Frames, id)
}

// wait sleeps until one of s.waits is closed, or the bell rings, and reports
// whether that was it.
func (s *stream) wait(bell <-chan struct{}) (rang bool) {
	if len(s.waits) == 1 {
		select {
		case <-bell:
			return true
		case <-s.waits[0]:
			return false
		}
	}
	return s.waitAny(bell)
}

//go:noinline
func (s *stream) waitAny(bell <-chan struct{}) (rang bool) {
	s.cases = append(s.cases[:0], reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(bell)})
	for _, wait := range s.waits {
		s.cases = append(s.cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(wait)})
	}
	chosen, _, _ := reflect.Select(s.cases)
	return chosen == 0
}
