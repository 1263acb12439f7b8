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

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
)

// events is how many events each client gets in one round.
const events = 200

// fanout measures one session watched by many clients: a writer publishes, each
// client reads every event over a connection of its own. The floor is a handler
// that has the same bytes in memory and writes and flushes event by event.
func (l *lab) fanout() []pair {
	return []pair{{
		name: fmt.Sprintf("fanout-%d-clients", l.cfg.Clients), unit: "events", aim: 0.8,
		floor: "net/http loop, Write and Flush per event",
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
	units, took, err := l.watch(server.Listener.Addr().String(), "/v1/sessions/"+s.ID+"/events", func() error {
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

func (l *lab) rawFanout(context.Context, int) (int, time.Duration, error) {
	frames := rawFrames()
	start := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		_, _ = w.Write(frames[0])
		_ = out.Flush()
		<-start
		for _, frame := range frames[1:] {
			if _, err := w.Write(frame); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	return l.watch(server.Listener.Addr().String(), "/", func() error {
		close(start)
		return nil
	})
}

// rawFrames are the bytes of one round as the edge would write them: the start
// of the run, the events, the end.
func rawFrames() [][]byte {
	s := chunk.RootSession("default", "fanout-0000000000000000000-0")
	frame := func(n int, body chunk.Body) []byte {
		c := chunk.Chunk{AgentID: s.ID, AgentType: "bench", Timestamp: time.Now().UnixMilli(), Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			panic(err) // a body of our own that is not valid
		}
		return native.Encode(nil, chunk.Record{Seq: chunk.Seq(n), Session: s, Type: body.Type(), Data: data}, chunk.ScopeTree)
	}
	frames := [][]byte{frame(1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}
	for n := range events {
		frames = append(frames, frame(n+2, body(n)))
	}
	return append(frames, frame(events+2, chunk.StreamEnd{StreamID: s.ID}))
}

// watch opens the clients, waits until each has its first event, lets write go,
// and measures until the last one has the end.
func (l *lab) watch(addr, path string, write func() error) (int, time.Duration, error) {
	var opened, ended sync.WaitGroup
	var group errgroup.Group
	opened.Add(l.cfg.Clients)
	for range l.cfg.Clients {
		ended.Add(1)
		group.Go(func() error {
			defer ended.Done()
			return watchOne(addr, path, sync.OnceFunc(opened.Done))
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
func watchOne(addr, path string, opened func()) error {
	defer opened() // a client that failed must not keep the others waiting
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n", path); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(conn, 16<<10)
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
