package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/subjects"
)

// httpSite is an HTTP server under test.
type httpSite struct {
	addr  string
	close func() error
}

func serve(ctx context.Context, server *http.Server) (*httpSite, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var running errgroup.Group
	running.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return &httpSite{addr: listener.Addr().String(), close: func() error {
		return errors.Join(server.Close(), running.Wait())
	}}, nil
}

// plainServer returns the HTTP server of the baselines.
func plainServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
}

// edge is an edge with a hub with empty memory.
type edge struct {
	*httpSite

	hub *hub.Hub
}

// edge starts an edge.
func (l *harness) edge(ctx context.Context, authenticator auth.Authenticator) (*edge, error) {
	made, err := l.newEdge(authenticator)
	if err != nil {
		return nil, err
	}
	site, err := serveEdge(ctx, made)
	if err != nil {
		return nil, err
	}
	return &edge{httpSite: site, hub: made.Shared().Hub}, nil
}

// newEdge returns an edge. Without an authenticator it authenticates no request.
func (l *harness) newEdge(authenticator auth.Authenticator) (*httpedge.Edge, error) {
	if authenticator == nil {
		var err error
		if authenticator, err = authn.NewNone("default"); err != nil {
			return nil, err
		}
	}
	store, err := jssnapshots.New(l.js, jssnapshots.Config{})
	if err != nil {
		return nil, err
	}
	return httpedge.New(l.reader, projector.NewReader(store, l.reader), httpedge.Config{Authenticator: authenticator})
}

// serveEdge serves and runs an edge.
func serveEdge(ctx context.Context, made *httpedge.Edge) (*httpSite, error) {
	site, err := serve(ctx, httpkit.NewServer(httpkit.ServerConfig{}, made))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return made.Run(ctx) })
	stop := site.close
	site.close = func() error {
		cancel()
		return errors.Join(stop(), running.Wait())
	}
	return site, nil
}

// eventsOf returns the path of the events of a session on the edge.
func eventsOf(session string) string { return "/v1/sessions/" + session + "/events" }

// stream starts an event stream of a baseline with an event without a number.
func stream(w http.ResponseWriter) (*http.ResponseController, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_, err := io.WriteString(w, "id: 1\ndata: {\"type\":\"hello\"}\n\n")
	if err == nil {
		err = out.Flush()
	}
	return out, err
}

// singleWrite is the minimum for clients that catch up: all bytes are prepared
// and sent with one write. The stream stays open.
type singleWrite []byte

func (p singleWrite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out, err := stream(w)
	if err != nil {
		return
	}
	if _, err := w.Write(p); err != nil {
		return
	}
	if err := out.Flush(); err != nil {
		return
	}
	<-r.Context().Done()
}

// frames returns the bytes that the edge sends for the events first … first+n-1 of a
// session.
func frames(session string, first, n int) ([][]byte, error) {
	s := rootSession(session)
	all := make([][]byte, n)
	for i := range all {
		m, err := codec.Encode(codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(first + i + 2)}, event(s, first+i))
		if err != nil {
			return nil, err
		}
		rec := chunk.Record{Seq: chunk.Seq(first + i + 2), Session: s, Type: chunk.TypeCustom, Data: m.Data, StoredAt: time.Now()} // the id has its anchor
		all[i] = helix.Encode(nil, rec, chunk.ScopeTree)
	}
	return all, nil
}

// broadcast is the minimum for live clients: for each session the frames so
// far, and a channel that is closed when a frame is added. The handler writes
// the frames and flushes. It keeps no cursor, checks nothing and has no limits.
// Paths are /0, /1 and so on.
type broadcast []*tail

type tail struct {
	mu     sync.Mutex // guards the fields below
	frames [][]byte
	more   chan struct{}
}

func newBroadcast(sessions int) broadcast {
	b := make(broadcast, sessions)
	for i := range b {
		b[i] = &tail{more: make(chan struct{})}
	}
	return b
}

func (t *tail) add(frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, frame)
	close(t.more)
	t.more = make(chan struct{})
}

func (t *tail) after(n int) ([][]byte, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frames[n:], t.more
}

func (b broadcast) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || i < 0 || i >= len(b) {
		http.NotFound(w, r)
		return
	}
	out, err := stream(w)
	if err != nil {
		return
	}
	for sent := 0; ; {
		frames, more := b[i].after(sent)
		if len(frames) == 0 {
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
			continue
		}
		for _, frame := range frames {
			if _, err := w.Write(frame); err != nil {
				return
			}
		}
		sent += len(frames)
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// notifier passes the next prepared frame of a session to its tail on each
// notification of the load clients.
type notifier struct {
	listener net.Listener
	running  errgroup.Group
}

func startFrameNotifier(ctx context.Context, tails broadcast, j job) (*notifier, error) {
	made := make([][][]byte, len(j.Groups))
	for i, g := range j.Groups {
		var err error
		if made[i], err = frames(g.Session, 0, j.Events); err != nil {
			return nil, err
		}
	}
	next := make([]int, len(tails))
	return startNotifier(ctx, func(i int) {
		tails[i].add(made[i][next[i]])
		next[i]++
	})
}

// startNotifier calls onNumber with each session number that the load clients
// send.
func startNotifier(ctx context.Context, onNumber func(i int)) (*notifier, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &notifier{listener: listener}
	b.running.Go(func() error {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil // no connection
		}
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for {
			var number [4]byte
			if _, err := io.ReadFull(conn, number[:]); err != nil {
				return nil // the load clients have exited and reported missing events
			}
			onNumber(int(binary.BigEndian.Uint32(number[:])))
		}
	})
	return b, nil
}

func (b *notifier) close() error { return errors.Join(b.listener.Close(), b.running.Wait()) }

// rawFeed fills a tail from a bare ordered consumer until stop is called.
func (l *harness) rawFeed(ctx context.Context, s chunk.Session, t *tail) (stop func() error, err error) {
	subject, err := subjects.Layout{}.Subject(s)
	if err != nil {
		return nil, err
	}
	stream := subjects.Layout{}.Stream(0)
	cons, err := l.raw.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return nil, err
	}
	consuming, err := cons.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return // not a JetStream message; the clients report the missing event
		}
		seq := meta.Sequence.Stream
		t.add(fmt.Appendf(nil, "id: %d\ndata: {\"type\":\"chunk\",\"chunk\":%s,\"sequence\":%d}\n\n", seq, m.Data(), seq))
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		info, err := cons.Info(ctx)
		consuming.Stop()
		<-consuming.Closed()
		if err != nil {
			return err
		}
		return l.raw.DeleteConsumer(ctx, stream, info.Name)
	}, nil
}
