package sse_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/internal/sse"
)

// conn is a ResponseWriter with the methods of net/http's, and records the calls.
type conn struct {
	header    http.Header
	status    int
	body      bytes.Buffer
	writes    []int
	flushes   int
	deadlines []time.Time
	stall     time.Duration // how long each write blocks
}

func newConn() *conn { return &conn{header: make(http.Header)} }

func (c *conn) Header() http.Header    { return c.header }
func (c *conn) WriteHeader(status int) { c.status = status }

func (c *conn) FlushError() error {
	c.flushes++
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.deadlines = append(c.deadlines, t)
	return nil
}

// Write waits as a socket does.
//
//tailrace:bubble
func (c *conn) Write(b []byte) (int, error) {
	deadline := c.deadlines[len(c.deadlines)-1]
	time.Sleep(min(c.stall, time.Until(deadline)))
	if !time.Now().Before(deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	c.writes = append(c.writes, len(b))
	return c.body.Write(b)
}

func TestOpenSendsTheHeaders(t *testing.T) {
	c := newConn()
	if err := sse.NewWriter(c, time.Second).Open(0); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store",
		"X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff",
	}
	for name, value := range want {
		if got := c.header.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
	if c.status != http.StatusOK || c.flushes != 1 {
		t.Errorf("status %d, %d flushes", c.status, c.flushes)
	}
}

// Several frames and the cursor event after them are one flush.
func TestSendIsOneFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		w := sse.NewWriter(c, time.Second)
		if err := w.Send([]byte("id: 1\ndata: a\n\nid: 2\ndata: b\n\n"), "5"); err != nil {
			t.Fatal(err)
		}
		if err := w.Comment("keepalive"); err != nil {
			t.Fatal(err)
		}
		if err := w.Event(sse.Event{Retry: time.Second}); err != nil {
			t.Fatal(err)
		}
		want := "id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 5\n\n: keepalive\n\nretry: 1000\n\n"
		if c.body.String() != want || c.flushes != 3 {
			t.Errorf("got %q in %d flushes, want %q in 3", c.body.String(), c.flushes, want)
		}
		if err := w.Comment("a\nb"); !errors.Is(err, sse.ErrUnsafe) {
			t.Errorf("got %v", err)
		}
		if err := w.Event(sse.Event{ID: "a\nb"}); !errors.Is(err, sse.ErrUnsafe) {
			t.Errorf("got %v", err)
		}
	})
}

// A client that accepts a little at a time is slow but alive: a large part of the history may take any time.
func TestSlowProgressIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		c.stall = 9 * time.Second
		w := sse.NewWriter(c, 10*time.Second)
		if err := w.Send(bytes.Repeat([]byte("x"), 200<<10), ""); err != nil {
			t.Fatal(err)
		}
		if largest := slices.Max(c.writes); largest > 16<<10 {
			t.Errorf("%d bytes under one deadline", largest)
		}
		if c.body.Len() != 200<<10 {
			t.Errorf("%d bytes arrived", c.body.Len())
		}
	})
}

func TestNoProgressIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		w := sse.NewWriter(c, 10*time.Second)
		if err := w.Open(0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.stall = time.Hour
		began := time.Now()
		err := w.Send([]byte("data: x\n\n"), "")
		waited := time.Since(began)
		if !errors.Is(err, os.ErrDeadlineExceeded) || waited < 10*time.Second || waited > 13*time.Second {
			t.Errorf("got %v after %s", err, waited)
		}
	})
}

// A thousand frames per second do not move the deadline a thousand times.
func TestDeadlineIsMovedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn()
		w := sse.NewWriter(c, 10*time.Second)
		for range 60_000 {
			if err := w.Send([]byte("data: x\n\n"), ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(c.deadlines); n > 25 {
			t.Errorf("moved %d times in a minute", n)
		}
		if since := time.Since(w.LastWrite()); since > time.Millisecond {
			t.Errorf("last write %s ago", since)
		}
	})
}

// A middleware without flush or deadlines is an error at the first event.
func TestOpenRefusesAWriterThatCannot(t *testing.T) {
	type plain struct{ http.ResponseWriter }
	if err := sse.NewWriter(plain{newConn()}, time.Second).Open(0); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(http.ErrNotSupported.Error(), "not supported") {
		t.Error("net/http changed its mind")
	}
}
