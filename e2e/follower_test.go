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

// firstPause is the average delay of a reconnect, randomized by half. A browser
// waits three or five seconds unless the server sends a retry field.
const firstPause = 400 * time.Millisecond

// sseEvent is one event as a client receives it.
type sseEvent struct {
	seq  chunk.Seq
	data string
}

// follower is an EventSource: it reads complete events, keeps the id of the
// last one, reconnects when the stream is cut, after the delay of the last
// "retry:" field, and ends at status 204. As in a browser, any other status
// than 200 ends it, which is an error here.
//
// Its fields, except at, belong to run until run has returned.
type follower struct {
	addr string // host:port of the edge or of a proxy in front of it
	root chunk.Session

	// liveness is the silence after which it reconnects, as clients with a
	// heartbeat timeout do. An EventSource has no timeout: 0 waits
	// indefinitely.
	liveness time.Duration

	// dial connects to addr. Defaults to a TCP dialer.
	dial func(ctx context.Context) (net.Conn, error)

	// token returns the bearer token of the next connection; nil for none. An error ends the follower.
	token func(ctx context.Context) (string, error)

	// onEvent receives each event. If it is nil, the events are kept in got.
	onEvent func(sseEvent)

	got             []sseEvent
	statuses        map[int]int   // responses by status
	refused         int           // responses with status 200 and only a retry field
	silence         time.Duration // the longest time between two events or heartbeats, across connections
	silenceActivity string        // what happened during the longest silence
	waited          time.Duration // the largest sum of the pauses before its connections between two events or heartbeats
	at              atomic.Uint64 // sequence of the last event

	authorization string // header of the connection

	lastID   string
	pause    time.Duration // before the next connection
	hasRetry bool          // pause was set by the server
	lastData time.Time
	activity []string      // what happened since lastData
	pauses   time.Duration // since lastData
	ended    bool          // the last event was the end of the session
}

// run follows the session until it ends. The error is the first violation, or
// that of ctx.
func (f *follower) run(ctx context.Context) error {
	f.statuses, f.pause = make(map[int]int), firstPause
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return fmt.Errorf("%s after %d, %s ago: %w", f.root.ID, f.at.Load(), time.Since(f.lastData), ctx.Err())
		}
		over, err := f.connect(ctx)
		if over || err != nil {
			return err
		}
		pause := f.pause
		if !f.hasRetry {
			pause = pause/2 + rand.N(pause)
		}
		f.pauses += pause
		wait.Reset(pause)
	}
}

// connect opens one stream and reads it to its end. A connection that fails
// before a response is not an error for a browser either.
func (f *follower) connect(ctx context.Context) (over bool, err error) {
	if f.token != nil {
		token, err := f.token(ctx)
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.root.ID, err)
		}
		f.authorization = "Authorization: Bearer " + token + "\r\n"
	}
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
		f.notef("no response")
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

// request has the headers by which an edge recognizes an EventSource.
func (f *follower) request() string {
	last := ""
	if f.lastID != "" {
		last = "Last-Event-ID: " + f.lastID + "\r\n"
	}
	return "GET /v1/sessions/" + f.root.ID + "/events HTTP/1.1\r\nHost: " + f.addr +
		"\r\nAccept: text/event-stream\r\nCache-Control: no-cache\r\n" + f.authorization + last + "\r\n"
}

// livelyReader fails if nothing arrives for limit, unless that is 0.
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

// read reads complete events as defined by the HTML standard: an event without
// its blank line is ignored, including its id. A clean end is allowed only for
// an ended session, because browsers cannot distinguish it from a cut.
func (f *follower) read(body io.Reader) error {
	lines := bufio.NewReaderSize(body, 1<<10)
	var b block
	events := 0
	for {
		line, err := lines.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF) && !f.ended:
			return fmt.Errorf("%s: clean end after %d, but the session has not ended", f.root.ID, f.at.Load())
		case err != nil:
			if events == 0 && b.retries > 0 {
				f.refused++
			}
			f.notef("cut, pause %s", f.pause)
			return nil // an incomplete event is ignored
		case line != "\n":
			if err := b.add(strings.TrimSuffix(line, "\n")); err != nil {
				return fmt.Errorf("%s after %d: %w", f.root.ID, f.at.Load(), err)
			}
			continue
		}
		if b.comment || b.id != "" {
			f.markAlive()
			events++
		}
		if err := f.dispatch(&b); err != nil {
			return err
		}
	}
}

// markAlive records that data has arrived.
func (f *follower) markAlive() {
	now := time.Now()
	if silence := now.Sub(f.lastData); silence > f.silence && !f.lastData.IsZero() {
		f.silence, f.silenceActivity = silence, strings.Join(f.activity, ", ")
	}
	if !f.lastData.IsZero() {
		f.waited = max(f.waited, f.pauses)
	}
	f.lastData, f.activity, f.pauses = now, f.activity[:0], 0
}

// notef records what happens during a silence.
func (f *follower) notef(format string, args ...any) {
	after := time.Since(f.lastData).Round(time.Millisecond)
	f.activity = append(f.activity, fmt.Sprintf("after %s: ", after)+fmt.Sprintf(format, args...))
}

// dispatch processes a complete block.
func (f *follower) dispatch(b *block) error {
	if b.retry > 0 {
		f.pause, f.hasRetry = b.retry, true
	}
	if b.id != "" {
		f.lastID = b.id
	}
	if b.data != "" {
		seq, err := sequenceOf(f.lastID)
		if err != nil {
			return fmt.Errorf("%s: %w", f.root.ID, err)
		}
		e := sseEvent{seq: seq, data: b.data}
		if f.onEvent != nil {
			f.onEvent(e)
		} else {
			f.got = append(f.got, e)
		}
		f.ended = strings.HasPrefix(b.data, `{"type":"end"`)
		f.at.Store(uint64(seq))
	}
	*b = block{retries: b.retries}
	return nil
}

// block is the lines up to a blank line.
type block struct {
	id      string
	data    string
	retry   time.Duration
	comment bool
	retries int // blocks with a retry field on this connection
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
		return fmt.Errorf("invalid line %q", line)
	}
	return nil
}

// sequenceOf returns the sequence at the start of an id.
func sequenceOf(id string) (chunk.Seq, error) {
	digits, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("id %q: want a sequence", id)
	}
	return chunk.Seq(n), nil
}

// compareEvents compares the events that a client received over all its
// connections with the log. An event that is not in the log, such as a resync,
// is an extra event.
func compareEvents(got, log []sseEvent) error {
	for i, e := range got {
		switch {
		case i == len(log):
			return fmt.Errorf("event %d of %d is not in the log: %d %.120s", i, len(log), e.seq, e.data)
		case e == log[i]:
		case slices.Contains(log[:i], e):
			return fmt.Errorf("event %d is a duplicate: %d %.120s", i, e.seq, e.data)
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

// compareEvents finds every difference; otherwise the tests that use it could
// not fail.
func TestCompareEvents(t *testing.T) {
	log := []sseEvent{{1, "a"}, {3, "b"}, {7, "c"}}
	for name, got := range map[string][]sseEvent{
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
		if compareEvents(got, log) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := compareEvents(log, log); err != nil {
		t.Error(err)
	}
}
