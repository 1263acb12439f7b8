package httpedge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// env is an edge over a log in memory, served on connections in memory, so that all of it can run in a bubble.
type env struct {
	t      testing.TB
	log    *memlog.Log
	hub    *hub.Hub
	edge   *httpedge.Edge
	server *http.Server
	dial   func() (net.Conn, error)
	client *http.Client
	close  func()

	snapshots snapshotsOf
}

type envConfig struct {
	hub    hub.Config // sizes only
	edge   httpedge.Config
	server httpkit.ServerConfig
	tcp    bool // over loopback instead of memory

	remembered map[string]fold.Status // see snapshotsOf
}

// newEnv starts everything; the test's cleanup ends it.
func newEnv(tb testing.TB, cfg envConfig) *env {
	tb.Helper()
	w := &env{t: tb, log: newLog()}
	w.snapshots = newSnapshots(w.log, cfg.remembered)
	if cfg.edge.Authenticator == nil {
		cfg.edge.Authenticator = authtest.None(tb, "default")
	}
	var err error
	if w.edge, err = httpedge.NewWithHub(w.log, w.snapshots, cfg.edge, cfg.hub); err != nil {
		tb.Fatal(err)
	}
	w.hub = w.edge.Shared().Hub
	w.server = httpkit.NewServer(cfg.server, w.edge)
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

// record serves one request without a connection, for responses that end without the client.
func (w *env) record(method, path string, header http.Header) *httptest.ResponseRecorder {
	w.t.Helper()
	req := httptest.NewRequest(method, path, nil)
	maps.Copy(req.Header, header)
	rec := httptest.NewRecorder()
	w.edge.ServeHTTP(rec, req)
	return rec
}

// serveRequest serves one request unchanged and returns the status.
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

// snapshotsOf folds the log of a test, and remembers sessions that have expired.
type snapshotsOf struct {
	*projector.Reader

	store      *storetest.Memory
	remembered map[string]fold.Status // of sessions that expired at sequence 9
}

func newSnapshots(log *memlog.Log, remembered map[string]fold.Status) snapshotsOf {
	store := storetest.NewMemory()
	return snapshotsOf{projector.NewReader(store, completed{log}), store, remembered}
}

// save stores the present snapshot of a session.
func (s snapshotsOf) save(tb testing.TB, session chunk.Session) {
	tb.Helper()
	snap, err := s.Snapshot(tb.Context(), session)
	if err == nil {
		_, err = s.store.Save(tb.Context(), snap, 0)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (s snapshotsOf) MessagePage(ctx context.Context, session chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	if status, ok := s.remembered[session.ID]; ok {
		snap := fold.New(session).Snapshot()
		snap.Status, snap.Position = status, chunk.Position{Seq: 9, Ordinal: 9}
		return snap.MessagePage(q)
	}
	return s.Reader.MessagePage(ctx, session, q)
}

// completed is a log in which the members that a test left out of a body have a value: the edge needs none of them, a fold does. It has no session that was
// deleted, as if the store had the tombstone.
type completed struct{ *memlog.Log }

func (c completed) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		if wasDeleted(c.Session(of.Session)) {
			yield(chunk.Record{}, chunk.ErrUnknownSession)
			return
		}
		for rec, err := range c.Log.Replay(ctx, of) {
			if err == nil {
				rec.Data = complete(rec)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

func complete(rec chunk.Record) []byte {
	if _, err := rec.Decode(); err == nil {
		return rec.Data
	}
	members := map[chunk.Type]string{
		chunk.TypeRunStarted:        fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[]`, rec.Seq),
		chunk.TypeTextDelta:         `"delta":"x"`,
		chunk.TypeCheckpointCreated: fmt.Sprintf(`"runId":"r","checkpointId":"cp-%d","stepCount":1`, rec.Seq),
		chunk.TypeStreamEnd:         `"streamId":"x"`,
		chunk.TypeStreamFailed:      `"error":"x"`,
	}[rec.Type]
	return fmt.Appendf(bytes.TrimSuffix(bytes.Clone(rec.Data), []byte("}")), ",%s}", members)
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
