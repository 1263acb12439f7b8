package sseedge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/sseedge"
)

// env is an edge over a log in memory, served on connections in memory, so
// that all of it can run in a bubble.
type env struct {
	t      testing.TB
	log    *memlog.Log
	hub    *hub.Hub
	edge   *sseedge.Edge
	server *http.Server
	dial   func() (net.Conn, error)
	client *http.Client
	close  func()
}

type worldConfig struct {
	hub    hub.Config // sizes only
	edge   sseedge.Config
	server sseedge.ServerConfig
	tcp    bool // over loopback instead of memory

	remembered map[string]string // see snapshotsOf
}

// newEnv starts everything; the test's cleanup ends it.
func newEnv(tb testing.TB, cfg worldConfig) *env {
	tb.Helper()
	w := &env{t: tb, log: newLog()}
	var err error
	if w.edge, err = sseedge.NewWithHub(w.log, snapshotsOf{w.log, cfg.remembered}, cfg.edge, cfg.hub); err != nil {
		tb.Fatal(err)
	}
	w.hub = w.edge.Shared().Hub
	w.server = sseedge.NewServer(cfg.server, w.edge)
	w.serve(cfg.tcp)
	return w
}

// serve runs hub and server until the test ends, over loopback or in its bubble.
func (w *env) serve(tcp bool) {
	var listener net.Listener
	if tcp {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			w.t.Fatal(err)
		}
		w.dial = func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
	} else {
		memory := newMemoryListener()
		listener, w.dial = memory, memory.dial
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.edge.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	running.Go(func() {
		if err := w.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			w.t.Error(err)
		}
	})
	transport := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return w.dial() },
		DisableCompression: true,
	}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.close = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		w.server.Close()
		running.Wait()
		if !tcp {
			sleepUntilClosed()
		}
	})
	w.t.Cleanup(w.close)
}

// sleepUntilClosed sleeps until net/http has closed the connections that it kept open for clients to read a refusal.
//
//tailrace:bubble
func sleepUntilClosed() { time.Sleep(time.Second) }

// get opens a stream or page.
func (w *env) get(ctx context.Context, path string, header http.Header) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge"+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("GET %s: %v", path, err)
	}
	return resp
}

// record serves one request without a connection, for what ends by itself.
func (w *env) record(method, path string, header http.Header) *httptest.ResponseRecorder {
	w.t.Helper()
	req := httptest.NewRequest(method, path, nil)
	maps.Copy(req.Header, header)
	rec := httptest.NewRecorder()
	w.edge.ServeHTTP(rec, req)
	return rec
}

// serveRequest serves one request as it is and returns the status.
func (w *env) serveRequest(req *http.Request) int {
	rec := httptest.NewRecorder()
	w.edge.ServeHTTP(rec, req)
	return rec.Code
}

// memoryListener accepts connections made of net.Pipe.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }

// snapshotsOf folds nothing: the edge uses only the position of a snapshot.
type snapshotsOf struct {
	log        *memlog.Log
	remembered map[string]string // status of sessions that expired at sequence 9
}

func (s snapshotsOf) Snapshot(ctx context.Context, session chunk.Session, want sseedge.SnapshotQuery) (sseedge.Snapshot, error) {
	if status, ok := s.remembered[session.ID]; ok {
		return sseedge.Snapshot{Status: status, Position: chunk.Position{Seq: 9, Ordinal: 9}}, nil
	}
	if _, err := s.log.Last(ctx, session); err != nil {
		return sseedge.Snapshot{}, err
	}
	records := s.log.Session(session)
	if wasDeleted(records) {
		return sseedge.Snapshot{}, chunk.ErrUnknownSession
	}
	return part(foldOf(records, want.Partial), want)
}

func (s snapshotsOf) SnapshotAt(_ context.Context, session chunk.Session, seq chunk.Seq, partial bool) (sseedge.Snapshot, error) {
	if seq > s.log.End() {
		return sseedge.Snapshot{}, &chunk.TruncatedError{Session: session, Reason: chunk.TruncatedFuture, After: seq}
	}
	records := s.log.Session(session)
	beyond := slices.IndexFunc(records, func(rec chunk.Record) bool { return rec.Seq > seq })
	switch {
	case wasDeleted(records):
		return sseedge.Snapshot{}, chunk.ErrUnknownSession
	case len(records) > 0 && records[0].Ordinal > 1:
		return sseedge.Snapshot{}, &chunk.TruncatedError{Session: session, Reason: chunk.TruncatedExpired}
	case len(records) == 0, beyond == 0:
		return sseedge.Snapshot{}, chunk.ErrUnknownSession
	case beyond < 0:
		beyond = len(records)
	}
	return foldOf(records[:beyond], partial), nil
}

// SnapshotAtCheckpoint takes "cp-17" for the one that the record at 17 made.
func (s snapshotsOf) SnapshotAtCheckpoint(ctx context.Context, session chunk.Session, id string) (sseedge.Snapshot, error) {
	for _, rec := range s.log.Session(session) {
		if rec.Type == chunk.TypeCheckpointCreated && id == fmt.Sprintf("cp-%d", rec.Seq) {
			snap, err := s.SnapshotAt(ctx, session, rec.Seq, true)
			snap.Status = "ended"
			return snap, err
		}
	}
	return sseedge.Snapshot{}, chunk.ErrUnknownCheckpoint
}

func foldOf(records []chunk.Record, partial bool) sseedge.Snapshot {
	snap := sseedge.Snapshot{Status: "active", GeneratedAt: time.Now().UnixMilli()}
	var at, start chunk.Position
	for _, rec := range records {
		switch rec.Type {
		case chunk.TypeRunStarted:
			start, snap.Status = at, "active"
		case chunk.TypeStreamEnd:
			snap.Status = "ended"
		case chunk.TypeStreamFailed:
			snap.Status = "failed"
		case chunk.TypeTextDelta:
			id := fmt.Sprintf("msg-%d", len(snap.Messages))
			snap.Messages = append(snap.Messages, sseedge.UIMessage{ID: id, JSON: chunk.Value(`{"id":"` + id + `"}`)})
		}
		at = rec.Position()
	}
	snap.Position = at
	if snap.Status == "active" && !partial && start.Seq != 0 {
		snap.Position = start
	}
	snap.JSON = fmt.Appendf(nil, `{"streamSequence":%d,"timestamp":%d}`, snap.Position.Seq, snap.GeneratedAt)
	return snap
}

// part is a snapshot with what is wanted of its messages.
func part(snap sseedge.Snapshot, want sseedge.SnapshotQuery) (sseedge.Snapshot, error) {
	if want.Messages == 0 {
		return snap, nil
	}
	end, before := len(snap.Messages), "null"
	if want.Before != "" {
		end = slices.IndexFunc(snap.Messages, func(m sseedge.UIMessage) bool { return m.ID == want.Before })
	}
	if end < 0 {
		return snap, chunk.ErrUnknownMessage
	}
	start := max(0, end-want.Messages)
	if start > 0 {
		snap.Before = &snap.Messages[start].ID
		before = strconv.Quote(*snap.Before)
	}
	snap.Messages = snap.Messages[start:end]
	snap.JSON = fmt.Appendf(bytes.TrimSuffix(snap.JSON, []byte("}")), `,"before":%s}`, before)
	return snap, nil
}

func newLog() *memlog.Log { return memlog.New() }

func readAll(tb testing.TB, r io.Reader) string {
	tb.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
