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

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
	"github.com/tailrace/tailrace/subjects"
)

// site is an HTTP server under test.
type site struct {
	addr  string
	close func() error
}

func serve(ctx context.Context, server *http.Server) (*site, error) {
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
	return &site{addr: listener.Addr().String(), close: func() error {
		return errors.Join(server.Close(), running.Wait())
	}}, nil
}

// plainServer is what floors run on.
func plainServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
}

// edge serves with a hub that has seen nothing yet.
type edge struct {
	*site

	hub *hub.Hub
}

func (l *lab) edge(ctx context.Context) (*edge, error) {
	h, err := hub.New(hublog.Log{Reader: l.reader}, hublog.Feed{Reader: l.reader}, hub.Config{Encode: native.Encode})
	if err != nil {
		return nil, err
	}
	handler, err := sseedge.New(h, noSnapshots{}, sseedge.Config{})
	if err != nil {
		return nil, err
	}
	site, err := serve(ctx, sseedge.NewServer(sseedge.ServerConfig{}, handler))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return h.Run(ctx) })
	stop := site.close
	site.close = func() error {
		cancel()
		return errors.Join(stop(), running.Wait())
	}
	return &edge{site: site, hub: h}, nil
}

// noSnapshots: no client of the benchmark asks for one.
type noSnapshots struct{}

func (noSnapshots) Snapshot(context.Context, chunk.Session, sseedge.Want) (sseedge.Snapshot, error) {
	return sseedge.Snapshot{}, chunk.ErrUnknownSession
}

// eventsOf is the path of a session on the edge.
func eventsOf(session string) string { return "/v1/sessions/" + session + "/events" }

// stream opens an event stream of a floor, with an event that has no number.
func stream(w http.ResponseWriter) (*http.ResponseController, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_, err := io.WriteString(w, "id: 1\ndata: {\"type\":\"hello\"}\n\n")
	if err == nil {
		err = out.Flush()
	}
	return out, err
}

// page is the least that a client who catches up needs: all bytes are there and
// go out in one write. The stream stays open.
type page []byte

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// frames are the bytes that the edge sends for events first … first+n-1 of a session.
func frames(session string, first, n int) ([][]byte, error) {
	s := rootSession(session)
	all := make([][]byte, n)
	for i := range all {
		m, err := codec.Encode(s, 1, chunk.Ordinal(first+i+2), event(s, first+i), codec.FormatJSON)
		if err != nil {
			return nil, err
		}
		rec := chunk.Record{Seq: chunk.Seq(first + i + 2), Session: s, Type: chunk.TypeCustom, Data: m.Data}
		all[i] = native.Encode(nil, rec, chunk.ScopeTree)
	}
	return all, nil
}

// broadcast is the least that live clients need: for each session the frames so
// far, and a channel that is closed when there is one more. The handler writes
// what is there and flushes. No cursor is kept, nothing is checked, nobody is
// bounded. Paths are /0, /1 and so on.
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

// bell hands the next frame, made before, to the tail of a session whenever the
// crowd rings for it.
type bell struct {
	listener net.Listener
	running  errgroup.Group
}

func ringFor(ctx context.Context, tails broadcast, j job) (*bell, error) {
	made := make([][][]byte, len(j.Groups))
	for i, g := range j.Groups {
		var err error
		if made[i], err = frames(g.Session, 0, j.Events); err != nil {
			return nil, err
		}
	}
	next := make([]int, len(tails))
	return ring(ctx, func(i int) {
		tails[i].add(made[i][next[i]])
		next[i]++
	})
}

// ring calls hear with each number that the crowd rings for.
func ring(ctx context.Context, hear func(i int)) (*bell, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bell{listener: listener}
	b.running.Go(func() error {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil // nobody came
		}
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for {
			var number [4]byte
			if _, err := io.ReadFull(conn, number[:]); err != nil {
				return nil // the crowd is gone; what it missed it has said
			}
			hear(int(binary.BigEndian.Uint32(number[:])))
		}
	})
	return b, nil
}

func (b *bell) close() error { return errors.Join(b.listener.Close(), b.running.Wait()) }

// rawFeed fills a tail from a bare ordered consumer until stop is called.
func (l *lab) rawFeed(ctx context.Context, s chunk.Session, t *tail) (stop func() error, err error) {
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
			return // not a JetStream message; the clients will miss it and say so
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
