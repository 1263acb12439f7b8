package sseedge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/sse"
)

// moment is which state of a session is asked for. The zero moment is now,
// without what is on its way.
//
//	?partial=1        with the message in flight
//	?at=N             as it stood when the log ended at sequence N
//	?checkpoint=ID    what that checkpoint holds
//	?messages=N       now, with the last N messages alone
type moment struct {
	partial    bool
	messages   int       // 0: all
	at         chunk.Seq // 0: not asked
	checkpoint string    // "": not asked
}

// momentParameters are given once at most.
var momentParameters = []string{"partial", "at", "checkpoint", "messages"}

// maxCheckpoint is the length of the longest id of a checkpoint that is looked for.
const maxCheckpoint = 256

func (q query) readMoment() (m moment, p *problem) {
	if m.partial, p = q.readPartial(); p != nil {
		return m, p
	}
	if at := q.values.Get("at"); at != "" {
		cursor, ok := sse.ParseCursor(at)
		if !ok || cursor.Seq == 0 || cursor.Epoch != "" {
			return m, badRequest(codeBadCursor, "this is no sequence", "at: want a decimal number of 1 or more")
		}
		m.at = chunk.Seq(cursor.Seq)
	}
	m.checkpoint = q.values.Get("checkpoint")
	if n := q.values.Get("messages"); n != "" {
		if m.messages, p = readCount("messages", n); p != nil {
			return m, p
		}
	}
	switch {
	case m.messages != 0 && (m.at != 0 || m.checkpoint != ""):
		// It would cost the fold of everything all the same.
		return m, badRequest(codeBadParameter, "an earlier state is told as a whole", "messages: want neither at nor checkpoint with it")
	case m.checkpoint != "" && (m.at != 0 || m.partial):
		return m, badRequest(codeBadParameter, "a checkpoint is a moment of its own", "checkpoint: want neither at nor partial with it")
	case len(m.checkpoint) > maxCheckpoint:
		return m, badRequest(codeBadParameter, "this is no id of a checkpoint", "checkpoint: want at most "+strconv.Itoa(maxCheckpoint)+" bytes")
	}
	return m, nil
}

func (q query) readPartial() (bool, *problem) {
	switch q.values.Get("partial") {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, badRequest(codeBadParameter, "unknown value", "partial: want 0 or 1")
}

// loadMoment is the snapshot at a moment.
func (e *Edge) loadMoment(ctx context.Context, s chunk.Session, m moment) (Snapshot, *problem) {
	if m.at == 0 && m.checkpoint == "" {
		return e.load(ctx, s, Want{Partial: m.partial, Messages: m.messages})
	}
	if e.past == nil {
		return Snapshot{}, badRequest(codeBadParameter, "earlier states are not told here", "at, checkpoint: want none")
	}
	if !e.rewinds.begin(s) {
		return Snapshot{}, busy
	}
	defer e.rewinds.end(s)
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Rewind)
	defer cancel()
	snap, err := e.rewind(ctx, s, m)
	return snap, e.pastProblem(s, err)
}

func (e *Edge) rewind(ctx context.Context, s chunk.Session, m moment) (Snapshot, error) {
	if m.checkpoint != "" {
		return e.past.Checkpoint(ctx, s, m.checkpoint)
	}
	return e.past.At(ctx, s, m.at, m.partial)
}

func (e *Edge) pastProblem(s chunk.Session, err error) *problem {
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedFuture:
		return inFuture
	case isTruncated:
		return hasExpired
	case errors.Is(err, chunk.ErrUnknownCheckpoint):
		return noCheckpoint
	case errors.Is(err, context.DeadlineExceeded):
		e.cfg.Log.Warn("an earlier state takes too long", "session", s.String())
		return takesTooLong
	}
	return e.loadProblem(s, err)
}

// rewinds bounds the work on earlier states, each of which may read a whole log:
// one for a session, and a few for all. Who is one too many is told to come back,
// because whoever waits here would wait for as long as the others may take.
type rewinds struct {
	mu   sync.Mutex // guards busy
	busy map[chunk.Session]struct{}
}

const maxRewinds = 4

func (r *rewinds) begin(s chunk.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.busy[s]; taken || len(r.busy) == maxRewinds {
		return false
	}
	if r.busy == nil {
		r.busy = make(map[chunk.Session]struct{})
	}
	r.busy[s] = struct{}{}
	return true
}

func (r *rewinds) end(s chunk.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, s)
}

// etag names what a page says: two pages with the same one differ in the time at
// which they were made and in nothing else, hence it is a weak one. It begins
// with the sequence, for people. What is hashed is what is sent, so that it also
// changes with the build that made the page, and when a stream is made again and
// counts from 1; and what was asked for, so that no page passes for another.
func (m moment) etag(view string, snap Snapshot, page []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %t %d %d %q", view, m.partial, m.messages, m.at, m.checkpoint)
	before, after, _ := bytes.Cut(page, fmt.Appendf(nil, `"timestamp":%d`, snap.Made))
	sum.Write(before)
	sum.Write(after)
	return fmt.Sprintf(`W/"%d-%x"`, snap.Position.Seq, sum.Sum(nil)[:12])
}

// matches reports whether a request has what etag names, RFC 9110 section 13.1.2:
// If-None-Match is a list, over one line or several, or "*", and weakness does not
// count. What cannot be read matches nothing.
func matches(h http.Header, etag string) bool {
	opaque := strings.TrimPrefix(etag, "W/")
	list := strings.TrimSpace(strings.Join(h.Values("If-None-Match"), ","))
	if list == "*" {
		return true
	}
	for {
		list = strings.TrimLeft(list, " \t,")
		tag, ok := strings.CutPrefix(strings.TrimPrefix(list, "W/"), `"`)
		end := strings.IndexByte(tag, '"')
		if !ok || end < 0 {
			return false
		}
		if opaque == `"`+tag[:end+1] {
			return true
		}
		list = tag[end+1:]
	}
}
