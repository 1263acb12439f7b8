package httpedge_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
)

// BenchmarkFanout hands the chunks of one session to many clients over loopback, alternately by the edge and by a baseline: a handler for each client that
// waits for prebuilt frames, writes the available ones and flushes. It reports both per delivered event, and their ratio, baseline/edge. "flat" writes as fast
// as the log takes it; "paced" one event a millisecond, so that nearly every delivery is a wake-up and a system call of its own.
func BenchmarkFanout(b *testing.B) {
	for _, clients := range []int{100, 1000} {
		for _, pace := range []time.Duration{0, time.Millisecond} {
			name := map[bool]string{true: "flat", false: "paced"}[pace == 0]
			b.Run(fmt.Sprintf("clients=%d/%s", clients, name), func(b *testing.B) {
				bench := fanout{clients: clients, events: 200, pace: pace}
				var ours, baseline time.Duration
				for b.Loop() {
					baseline += bench.baseline(b)
					ours += bench.ours(b)
				}
				deliveries := float64(b.N) * float64(bench.clients) * float64(bench.events)
				b.ReportMetric(float64(ours.Nanoseconds())/deliveries, "ours-ns/event")
				b.ReportMetric(float64(baseline.Nanoseconds())/deliveries, "baseline-ns/event")
				b.ReportMetric(float64(baseline)/float64(ours), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

type fanout struct {
	clients, events int
	pace            time.Duration
}

func (f fanout) record(seq int) chunk.Record {
	data := fmt.Appendf(nil, `{"type":"text_delta","agentId":"s1","agentType":"tester","timestamp":1700000000000,"step":1,"delta":"some words, token %d "}`, seq)
	return chunk.Record{Seq: chunk.Seq(seq), Session: s1, Type: chunk.TypeTextDelta, Data: data}
}

// ours runs one round with the edge.
func (f fanout) ours(b *testing.B) time.Duration {
	b.Helper()
	w := newEnv(b, envConfig{tcp: true})
	defer w.close()
	w.log.Append(s1, chunk.TypeTextDelta, `"delta":"some words, token 1 "`)
	return f.round(b, w.dial, "/v1/sessions/s1/events", func(seq int) {
		w.log.Append(s1, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"some words, token %d "`, seq))
	})
}

// baseline runs one round with bare net/http.
func (f fanout) baseline(b *testing.B) time.Duration {
	b.Helper()
	frames := make([][]byte, f.events+2)
	for seq := range frames {
		frames[seq] = helix.Encode(nil, f.record(seq), chunk.ScopeTree)
	}
	tail := bareTail{frames: frames[1:], ready: 1, more: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: &tail}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener)
	}()
	defer func() {
		server.Close()
		<-done
	}()
	dial := func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
	return f.round(b, dial, "/", func(int) { tail.publish() })
}

// round connects all clients, waits until each has received the first event, and measures the time from the second event until the last client has received the
// last one.
func (f fanout) round(b *testing.B, dial func() (net.Conn, error), path string, publish func(seq int)) time.Duration {
	b.Helper()
	first := len(helix.Encode(nil, f.record(1), chunk.ScopeTree))
	total := first
	for seq := 2; seq <= f.events+1; seq++ {
		total += len(helix.Encode(nil, f.record(seq), chunk.ScopeTree))
	}
	var connected, finished sync.WaitGroup
	connected.Add(f.clients)
	for range f.clients {
		finished.Go(func() {
			err := f.client(dial, path, first, total, connected.Done)
			if err != nil {
				b.Error(err)
			}
		})
	}
	connected.Wait()
	began := time.Now()
	for seq := 2; seq <= f.events+1; seq++ {
		publish(seq)
		if f.pace > 0 {
			<-time.After(f.pace)
		}
	}
	finished.Wait()
	return time.Since(began)
}

func (f fanout) client(dial func() (net.Conn, error), path string, first, total int, connected func()) error {
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return dial() },
		DisableKeepAlives: true, DisableCompression: true,
	}
	resp, err := (&http.Client{Transport: transport}).Get("http://edge" + path)
	if err != nil {
		connected()
		return err
	}
	defer resp.Body.Close()
	buf := make([]byte, 16<<10)
	_, err = io.ReadFull(resp.Body, buf[:first])
	connected()
	for got := first; got < total && err == nil; {
		var n int
		n, err = resp.Body.Read(buf)
		got += n
	}
	return err
}

// bareTail is a broadcast of prebuilt frames.
type bareTail struct {
	frames [][]byte

	mu    sync.Mutex
	ready int
	more  chan struct{}
}

func (t *bareTail) publish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready++
	close(t.more)
	t.more = make(chan struct{})
}

func (t *bareTail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	sent := 0
	for {
		t.mu.Lock()
		ready, more := t.ready, t.more
		t.mu.Unlock()
		if sent == ready {
			select {
			case <-more:
				continue
			case <-r.Context().Done():
				return
			}
		}
		for ; sent < ready; sent++ {
			if _, err := w.Write(t.frames[sent]); err != nil {
				return
			}
		}
		if err := flusher.Flush(); err != nil {
			return
		}
	}
}

// BenchmarkEncode measures the encoding of a frame, which happens once for all clients.
func BenchmarkEncode(b *testing.B) {
	rec := fanout{}.record(12345)
	b.ReportAllocs()
	b.SetBytes(int64(len(rec.Data)))
	var dst []byte
	for b.Loop() {
		dst = helix.Encode(dst[:0], rec, chunk.ScopeTree)
	}
}

// BenchmarkIdle measures the memory of one more idle client, in bytes of heap and stacks, with the edge and with bare net/http.
func BenchmarkIdle(b *testing.B) {
	const clients = 2000
	for b.Loop() {
		baseline := idle(b, clients, func() (dial func() (net.Conn, error), stop func()) {
			tail := bareTail{frames: [][]byte{[]byte(": hello\n\n")}, ready: 1, more: make(chan struct{})}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &http.Server{Handler: &tail}
			go server.Serve(listener)
			return func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }, func() { server.Close() }
		})
		ours := idle(b, clients, func() (dial func() (net.Conn, error), stop func()) {
			w := newEnv(b, envConfig{tcp: true})
			w.log.Append(s1, chunk.TypeRunStarted, "")
			return w.dial, w.close
		})
		b.ReportMetric(float64(baseline)/clients, "baseline-B/client")
		b.ReportMetric(float64(ours)/clients, "ours-B/client")
	}
}

func idle(b *testing.B, clients int, start func() (func() (net.Conn, error), func())) uint64 {
	b.Helper()
	dial, stop := start()
	defer stop()
	before := inUse()
	conns := make([]net.Conn, clients)
	buf := make([]byte, 4<<10)
	for i := range conns {
		conn, err := dial()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, "GET /v1/sessions/s1/events HTTP/1.1\r\nHost: edge\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		for got := ""; !strings.HasSuffix(got, "\n\n\r\n"); { // the end of the first chunk
			n, err := conn.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			got += string(buf[:n])
		}
		conns[i] = conn
	}
	return inUse() - before
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
