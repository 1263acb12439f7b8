package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// client reads one stream and checks it. It shares the processors with the
// server under test, so it does what must be done and no more: one read of the
// connection, one look for the end and one for the number of each event.
type client struct {
	raw  []byte // what the connection gave and was not looked at yet
	body []byte // of the response: an event that has begun
	left int    // bytes of the present HTTP chunk that are to come
	over bool   // the response has ended

	next, end int         // numbers of the events it waits for
	hello     func()      // called at the first event, if not nil
	take      func(n int) // called for each numbered event, if not nil
}

var (
	blankLine  = []byte("\n\n")
	lineEnd    = []byte("\r\n")
	numberOf   = []byte(`"n":`)
	endOfHead  = []byte("\r\n\r\n")
	chunkedEnc = []byte("\r\nTransfer-Encoding: chunked\r\n")
)

// read reads until the client has everything, or until ctx ends.
func (c *client) read(ctx context.Context, addr string, g group, room int) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	request := "GET " + g.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
	if g.After != 0 {
		request += "Last-Event-ID: " + strconv.FormatUint(g.After, 10) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return err
	}
	c.raw = make([]byte, 0, room)
	if err := c.head(conn); err != nil {
		return err
	}
	for {
		if err := c.events(); err != nil {
			return fmt.Errorf("%s: %w", g.Path, err)
		}
		if c.hello == nil && c.next == c.end {
			return nil
		}
		if err := c.more(conn); err != nil {
			return fmt.Errorf("%s ended before event %d of %d: %w", g.Path, c.next, c.end, err)
		}
	}
}

// more reads what is there.
func (c *client) more(conn net.Conn) error {
	if c.over {
		return io.EOF
	}
	n, err := conn.Read(c.raw[len(c.raw):cap(c.raw)])
	c.raw = c.raw[:len(c.raw)+n]
	return err
}

// head reads the head of the response.
func (c *client) head(conn net.Conn) error {
	for {
		if err := c.more(conn); err != nil {
			return fmt.Errorf("no response: %w", err)
		}
		i := bytes.Index(c.raw, endOfHead)
		if i < 0 {
			continue
		}
		head := c.raw[:i+2]
		if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || !bytes.Contains(head, chunkedEnc) {
			return fmt.Errorf("want a stream, got %q", c.raw)
		}
		c.raw = c.raw[:copy(c.raw, c.raw[i+len(endOfHead):])]
		return nil
	}
}

// events takes what was read out of its HTTP chunks and looks at every event
// that is complete.
func (c *client) events() error {
	if err := c.unchunk(); err != nil {
		return err
	}
	body := c.body
	for {
		event, rest, whole := bytes.Cut(body, blankLine)
		if !whole {
			break
		}
		body = rest
		if err := c.event(event); err != nil {
			return err
		}
	}
	c.body = c.body[:copy(c.body, body)]
	return nil
}

func (c *client) unchunk() error {
	raw := c.raw
	for len(raw) > 0 && !c.over {
		if c.left == 0 {
			line, rest, whole := bytes.Cut(raw, lineEnd)
			if !whole {
				break
			}
			if raw = rest; len(line) == 0 {
				continue // the end of the chunk before
			}
			size, err := strconv.ParseUint(string(line), 16, 31)
			if err != nil {
				return fmt.Errorf("size of an HTTP chunk: %w", err)
			}
			c.left, c.over = int(size), size == 0
		}
		n := min(c.left, len(raw))
		c.body = append(c.body, raw[:n]...)
		c.left -= n
		raw = raw[n:]
	}
	c.raw = c.raw[:copy(c.raw, raw)]
	return nil
}

// event checks that numbered events come in order, each once.
func (c *client) event(event []byte) error {
	if c.hello != nil {
		c.hello()
		c.hello = nil
	}
	_, number, numbered := bytes.Cut(event, numberOf)
	if !numbered {
		return nil // the beginning of the run, or what a floor says in its place
	}
	n := 0
	for _, digit := range number {
		if digit < '0' || digit > '9' {
			break
		}
		n = 10*n + int(digit-'0')
	}
	if n != c.next || n >= c.end {
		return fmt.Errorf("got event %d, want %d of %d", n, c.next, c.end)
	}
	c.next++
	if c.take != nil {
		c.take(n)
	}
	return nil
}

// journal knows when the events of one session were written, and hears of every
// delivery.
type journal struct {
	base    time.Time
	written []atomic.Int64  // by number, time since base
	got     []atomic.Int32  // by number, how many clients have it
	all     []chan struct{} // by number, closed when all of them do
	clients int32
}

func newJournal(base time.Time, events, clients int) *journal {
	j := &journal{
		base: base, clients: int32(clients),
		written: make([]atomic.Int64, events), got: make([]atomic.Int32, events), all: make([]chan struct{}, events),
	}
	for n := range j.all {
		j.all[n] = make(chan struct{})
	}
	return j
}

func (j *journal) write(n int) { j.written[n].Store(int64(time.Since(j.base))) }

// took notes a delivery at a time since base, and returns how long it took.
func (j *journal) took(n int, now time.Duration) time.Duration {
	if j.got[n].Add(1) == j.clients {
		close(j.all[n])
	}
	return now - time.Duration(j.written[n].Load())
}
