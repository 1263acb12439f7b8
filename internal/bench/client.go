package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// client checks what one stream brings. It shares the processors with the
// server under test, so it does what must be done and no more: one look for the
// end and one for the number of each event.
type client struct {
	group group
	begun bool   // the head of the response was read
	part  []byte // what was read and is not complete: of the head, or of the size of an HTTP chunk
	left  int    // bytes of the present HTTP chunk that are to come
	event []byte // the beginning of an event that is not complete

	token     []byte                      // what each event is, in a text; empty: they have numbers
	next, end int                         // numbers of the events it waits for
	hello     func()                      // called at the first event with data, if not nil
	take      func(n int, read time.Time) // called for each numbered event, if not nil
}

var (
	blankLine = []byte("\n\n")
	lineEnd   = []byte("\r\n")
	headEnd   = []byte("\r\n\r\n")
	dataLine  = []byte("\ndata:")
	numberOf  = []byte(`{"n":`)
	deltaOf   = []byte(`"delta":"`)
	statusOK  = []byte("HTTP/1.1 200 ")
	inChunks  = []byte("\r\nTransfer-Encoding: chunked\r\n")
	errOver   = errors.New("the response is over")
)

func (c *client) request() []byte {
	request := "GET " + c.group.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
	if c.group.After != 0 {
		request += "Last-Event-ID: " + strconv.FormatUint(c.group.After, 10) + "\r\n"
	}
	return []byte(request + "\r\n")
}

// done reports whether the client has everything.
func (c *client) done() bool { return c.hello == nil && c.next == c.end }

// failed says how far the client came.
func (c *client) failed(err error) error {
	return fmt.Errorf("%s before event %d of %d: %w", c.group.Path, c.next, c.end, err)
}

// feed takes what was read from the connection, out of its HTTP chunks.
func (c *client) feed(data []byte, read time.Time) error {
	if len(c.part) > 0 {
		c.part = append(c.part, data...)
		data, c.part = c.part, nil
	}
	if !c.begun {
		head, rest, whole := bytes.Cut(data, headEnd)
		if !whole {
			c.part = bytes.Clone(data)
			return nil
		}
		if !bytes.HasPrefix(head, statusOK) || !bytes.Contains(data, inChunks) {
			return fmt.Errorf("want a stream, got %q", data)
		}
		c.begun, data = true, rest
	}
	for len(data) > 0 {
		if c.left == 0 {
			line, rest, whole := bytes.Cut(data, lineEnd)
			if !whole {
				c.part = bytes.Clone(data)
				return nil
			}
			if data = rest; len(line) == 0 {
				continue // the end of the chunk before
			}
			size, err := strconv.ParseUint(string(line), 16, 31)
			if err != nil {
				return fmt.Errorf("size of an HTTP chunk: %w", err)
			}
			if size == 0 {
				return errOver
			}
			c.left = int(size)
		}
		n := min(c.left, len(data))
		if err := c.events(data[:n], read); err != nil {
			return err
		}
		c.left -= n
		data = data[n:]
	}
	return nil
}

// events looks at every event that is complete. Only what a border cuts is copied.
func (c *client) events(data []byte, read time.Time) error {
	for len(data) > 0 {
		event, rest, whole := bytes.Cut(data, blankLine)
		switch {
		case len(c.event) > 0 && data[0] == '\n' && c.event[len(c.event)-1] == '\n':
			event, rest = nil, data[1:] // the border was in the blank line
		case !whole:
			c.event = append(c.event, data...)
			return nil
		}
		if len(c.event) > 0 {
			c.event = append(c.event, event...)
			event = c.event
		}
		if err := c.check(event, read); err != nil {
			return err
		}
		c.event = c.event[:0]
		data = rest
	}
	return nil
}

// check sees to it that numbered events come in order, each once.
func (c *client) check(event []byte, read time.Time) error {
	// An event without data is said before the log is read; who counts as open
	// has what is there already. A chat reads the log first, and has no data before
	// somebody speaks.
	if c.hello != nil && (len(c.token) > 0 || bytes.Contains(event, dataLine)) {
		c.hello()
		c.hello = nil
	}
	if len(c.token) > 0 {
		return c.checkText(event, read)
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
		return fmt.Errorf("got event %d, want %d", n, c.next)
	}
	c.next++
	if c.take != nil {
		c.take(n, read)
	}
	return nil
}

// checkText counts the tokens of a piece of text. They are all the same, so that a
// lost one and a repeated one show in the sum, and at the end.
func (c *client) checkText(event []byte, read time.Time) error {
	_, text, said := bytes.Cut(event, deltaOf)
	for said && !bytes.HasPrefix(text, []byte{'"'}) {
		if !bytes.HasPrefix(text, c.token) || c.next >= c.end {
			return fmt.Errorf("got %.40q behind token %d of %d", text, c.next, c.end)
		}
		text = text[len(c.token):]
		c.next++
		if c.take != nil {
			c.take(c.next-1, read)
		}
	}
	return nil
}

// journal knows when the events of one session were written, and hears of every
// delivery.
type journal struct {
	base    time.Time
	clients int
	written []atomic.Int64  // by number, time since base
	got     []int           // by number, how many clients have it
	all     []chan struct{} // by number, closed when all of them do
}

func newJournal(base time.Time, events, clients int) *journal {
	j := &journal{
		base: base, clients: clients,
		written: make([]atomic.Int64, events), got: make([]int, events), all: make([]chan struct{}, events),
	}
	for n := range j.all {
		j.all[n] = make(chan struct{})
	}
	return j
}

func (j *journal) write(n int) { j.written[n].Store(int64(time.Since(j.base))) }

// took notes a delivery, and returns how long it took. It is called by one
// goroutine at a time.
func (j *journal) took(n int, read time.Time) time.Duration {
	if j.got[n]++; j.got[n] == j.clients {
		close(j.all[n])
	}
	return read.Sub(j.base) - time.Duration(j.written[n].Load())
}
