package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// client checks the events of one stream. It shares the processors with the
// server under test, so it does the minimum: one search for the end and one for
// the number of each event.
type client struct {
	group     group
	addr      string // of the server under test
	bearer    string // token of the header Authorization; empty for none
	headRead  bool   // the response header was read
	partial   []byte // incomplete header or size line of an HTTP chunk
	remaining int    // remaining bytes of the current HTTP chunk
	event     []byte // incomplete event

	token     []byte                      // expected text of each event; empty if events are numbered
	next, end int                         // range of the expected events
	onOpen    func()                      // called at the first event with data, if not nil
	onEvent   func(n int, read time.Time) // called for each numbered event, if not nil
}

var (
	blankLine        = []byte("\n\n")
	lineEnd          = []byte("\r\n")
	headEnd          = []byte("\r\n\r\n")
	dataLine         = []byte("\ndata:")
	numberOf         = []byte(`{"n":`)
	deltaOf          = []byte(`"delta":"`)
	statusOK         = []byte("HTTP/1.1 200 ")
	inChunks         = []byte("\r\nTransfer-Encoding: chunked\r\n")
	errResponseEnded = errors.New("response ended")
)

func (c *client) request() []byte {
	request := "GET " + c.group.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
	if c.group.After != 0 {
		request += "Last-Event-ID: " + strconv.FormatUint(c.group.After, 10) + "\r\n"
	}
	if c.bearer != "" {
		request += "Authorization: Bearer " + c.bearer + "\r\n"
	}
	return []byte(request + "\r\n")
}

// done reports whether the client has received all events.
func (c *client) done() bool { return c.onOpen == nil && c.next == c.end }

// failed adds the progress of the client to err.
func (c *client) failed(err error) error {
	return fmt.Errorf("%s before event %d of %d: %w", c.group.Path, c.next, c.end, err)
}

// feed decodes the HTTP chunks of data read from the connection.
func (c *client) feed(data []byte, read time.Time) error {
	if len(c.partial) > 0 {
		c.partial = append(c.partial, data...)
		data, c.partial = c.partial, nil
	}
	if !c.headRead {
		head, rest, whole := bytes.Cut(data, headEnd)
		if !whole {
			c.partial = bytes.Clone(data)
			return nil
		}
		if !bytes.HasPrefix(head, statusOK) || !bytes.Contains(data, inChunks) {
			return fmt.Errorf("got response %q, want a chunked stream", data)
		}
		c.headRead, data = true, rest
	}
	for len(data) > 0 {
		if c.remaining == 0 {
			line, rest, whole := bytes.Cut(data, lineEnd)
			if !whole {
				c.partial = bytes.Clone(data)
				return nil
			}
			if data = rest; len(line) == 0 {
				continue // end of the previous chunk
			}
			size, err := strconv.ParseUint(string(line), 16, 31)
			if err != nil {
				return fmt.Errorf("size of an HTTP chunk: %w", err)
			}
			if size == 0 {
				return errResponseEnded
			}
			c.remaining = int(size)
		}
		n := min(c.remaining, len(data))
		if err := c.events(data[:n], read); err != nil {
			return err
		}
		c.remaining -= n
		data = data[n:]
	}
	return nil
}

// events checks all complete events. Only an event split across reads is copied.
func (c *client) events(data []byte, read time.Time) error {
	for len(data) > 0 {
		event, rest, whole := bytes.Cut(data, blankLine)
		switch {
		case len(c.event) > 0 && data[0] == '\n' && c.event[len(c.event)-1] == '\n':
			event, rest = nil, data[1:] // the split was inside the blank line
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

// check returns an error unless numbered events arrive in order and once.
func (c *client) check(event []byte, read time.Time) error {
	// An event without data is sent before the log is read; a client counts as open
	// when it has the existing records. A chat reads the log first, and has no data
	// before the first record.
	if c.onOpen != nil && (len(c.token) > 0 || bytes.Contains(event, dataLine)) {
		c.onOpen()
		c.onOpen = nil
	}
	if len(c.token) > 0 {
		return c.checkText(event, read)
	}
	_, number, numbered := bytes.Cut(event, numberOf)
	if !numbered {
		return nil // the start of the run, or its replacement in a baseline
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
	if c.onEvent != nil {
		c.onEvent(n, read)
	}
	return nil
}

// checkText counts the tokens of a text delta. All tokens are equal, so a lost or
// repeated one shows in the total at the end.
func (c *client) checkText(event []byte, read time.Time) error {
	_, text, found := bytes.Cut(event, deltaOf)
	for found && !bytes.HasPrefix(text, []byte{'"'}) {
		if !bytes.HasPrefix(text, c.token) || c.next >= c.end {
			return fmt.Errorf("got %.40q after token %d of %d", text, c.next, c.end)
		}
		text = text[len(c.token):]
		c.next++
		if c.onEvent != nil {
			c.onEvent(c.next-1, read)
		}
	}
	return nil
}

// deliveryLog records when the events of one session were written and delivered.
type deliveryLog struct {
	base    time.Time
	clients int
	written []atomic.Int64  // by number, time since base
	got     []int           // by number, clients that have received it
	all     []chan struct{} // by number, closed when all clients have received it
}

func newDeliveryLog(base time.Time, events, clients int) *deliveryLog {
	j := &deliveryLog{
		base: base, clients: clients,
		written: make([]atomic.Int64, events), got: make([]int, events), all: make([]chan struct{}, events),
	}
	for n := range j.all {
		j.all[n] = make(chan struct{})
	}
	return j
}

func (j *deliveryLog) write(n int) { j.written[n].Store(int64(time.Since(j.base))) }

// recordDelivery records a delivery and returns its latency. Calls must be
// serialized.
func (j *deliveryLog) recordDelivery(n int, read time.Time) time.Duration {
	if j.got[n]++; j.got[n] == j.clients {
		close(j.all[n])
	}
	return read.Sub(j.base) - time.Duration(j.written[n].Load())
}
