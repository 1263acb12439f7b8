package httpedge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// A client that reads nothing is closed within its write timeout, and no other client waits for it. The bubble's connections have no buffer, so it stalls at
// once.
func TestOnlyTheStalledClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		conn := rawStream(t, w, "/v1/sessions/s1/events")
		synctest.Wait()
		late := time.Duration(0)
		f := newFollower(w, "/v1/sessions/s1/events")
		arrived := make(chan time.Time, 1)
		f.onEvent = func(event) { arrived <- time.Now() }
		go f.connect(t.Context(), -1)
		<-arrived

		began := time.Now()
		for range 30 {
			sent := time.Now()
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			late = max(late, (<-arrived).Sub(sent))
			time.Sleep(time.Second)
		}
		if late > 0 {
			t.Errorf("the one that reads got an event %s late", late)
		}
		// In the bubble reading takes no time: the pipe is empty, and the connection is closed.
		rest, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("connection of the stalled client: %v", err)
		}
		if strings.Contains(string(rest), "0\r\n\r\n") {
			t.Errorf("a stream that was cut ended cleanly: %q", rest)
		}
		if n := w.hub.Stats().Cursors; n != 1 {
			t.Errorf("%d watchers after %s", n, time.Since(began))
		}
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		<-arrived
	})
}

// rawStream sends a request and reads only the head of the response.
func rawStream(t *testing.T, w *env, path string) net.Conn {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: edge\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	head := bufio.NewReaderSize(conn, 16)
	for {
		line, err := head.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "\r\n" {
			return conn
		}
	}
}

// A slow client falls out of memory, reads the log at its own pace, and receives everything in the end; memory stays within its limit.
func TestSlowClientReadsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 64 << 10
		w := newEnv(t, envConfig{hub: hub.Config{MaxMemory: memory, PageBytes: 8 << 10}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		resp := w.get(t.Context(), "/v1/sessions/s1/events", nil)
		defer resp.Body.Close()
		const n = 2000
		peak := int64(0)
		for i := range n {
			w.log.Append(s1, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%d %s"`, i, strings.Repeat("x", 300)))
			if i%10 == 0 {
				synctest.Wait()
				peak = max(peak, w.hub.Stats().Bytes)
			}
		}
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		if peak > memory*11/10 {
			t.Errorf("%d bytes in memory, want at most %d", peak, memory)
		}
		// 4 kB/s: each part takes time, but there is progress.
		f := newFollower(w, "")
		if err := f.read(&drip{r: resp.Body}); err != nil {
			t.Fatal(err)
		}
		if got := len(f.sequences()); got != n+1 || f.events[len(f.events)-1].Type != "end" {
			t.Errorf("%d chunks, want %d", got, n+1)
		}
		if w.hub.Stats().Reads == 0 {
			t.Error("it never read the log")
		}
	})
}

// drip reads 4 kB a second.
type drip struct{ r io.Reader }

//tailrace:bubble
func (d *drip) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	return d.r.Read(b[:min(len(b), 4096)])
}

// A client disconnects while its handler waits for new records.
func TestDisconnectClosesTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		resp := w.get(t.Context(), "/v1/sessions/s1/events", nil)
		synctest.Wait()
		if n := w.hub.Stats().Cursors; n != 1 {
			t.Fatalf("%d cursors", n)
		}
		resp.Body.Close()
		synctest.Wait()
		if n := w.hub.Stats().Cursors; n != 0 {
			t.Errorf("%d cursors after the disconnect", n)
		}
		time.Sleep(time.Minute)
		if s := w.hub.Stats(); s.Topics != 0 || s.Bytes != 0 {
			t.Errorf("a minute later: %+v", s)
		}
	})
}

// Requests for unknown sessions leave no memory.
func TestUnknownSessionsCreateNoTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		synctest.Wait()
		for i := range 100 {
			if rec := w.record(http.MethodGet, fmt.Sprintf("/v1/sessions/guess-%d/events", i), nil); rec.Code != http.StatusNotFound {
				t.Fatalf("got %d", rec.Code)
			}
		}
		if s := w.hub.Stats(); s.Topics != 0 {
			t.Errorf("%d topics", s.Topics)
		}
	})
}
