//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// firstPause is how long a follower waits before it comes back, half of it more
// or less. A browser takes three seconds or five, until it is told otherwise.
const firstPause = 400 * time.Millisecond

// heard is one event as a page gets it.
type heard struct {
	seq  chunk.Seq
	data string
}

// follower is an EventSource: it takes complete events, remembers the id of the
// last one, comes back by itself when the stream is cut, waits as long as the
// server said with "retry:", and is done when it gets 204. As in a browser, any
// other status than 200 is the end, and here an error.
//
// Its fields are for run alone until that has returned, but for at.
type follower struct {
	addr string // host:port of the edge, or of what stands before it
	root chunk.Session

	// liveness is the silence after which it gives a connection up, as clients
	// do that know the heartbeat. An EventSource knows none: 0 waits for ever.
	liveness time.Duration

	// dial connects to addr in a way of its own. When it is nil TCP is as it is.
	dial func(ctx context.Context) (net.Conn, error)

	// take gets each event. When it is nil they are kept in got.
	take func(heard)

	got      []heard
	statuses map[int]int   // answers by status
	refused  int           // of those with 200: told to come back, and nothing else
	silence  time.Duration // the longest between two events or heartbeats, across connections
	quiet    string        // what happened in it
	at       atomic.Uint64 // sequence of the last event

	lastID    string
	pause     time.Duration // before the next connection
	told      bool          // the server said how long that is
	lastHeard time.Time
	since     []string // what happened after that
	ended     bool     // the last event was the end of the session
}

// run follows the session until it is over. The error is the first thing that
// must not happen, or that of ctx.
func (f *follower) run(ctx context.Context) error {
	f.statuses, f.pause = make(map[int]int), firstPause
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return fmt.Errorf("%s after %d, %s ago: %w", f.root.ID, f.at.Load(), time.Since(f.lastHeard), ctx.Err())
		}
		over, err := f.connect(ctx)
		if over || err != nil {
			return err
		}
		pause := f.pause
		if !f.told {
			pause = pause/2 + rand.N(pause)
		}
		wait.Reset(pause)
	}
}

// connect opens one stream and reads it to its end. A connection that fails
// before it brings an answer is nothing that a page would notice.
func (f *follower) connect(ctx context.Context) (over bool, err error) {
	conn, err := f.reach(ctx)
	if err != nil {
		f.notef("no connection")
		return false, nil
	}
	f.notef("connected")
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReaderSize(&livelyReader{conn: conn, limit: f.liveness}, 1<<10)
	if _, err := io.WriteString(conn, f.request()); err != nil {
		return false, nil
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		f.notef("no answer")
		return false, nil
	}
	defer func() { _ = resp.Body.Close() }()
	f.notef("status %d", resp.StatusCode)
	f.statuses[resp.StatusCode]++
	switch resp.StatusCode {
	case http.StatusNoContent:
		return true, nil
	case http.StatusOK:
		return false, f.read(resp.Body)
	}
	body, err := io.ReadAll(resp.Body)
	return false, errors.Join(fmt.Errorf("%s: status %d: %s", f.root.ID, resp.StatusCode, body), err)
}

func (f *follower) reach(ctx context.Context) (net.Conn, error) {
	if f.dial != nil {
		return f.dial(ctx)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", f.addr)
}

// request has the headers by which an edge knows an EventSource.
func (f *follower) request() string {
	last := ""
	if f.lastID != "" {
		last = "Last-Event-ID: " + f.lastID + "\r\n"
	}
	return "GET /v1/sessions/" + f.root.ID + "/events HTTP/1.1\r\nHost: " + f.addr +
		"\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\n" + last + "\r\n"
}

// livelyReader fails when nothing comes for limit, unless that is 0.
type livelyReader struct {
	conn  net.Conn
	limit time.Duration
}

func (r *livelyReader) Read(p []byte) (int, error) {
	if r.limit > 0 {
		if err := r.conn.SetReadDeadline(time.Now().Add(r.limit)); err != nil {
			return 0, err
		}
	}
	return r.conn.Read(p)
}

// read takes whole events, as the HTML standard says: one without its blank line
// never was, and its id neither. A clean end is for a session that is over; the
// cut of an answer is not told from it by any browser.
func (f *follower) read(body io.Reader) error {
	lines := bufio.NewReaderSize(body, 1<<10)
	var b block
	events := 0
	for {
		line, err := lines.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF) && !f.ended:
			return fmt.Errorf("%s: a clean end after %d, where the session has none", f.root.ID, f.at.Load())
		case err != nil:
			if events == 0 && b.retries > 0 {
				f.refused++
			}
			f.notef("cut, pause %s", f.pause)
			return nil // and what was begun is forgotten
		case line != "\n":
			if err := b.add(strings.TrimSuffix(line, "\n")); err != nil {
				return fmt.Errorf("%s after %d: %w", f.root.ID, f.at.Load(), err)
			}
			continue
		}
		if b.comment || b.id != "" {
			f.hear()
			events++
		}
		if err := f.dispatch(&b); err != nil {
			return err
		}
	}
}

// hear notes that there is life.
func (f *follower) hear() {
	now := time.Now()
	if silence := now.Sub(f.lastHeard); silence > f.silence && !f.lastHeard.IsZero() {
		f.silence, f.quiet = silence, strings.Join(f.since, ", ")
	}
	f.lastHeard, f.since = now, f.since[:0]
}

// notef keeps what happens while nothing is heard.
func (f *follower) notef(format string, args ...any) {
	after := time.Since(f.lastHeard).Round(time.Millisecond)
	f.since = append(f.since, fmt.Sprintf("after %s: ", after)+fmt.Sprintf(format, args...))
}

// dispatch gives a complete block to the page.
func (f *follower) dispatch(b *block) error {
	if b.retry > 0 {
		f.pause, f.told = b.retry, true
	}
	if b.id != "" {
		f.lastID = b.id
	}
	if b.data != "" {
		seq, err := sequenceOf(f.lastID)
		if err != nil {
			return fmt.Errorf("%s: %w", f.root.ID, err)
		}
		e := heard{seq: seq, data: b.data}
		if f.take != nil {
			f.take(e)
		} else {
			f.got = append(f.got, e)
		}
		f.ended = strings.HasPrefix(b.data, `{"type":"end"`)
		f.at.Store(uint64(seq))
	}
	*b = block{retries: b.retries}
	return nil
}

// block is the lines before a blank one.
type block struct {
	id      string
	data    string
	retry   time.Duration
	comment bool
	retries int // blocks with a retry on this connection
}

func (b *block) add(line string) error {
	field, value, _ := strings.Cut(line, ": ")
	switch field {
	case "id":
		b.id = value
	case "data":
		b.data += value
	case "retry":
		ms, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		b.retry = time.Duration(ms) * time.Millisecond
		b.retries++
	case "", ":": // ": keepalive"
		b.comment = true
	default:
		return fmt.Errorf("a line of no kind: %q", line)
	}
	return nil
}

// sequenceOf reads the sequence that an id begins with.
func sequenceOf(id string) (chunk.Seq, error) {
	digits, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("id %q: want a sequence", id)
	}
	return chunk.Seq(n), nil
}

// verdict compares what a page got over all its connections with the log, event
// by event. An event that the log does not hold, such as a resync, is one too
// many.
func verdict(got, log []heard) error {
	for i, e := range got {
		switch {
		case i == len(log):
			return fmt.Errorf("event %d of %d is too much: %d %.120s", i, len(log), e.seq, e.data)
		case e == log[i]:
		case slices.Contains(log[:i], e):
			return fmt.Errorf("event %d is a repeat: %d %.120s", i, e.seq, e.data)
		case slices.Contains(log[i:], e):
			return fmt.Errorf("event %d is %d, and %d is missing or late: %.120s", i, e.seq, log[i].seq, log[i].data)
		default:
			return fmt.Errorf("event %d is %d %.120s, where the log has %d %.120s", i, e.seq, e.data, log[i].seq, log[i].data)
		}
	}
	if len(got) < len(log) {
		return fmt.Errorf("%d events, want %d: the first that is missing is %d", len(got), len(log), log[len(got)].seq)
	}
	return nil
}

// A verdict that passes everything would make every test here pass.
func TestVerdict(t *testing.T) {
	log := []heard{{1, "a"}, {3, "b"}, {7, "c"}}
	for name, got := range map[string][]heard{
		"nothing":           {},
		"a gap":             {{1, "a"}, {7, "c"}},
		"an end too early":  {{1, "a"}, {3, "b"}},
		"a repeat":          {{1, "a"}, {3, "b"}, {3, "b"}, {7, "c"}},
		"another order":     {{3, "b"}, {1, "a"}, {7, "c"}},
		"another text":      {{1, "a"}, {3, "x"}, {7, "c"}},
		"another id":        {{1, "a"}, {4, "b"}, {7, "c"}},
		"one too many":      {{1, "a"}, {3, "b"}, {7, "c"}, {8, "d"}},
		"a resync":          {{1, "a"}, {1, `{"type":"truncated"}`}, {3, "b"}, {7, "c"}},
		"the end once more": {{1, "a"}, {3, "b"}, {7, "c"}, {7, "c"}},
	} {
		if verdict(got, log) == nil {
			t.Errorf("%s: no word about it", name)
		}
	}
	if err := verdict(log, log); err != nil {
		t.Error(err)
	}
}
