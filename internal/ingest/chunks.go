package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/wait"
)

// headerFirst is the number of the first line of a request, and of the lines of one that left it out.
const headerFirst = "Tailrace-First-Line"

// chunks serves POST …/chunks.
func (s *Server) chunks(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	p := s.appendLines(w, r, id)
	if p != nil && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // net/http would read the rest of the body first, as slowly as it arrives
	}
	return p
}

func (s *Server) appendLines(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	run, p := s.run(r, id, true)
	if p != nil {
		return p
	}
	req := ingestion.Request{Run: run, Dialect: r.URL.Query().Get("dialect"), Lax: isLax(r)}
	if text := cmp.Or(r.Header.Get(headerFirst), r.URL.Query().Get("firstLine")); text != "" {
		var err error
		if req.First, err = strconv.ParseInt(text, 10, 54); err != nil || req.First < 1 {
			return httpkit.Invalid(headerFirst + ": want a number from 1")
		}
	}
	format, ok := formatOf(r.Header)
	if !ok {
		return media
	}
	release, p := s.shared.Streams.Acquire(r, run.Session)
	if p != nil {
		return p
	}
	defer release()
	ctx, leave, ok := s.surface.Streams.Enter(r.Context())
	if !ok {
		return draining
	}
	defer leave()
	ctx, done, p := s.takeForLines(ctx, run)
	if p != nil {
		return p
	}
	defer done()
	return s.transfer(ctx, w, r, req, format)
}

// isLax reports whether a request asks for lines to be stored that are probably mistaken.
func isLax(r *http.Request) bool {
	return cmp.Or(r.Header.Get("Tailrace-Strict"), r.URL.Query().Get("strict")) == "off"
}

// formatOf returns the format of a body.
func formatOf(h http.Header) (f ingestion.Format, ok bool) {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return 0, false
	}
	charset, given := params["charset"]
	coding := h.Get("Content-Encoding")
	if given && !strings.EqualFold(charset, "utf-8") || coding != "" && !strings.EqualFold(coding, "identity") {
		return 0, false
	}
	switch media {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json":
		return ingestion.NDJSON, true
	case "text/event-stream":
		return ingestion.SSE, true
	}
	return 0, false
}

// transfer is one body that is being read.
type transfer struct {
	server  *Server
	session chunk.Session
	to      ingestion.Writer
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController

	mu          sync.Mutex // guards the fields below, and orders the read deadlines
	interrupted bool
	deadline    time.Time // of the present piece, zero for none

	appends  bool // the client has not said where the lines begin
	start    time.Time
	begun    bool  // the response
	complete bool  // the body was read to its end
	reported int64 // line
	wrote    time.Time
}

func (s *Server) transfer(ctx context.Context, w http.ResponseWriter, r *http.Request, req ingestion.Request, format ingestion.Format) *httpkit.Problem {
	attach, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	to, err := s.runs.Attach(attach, req)
	cancel()
	if err != nil {
		if p := interruption(context.Cause(ctx)); p != nil {
			return p
		}
		s.logUnavailable(ctx, req.Session, err)
		return problemOf(err)
	}
	t := &transfer{server: s, session: req.Session, to: to, w: w, r: r, appends: req.First == 0, control: http.NewResponseController(w), start: time.Now(), wrote: time.Now()}
	expiry := httpkit.NewExpiry(ctx, s.shared.MaxStreamAge)
	httpkit.DropCredential(r)
	// In HTTP/1 the response would otherwise wait for the end of the body. The body has no deadline but that of expectPiece; a client that is gone is found by the
	// heartbeats.
	if err := t.control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return httpkit.Internal
	}
	if err := t.control.SetReadDeadline(time.Time{}); err != nil {
		return httpkit.Internal
	}
	resize := s.shared.Bodies.Reserve(ctx)
	defer resize(0)
	lines := ingestion.NewLines(r.Body, format, s.cfg.MaxLine, func(bytes int) bool { return resize(bytes) && t.expectPiece(bytes) })
	p, reason := t.relay(ctx, lines, expiry)
	s.metrics.ended(reason)
	closing, cancel := s.timeout(ctx)
	defer cancel()
	if err := to.Close(closing); err != nil {
		s.shared.Log.DebugContext(ctx, "lines not stored", "session", req.Session.String(), "error", err)
	}
	return t.finish(p)
}

// relay reads the lines on a goroutine of its own, which blocks while the log accepts no more, and reports what is stored. It returns the problem of the request,
// nil for a complete one.
func (t *transfer) relay(ctx context.Context, lines *ingestion.Lines, expiry httpkit.Expiry) (*httpkit.Problem, string) {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	result := make(chan error, 1)
	active := make(chan struct{}, 1)
	go func() { result <- t.read(reading, lines, active) }()
	heartbeat := t.server.shared.Heartbeat
	tick := time.NewTimer(expiry.Wait(heartbeat))
	defer tick.Stop()
	var progress <-chan time.Time
	for reading.Err() == nil {
		var err error
		select {
		case err := <-result:
			return t.outcome(ctx, err)
		case <-active:
			if progress == nil {
				progress = time.After(t.interval())
			}
			continue
		case <-progress:
			progress = nil
			var queued bool
			if queued, err = t.progress(); queued {
				progress = time.After(t.interval())
			}
		case <-tick.C:
			err = t.heartbeat(ctx)
			tick.Reset(expiry.Wait(heartbeat - time.Since(t.wrote)))
		case <-reading.Done():
		}
		switch {
		case err != nil:
			stop(err)
		case expiry.Reached(time.Now()):
			stop(expiry.Err())
		}
	}
	t.interrupt()
	if err := <-result; err != nil {
		t.server.shared.Log.DebugContext(ctx, "body interrupted", "error", err)
	}
	return t.outcome(ctx, context.Cause(reading))
}

// expectPiece sets the time in which the buffer of a long line has to be filled: it takes memory that other clients need. Between lines there is none: a model may be
// silent for long.
func (t *transfer) expectPiece(bytes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.interrupted {
		return true
	}
	t.deadline = time.Time{}
	if bytes > 0 {
		t.deadline = time.Now().Add(t.server.cfg.RequestTimeout)
	}
	return t.control.SetReadDeadline(t.deadline) == nil
}

// isLate reports whether the present piece has taken too long. The error of the body does not tell: it ends the context of the request, which interrupts the body.
func (t *transfer) isLate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.deadline.IsZero() && !time.Now().Before(t.deadline)
}

// interrupt ends the body for the goroutine that may wait for it.
func (t *transfer) interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupted = true
	if err := t.control.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.server.shared.Log.Debug("body not interrupted", "error", err)
	}
}

// heartbeat writes an empty object, unless the client got something since the last one.
func (t *transfer) heartbeat(ctx context.Context) error {
	if t.to.Progress().Held { // the client waits for it with an open body
		flush, cancel := t.server.timeout(ctx)
		defer cancel()
		if err := t.to.Flush(flush); err != nil {
			return err
		}
		_, err := t.progress()
		return err
	}
	if time.Since(t.wrote) < t.server.shared.Heartbeat {
		return nil
	}
	return t.line(struct{}{})
}

// interval is the time between two reports of what is stored. It grows from 50 milliseconds to a second, so that the reports of a long body fit into the buffers of the connection if the client reads the
// response only when it has sent everything.
func (t *transfer) interval() time.Duration {
	return min(max(50*time.Millisecond, time.Since(t.start)/100), time.Second)
}

// bodyError is an error of reading the body.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// read writes the lines until the end of the body.
func (t *transfer) read(ctx context.Context, lines *ingestion.Lines, active chan<- struct{}) error {
	for {
		text, number, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := t.to.EndOfBody(ctx, number); err != nil {
				return err
			}
			return t.to.Flush(ctx)
		case errors.Is(err, ingestion.ErrLineTooLarge):
			return &ingestion.RefusalError{Reason: ingestion.ReasonTooLarge, Line: max(t.to.Progress().First, 1) + number - 1}
		case err != nil:
			return bodyError{err}
		}
		if err := t.to.Line(ctx, number, text); err != nil {
			return err
		}
		t.server.metrics.line(len(text))
		wait.Signal(active)
	}
}

// outcome stores what is queued, and returns the problem for err.
func (t *transfer) outcome(ctx context.Context, err error) (*httpkit.Problem, string) {
	if err == nil {
		t.complete = true
		return nil, httpkit.EndClean
	}
	if _, ofBody := errors.AsType[bodyError](err); (ofBody || errors.Is(err, context.Canceled)) && t.isLate() {
		err = os.ErrDeadlineExceeded
	}
	flush, cancel := t.server.timeout(ctx)
	defer cancel()
	if failed := t.to.Flush(flush); failed != nil {
		if _, ok := errors.AsType[bodyError](err); ok {
			err = failed
		}
		t.server.shared.Log.DebugContext(ctx, "queued lines not stored", "error", failed)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	reason := httpkit.EndReason(ctx, err)
	if p := interruption(err); p != nil {
		if p == superseded {
			reason = endSuperseded
		}
		return p, reason
	}
	if refused, ok := errors.AsType[*ingestion.RefusalError](err); ok {
		if (refused.Reason == ingestion.ReasonInvalid || refused.Reason == ingestion.ReasonType) && refused.Line > 0 {
			refused.Text += "; the lines after it were not read"
		}
		t.server.logUnavailable(ctx, t.session, err)
		if refused.Reason == ingestion.ReasonUnavailable {
			return problemOf(err), httpkit.EndError
		}
		return problemOf(err), endRefused
	}
	if reason == httpkit.EndError { // of reading the body
		reason = httpkit.EndClient
	}
	return cut, reason
}

// interruption returns the problem of a request that the server ends, nil for another error.
func interruption(err error) *httpkit.Problem {
	switch {
	case errors.Is(err, errSuperseded):
		return superseded
	case errors.Is(err, httpkit.ErrDrained):
		return draining
	case errors.Is(err, httpkit.ErrRevoked):
		return revoked
	case errors.Is(err, httpkit.ErrExpired):
		return expired
	case errors.Is(err, httpkit.ErrTooOld):
		return tooOld
	case errors.Is(err, ingestion.ErrLineMemory):
		return httpkit.TooManyBodies
	case errors.Is(err, os.ErrDeadlineExceeded):
		return httpkit.BodyTimeout
	}
	return nil
}

// reportJSON is a line of the response.
type reportJSON struct {
	Done     bool   `json:"done,omitempty"`
	Stored   int64  `json:"stored"`
	Next     int64  `json:"next,omitempty"`
	Position string `json:"position,omitempty"`
	First    int64  `json:"firstLine,omitempty"`

	Warnings []ingestion.Warning `json:"warnings,omitempty"`
}

// progress reports what is stored, if it is more than before. queued: there are lines that are not stored yet.
func (t *transfer) progress() (queued bool, err error) {
	p := t.to.Progress()
	if p.Err != nil || p.Line <= t.reported {
		return p.Queued, p.Err
	}
	t.reported = p.Line
	t.firstLine(p)
	return p.Queued, t.line(reportJSON{Stored: p.Line, Position: p.At.String()})
}

// firstLine returns the number of the first line of a request that appends, and adds it to the header of the response, unless that began before the first line arrived.
// It is 0 if it is not known, or if the client knows it.
func (t *transfer) firstLine(p ingestion.Progress) int64 {
	if !t.appends || p.First == 0 {
		return 0
	}
	if !t.begun {
		t.w.Header().Set(headerFirst, strconv.FormatInt(p.First, 10))
	}
	return p.First
}

// finish writes the end of the response, or returns the problem if the response has not begun.
func (t *transfer) finish(p *httpkit.Problem) *httpkit.Problem {
	stored := t.to.Progress()
	line, at := stored.Line, stored.At
	first := t.firstLine(stored)
	if p == nil {
		t.last(reportJSON{Done: true, Stored: line, Next: line + 1, Position: at.String(), First: first, Warnings: stored.Warned})
		return nil
	}
	more := map[string]any{"stored": line}
	if first > 0 {
		more["firstLine"] = first
	}
	if len(stored.Warned) > 0 {
		more["warnings"] = stored.Warned
	}
	maps.Copy(more, p.More)
	if at.Seq > 0 {
		more["position"] = at.String()
	}
	if !t.begun {
		return with(p, p.Detail, more)
	}
	more["code"], more["error"], more["status"] = p.Code, p.Title, p.Status
	if p.Detail != "" {
		more["detail"] = p.Detail
	}
	t.last(more)
	return nil
}

func (t *transfer) last(v any) {
	if err := t.line(v); err != nil {
		t.server.shared.Log.Debug("end of the response not delivered", "error", err)
		panic(http.ErrAbortHandler)
	}
	// What is left of the body is not waited for.
	if err := errors.Join(t.control.SetWriteDeadline(time.Time{}), t.control.SetReadDeadline(time.Now().Add(time.Second))); err != nil {
		t.server.shared.Log.Debug("deadlines not set", "error", err)
	}
}

// line writes a line of the response.
func (t *transfer) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := t.control.SetWriteDeadline(time.Now().Add(t.server.shared.WriteTimeout)); err != nil {
		return err
	}
	if !t.begun {
		t.begun = true
		h := t.w.Header()
		if t.r.ProtoMajor == 1 && !t.complete {
			h.Set("Connection", "close") // what is left of the body after an error is not the next request
		}
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
		h.Set("X-Content-Type-Options", "nosniff")
		t.w.WriteHeader(http.StatusOK)
	}
	if _, err := t.w.Write(append(text, '\n')); err != nil {
		return err
	}
	t.wrote = time.Now()
	return t.control.Flush()
}
