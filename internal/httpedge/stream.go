package httpedge

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/sse"
	"github.com/tailrace/tailrace/internal/wait"
)

var errLogUnavailable = errors.New("no record to continue from")

// stream is one open connection. It runs on the goroutine of its request; its sessions need no other goroutines.
type stream struct {
	edge          *Edge
	turn          *turn           // of a surface, nil for the events of sessions
	subscriptions []*subscription // one for each session
	named         bool            // events have the name of their session, see multi_session.go
	out           *sse.Writer
	expiry        httpkit.Expiry
	stats         streamStats

	waitChans []<-chan struct{}
	cases     []reflect.SelectCase
	scratch   []byte
}

// events serves GET /v1/sessions/{id}/events.
func (e *Edge) events(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	one, p := e.newStream(r, id)
	if p != nil {
		return p
	}
	w.Header().Set("X-Session-Id", id)
	return e.open(w, r, one)
}

// newStream is separate from events to keep the stack of idle clients small, see serve.
//
//go:noinline
func (e *Edge) newStream(r *http.Request, id string) (*stream, *httpkit.Problem) {
	req, p := readStream(r, chunk.RootSession("", id), e.cfg.Views)
	if p == nil {
		p = e.permit(r.Context(), &req.Session)
	}
	if p != nil {
		return nil, p
	}
	v, p := e.subscribe(r, req)
	if p != nil {
		return nil, p
	}
	return &stream{edge: e, subscriptions: []*subscription{v}}, nil
}

// open serves a stream, or returns the problem of its request.
func (e *Edge) open(w http.ResponseWriter, r *http.Request, s *stream) *httpkit.Problem {
	if !sse.Accepts(r.Header) {
		return notAcceptable
	}
	if r.Method == http.MethodHead {
		e.head(w)
		return nil
	}
	ctx, leave, ok := e.streams.Enter(r.Context())
	if !ok {
		// In HTTP/2 this header sends GOAWAY. Otherwise a client would reconnect on the same connection, to the edge that is being stopped.
		w.Header().Set("Connection", "close")
		return draining
	}
	defer leave()
	release, p := e.limiter.Acquire(r, s.sessions()...)
	if p != nil {
		return p
	}
	defer release()
	defer s.detach()
	if ended, p := e.attach(ctx, r, s); p != nil || ended {
		if ended {
			e.metrics.connected("ended")
			w.WriteHeader(http.StatusNoContent)
		}
		return p
	}
	s.serve(ctx, w, r.ProtoMajor)
	return nil
}

// attach subscribes the stream to its sessions, or returns the problem. ended: all of them are complete and delivered.
//
//go:noinline
func (e *Edge) attach(ctx context.Context, r *http.Request, s *stream) (ended bool, p *httpkit.Problem) {
	switch err := s.attach(ctx); {
	case err != nil && s.isMessage():
		return false, s.turn.of.Failed(ctx, err)
	case errors.Is(err, hub.ErrEnded):
		return true, nil
	case errors.Is(err, chunk.ErrUnknownSession):
		return false, noStream
	case errors.Is(err, errMovedPosition):
		return false, hasMoved
	case errors.Is(err, errBusy):
		return false, busy
	case err != nil:
		return false, e.notDone(unavailable, err, "stream rejected", "session", s.subscriptions[0].req.Session.String())
	}
	s.expiry = httpkit.NewExpiry(ctx, e.cfg.MaxStreamAge)
	httpkit.DropCredential(r)
	return false, nil
}

// head responds as GET does, without a stream.
func (e *Edge) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
}

func (s *stream) sessions() []chunk.Session {
	sessions := make([]chunk.Session, len(s.subscriptions))
	for i, v := range s.subscriptions {
		sessions[i] = v.req.Session
	}
	return sessions
}

// attach subscribes to every session. hub.ErrEnded: all of them are complete and delivered. chunk.ErrUnknownSession: none of them exists.
func (s *stream) attach(ctx context.Context) error {
	timeout := s.edge.cfg.AttachTimeout
	if s.isMessage() {
		timeout = s.turn.of.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unknown := 0
	for _, v := range s.subscriptions {
		err := v.source.attach(ctx)
		switch {
		case errors.Is(err, hub.ErrEnded):
			v.done = true
		case errors.Is(err, chunk.ErrUnknownSession):
			if unknown++; unknown == len(s.subscriptions) {
				return err
			}
			if v.source.unknown(); v.done {
				continue
			}
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

// isMessage reports whether the response is one message, see Turn.Replay.
func (s *stream) isMessage() bool { return s.turn != nil && s.turn.of.Replay }

func (s *stream) detach() {
	for _, v := range s.subscriptions {
		v.detach()
	}
}

// done reports whether every session is complete and delivered.
func (s *stream) done() bool {
	return !slices.ContainsFunc(s.subscriptions, func(v *subscription) bool { return !v.done })
}

// serve writes until every session is complete and returns. If the stream ends for another reason, it aborts the connection.
//
// An idle client waits in relay, with the stack frames of all callers. The work before and after relay is in functions that are not inlined: their frames
// would double the stack of every idle client.
func (s *stream) serve(ctx context.Context, w http.ResponseWriter, protocol int) {
	err := s.begin(ctx, w, protocol)
	if err == nil {
		err = s.relay(ctx)
	}
	s.finish(ctx, err)
}

//go:noinline
func (s *stream) begin(ctx context.Context, w http.ResponseWriter, protocol int) error {
	h := w.Header()
	for name, value := range dialects.Header(s.subscriptions[0].source.form()) {
		h.Set(name, value)
	}
	s.out = sse.NewWriter(w, s.edge.cfg.WriteTimeout)
	if protocol > 1 {
		s.out.SetMultiplexed()
	}
	if s.isMessage() {
		return s.beginMessage(ctx, w)
	}
	h.Set("X-Stream-Epoch", s.epochs())
	s.stats = s.edge.metrics.open()
	return s.out.Open(s.edge.retry())
}

// beginMessage sends what is written of a message before the live records.
func (s *stream) beginMessage(ctx context.Context, w http.ResponseWriter) error {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	s.stats.opened = time.Now()
	s.turn.of.Opened()
	v := s.subscriptions[0]
	return v.source.begin(ctx, func(frames []byte) error { return s.send(ctx, v, hub.Batch{Frames: frames, Records: 1}) })
}

//go:noinline
func (s *stream) finish(ctx context.Context, err error) {
	reason := s.stats.close(ctx, err)
	if s.isMessage() {
		s.turn.of.Closed(reason)
	}
	httpkit.LogStreamEnd(ctx, s.subscriptions[0].req.Session, reason, slog.Int("events", s.stats.events))
	s.edge.cfg.Log.Log(ctx, httpkit.EndLevel(reason), "stream ended", "reason", reason, "session", s.subscriptions[0].req.Session.String(),
		"duration", time.Since(s.stats.opened), "events", s.stats.events, "bytes", s.stats.bytes, "error", err)
	if reason == httpkit.EndDrain && !s.isMessage() {
		s.writeRetryHint()
	}
	if reason != httpkit.EndClean || s.out.Complete() != nil {
		panic(http.ErrAbortHandler)
	}
}

// relay sends batches of the subscriptions to the client, and heartbeats while there are none. It returns io.EOF when every session is complete.
func (s *stream) relay(ctx context.Context) error {
	// One channel for both the heartbeat and the end: for every wake-up, a select locks each of its channels, and starts and stops the timer of a timer channel.
	wake := make(chan struct{}, 1)
	signal := func() {
		wait.Signal(wake)
	}
	tick := time.AfterFunc(s.expiry.Wait(s.edge.cfg.Heartbeat), signal)
	defer tick.Stop()
	defer context.AfterFunc(ctx, signal)()
	for {
		sent, err := s.pollAll(ctx)
		if err != nil {
			return err
		}
		if sent {
			if s.expiry.Reached(s.out.LastWrite()) && !s.done() { // a stream that is never idle is not woken
				return s.expiry.Err()
			}
			continue
		}
		if !s.wait(wake) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.expiry.Reached(time.Now()) {
			return s.expiry.Err()
		}
		s.stats.silent()
		if err := s.heartbeat(ctx); err != nil {
			return err
		}
		tick.Reset(s.expiry.Wait(s.edge.cfg.Heartbeat - time.Since(s.out.LastWrite())))
	}
}

// pollAll sends the next batch of each subscription, and reports whether there was one. If not, s.waitChans are the channels to wait for.
func (s *stream) pollAll(ctx context.Context) (sent bool, err error) {
	s.waitChans = s.waitChans[:0]
	for _, v := range s.subscriptions {
		if v.done {
			continue
		}
		batch, wait, err := v.poll(ctx)
		switch {
		case errors.Is(err, io.EOF):
			v.done = true
			v.detach()
			if len(batch.Frames) == 0 {
				continue
			}
		case err != nil:
			return sent, err
		case wait != nil:
			s.waitChans = append(s.waitChans, wait)
			continue
		}
		sent = true
		if err := s.send(ctx, v, batch); err != nil {
			return sent, err
		}
	}
	if !sent && len(s.waitChans) == 0 {
		return false, io.EOF
	}
	return sent, nil
}

// heartbeat sends the positions to which hidden records moved the client, or a comment if the client got nothing for a heartbeat.
func (s *stream) heartbeat(ctx context.Context) error {
	for _, v := range s.subscriptions {
		if v.done {
			continue
		}
		if hidden := v.source.skipped(); hidden.SkipTo.Seq != 0 {
			if err := s.send(ctx, v, hidden); err != nil {
				return err
			}
		}
	}
	if time.Since(s.out.LastWrite()) >= s.edge.cfg.Heartbeat {
		if err := s.out.Comment("keepalive"); err != nil {
			return err
		}
	}
	if s.turn == nil {
		return nil
	}
	frames, err := s.turn.waiting(ctx) // after the comment: it may wait for a server that does not respond
	return cmp.Or(s.send(ctx, s.subscriptions[0], hub.Batch{Frames: frames, Records: 1}), err)
}

func (s *stream) send(ctx context.Context, v *subscription, batch hub.Batch) error {
	if len(batch.Frames) == 0 && batch.SkipTo.Seq == 0 {
		return nil
	}
	batch, hold := v.inlineBatch(ctx, batch)
	defer hold.release()
	if err := s.write(v, batch); err != nil {
		return err
	}
	s.stats.sent(batch, s.out.LastWrite())
	if s.isMessage() {
		s.turn.of.Sent(s.turn.awaited == "")
	}
	return nil
}

func (s *stream) write(v *subscription, batch hub.Batch) error {
	if s.named {
		return s.sendNamedEvent(v, batch)
	}
	id := ""
	if batch.SkipTo.Seq != 0 {
		id = batch.SkipTo.String()
	}
	return s.out.Send(batch.Frames, id)
}

// wait blocks until one of s.waitChans is closed or the wake channel is signalled, and reports whether it was.
func (s *stream) wait(wake <-chan struct{}) (woken bool) {
	if len(s.waitChans) == 1 {
		select {
		case <-wake:
			return true
		case <-s.waitChans[0]:
			return false
		}
	}
	return s.waitAny(wake)
}

//go:noinline
func (s *stream) waitAny(wake <-chan struct{}) (woken bool) {
	s.cases = append(s.cases[:0], reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(wake)})
	for _, wait := range s.waitChans {
		s.cases = append(s.cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(wait)})
	}
	chosen, _, _ := reflect.Select(s.cases)
	return chosen == 0
}
