package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
	"github.com/tailrace/tailrace/subjects"
)

// events is how many events each client gets in one round.
const events = 200

// fanout measures one session watched by many clients: a writer publishes, each
// client reads every event over a connection of its own. Chunks come through
// NATS on both sides: on two cores the clients starve the writer, so that a floor
// with its events in memory already would do other work, in fewer wake-ups.
func (l *lab) fanout() []pair {
	return []pair{{
		name: fmt.Sprintf("fanout-%d-clients", l.cfg.Clients), unit: "events", aim: 0.8,
		floor: "ordered consumer, broadcast, net/http loop",
		ours:  l.ourFanout,
		raw:   l.rawFanout,
	}}
}

func (l *lab) ourFanout(ctx context.Context, round int) (int, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, err := hub.New(hublog.Log{Reader: l.reader}, hublog.Feed{Reader: l.reader}, hub.Config{Encode: native.Encode})
	if err != nil {
		return 0, 0, err
	}
	var running errgroup.Group
	running.Go(func() error { return h.Run(ctx) })
	edge, err := sseedge.New(h, noSnapshots{}, sseedge.Config{})
	if err != nil {
		return 0, 0, err
	}
	server := httptest.NewServer(edge)
	s := chunk.RootSession("default", fmt.Sprintf("fanout-%d-%d", time.Now().UnixNano(), round))
	run, err := l.producer.Start(ctx, s, chunk.RunStarted{Mode: "execute"}, producers.AgentType("bench"))
	if err != nil {
		return 0, 0, err
	}
	units, took, err := l.watch(ctx, server.Listener.Addr().String(), "/v1/sessions/"+s.ID+"/events", func() error {
		for n := range events {
			if err := run.Emit(ctx, event(s, n)); err != nil {
				return err
			}
		}
		return run.End(ctx, nil)
	})
	cancel()
	server.CloseClientConnections()
	server.Close()
	return units, took, errors.Join(err, run.Close(), running.Wait())
}

// rawFanout does the same with nothing of ours: a bare ordered consumer hands
// each message to handlers that wait for it, and each of them writes what is
// there and flushes. No cursor is kept, nothing is checked, nobody is bounded.
func (l *lab) rawFanout(ctx context.Context, round int) (int, time.Duration, error) {
	s := chunk.RootSession("default", fmt.Sprintf("fanout-%d-%d", time.Now().UnixNano(), round))
	write, _, err := l.rawWriter(s)
	if err != nil {
		return 0, 0, err
	}
	var tail rawTail
	stop, err := l.rawFeed(ctx, s, &tail)
	if err != nil {
		return 0, 0, err
	}
	server := httptest.NewServer(&tail)
	if err := write(ctx, 0); err != nil {
		return 0, 0, err
	}
	units, took, err := l.watch(ctx, server.Listener.Addr().String(), "/", func() error {
		for n := range events + 1 {
			if err := write(ctx, n+1); err != nil {
				return err
			}
		}
		return nil
	})
	server.CloseClientConnections()
	server.Close()
	return units, took, errors.Join(err, stop())
}

// rawFeed fills the tail from a bare ordered consumer until stop is called.
func (l *lab) rawFeed(ctx context.Context, s chunk.Session, tail *rawTail) (stop func() error, err error) {
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
		tail.add(fmt.Appendf(nil, "id: %d\ndata: {\"type\":\"chunk\",\"chunk\":%s,\"sequence\":%d}\n\n", seq, m.Data(), seq))
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

// rawTail is the least that a broadcast needs: the frames so far, and a channel
// that is closed when there is one more.
type rawTail struct {
	mu     sync.Mutex
	frames [][]byte
	more   chan struct{}
}

func (t *rawTail) add(frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, frame)
	if t.more != nil {
		close(t.more)
		t.more = nil
	}
}

func (t *rawTail) after(n int) ([][]byte, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < len(t.frames) {
		return t.frames[n:], nil
	}
	if t.more == nil {
		t.more = make(chan struct{})
	}
	return nil, t.more
}

func (t *rawTail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for sent := 0; ; {
		frames, more := t.after(sent)
		if more != nil {
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
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

// watch opens the clients, waits until each has its first event, lets write go,
// and measures until the last one has the end.
func (l *lab) watch(ctx context.Context, addr, path string, write func() error) (int, time.Duration, error) {
	var opened, ended sync.WaitGroup
	group, ctx := errgroup.WithContext(ctx) // whoever fails ends the round for all
	opened.Add(l.cfg.Clients)
	for range l.cfg.Clients {
		ended.Add(1)
		group.Go(func() error {
			defer ended.Done()
			return watchOne(ctx, addr, path, sync.OnceFunc(opened.Done))
		})
	}
	opened.Wait()
	start := time.Now()
	group.Go(write)
	ended.Wait()
	took := time.Since(start)
	return l.cfg.Clients * events, took, group.Wait()
}

// watchOne is a client that does as little as can be: it counts lines with data.
func watchOne(ctx context.Context, addr, path string, opened func()) error {
	defer opened() // a client that failed must not keep the others waiting
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16<<10), nil) //nolint:bodyclose // closing would read on to an end that the floor never writes; the connection is closed
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(resp.Body, 16<<10) // without the chunks of HTTP, whose borders may cut a line
	for seen := 0; ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("after %d events: %w", seen, err)
		}
		if !strings.HasPrefix(string(line[:min(5, len(line))]), "data:") {
			continue
		}
		seen++
		opened()
		if seen == events+2 {
			return nil
		}
	}
}

// noSnapshots: no client of the benchmark asks for one.
type noSnapshots struct{}

func (noSnapshots) Snapshot(context.Context, chunk.Session, bool) (sseedge.Snapshot, error) {
	return sseedge.Snapshot{}, chunk.ErrUnknownSession
}
