package httpedge

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
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
)

// snapshotQuery selects the state of a session. The zero snapshotQuery is the present state without the message in flight.
//
//	?partial=1        with the message in flight
//	?at=N             the state when the log ended at sequence N
//	?checkpoint=ID    the state of that checkpoint
//	?messages=N       the present state with only the last N messages
//	?parts=N          and at most the last N parts of these
//	?branch=ID        the latest branch that has that message, in the present state
type snapshotQuery struct {
	partial    bool
	messages   int       // 0: all
	parts      int       // 0: all
	at         chunk.Seq // 0: not given
	checkpoint string    // "": not given
	branch     string    // "": that of the latest message
}

// momentParameters may be given at most once.
var momentParameters = []string{"partial", "at", "checkpoint", "messages", "parts", "branch"}

// maxCheckpoint is the maximum length of a checkpoint id in a request.
const maxCheckpoint = 256

func (q *query) readSnapshotQuery() snapshotQuery {
	m := snapshotQuery{partial: q.readPartial(), checkpoint: q.values.Get("checkpoint"), branch: q.values.Get("branch")}
	if at := q.values.Get("at"); at != "" {
		cursor, ok := chunk.ParseCursor(at)
		if !ok || cursor.Seq == 0 || cursor.Anchor != 0 {
			q.refuse(codeBadCursor, "this is not a sequence", "at: want a decimal number of 1 or more")
		}
		m.at = cursor.Seq
	}
	m.messages, m.parts = q.readCount("messages", 0, maxLimit), q.readCount("parts", 0, maxParts)
	switch {
	case m.parts != 0 && m.messages == 0:
		q.refuse(codeBadParameter, "a limit of parts is one of a page", "parts: want messages with it")
	case m.branch != "" && (m.at != 0 || m.checkpoint != ""):
		q.refuse(codeBadParameter, "an earlier state has one branch", "branch: want neither at nor checkpoint with it")
	case m.messages != 0 && (m.at != 0 || m.checkpoint != ""):
		// An earlier state costs the fold of all records, also with few messages.
		q.refuse(codeBadParameter, "an earlier state has no pages", "messages: want neither at nor checkpoint with it")
	case m.checkpoint != "" && (m.at != 0 || m.partial):
		q.refuse(codeBadParameter, "a checkpoint is a moment of its own", "checkpoint: want neither at nor partial with it")
	case len(m.checkpoint) > maxCheckpoint:
		q.refuse(codeBadParameter, "this is not the id of a checkpoint", "checkpoint: want at most "+strconv.Itoa(maxCheckpoint)+" bytes")
	}
	return m
}

func (q *query) readPartial() bool {
	partial := q.values.Get("partial")
	if partial != "" && partial != "0" && partial != "1" {
		q.refuse(codeBadParameter, "unknown value", "partial: want 0 or 1")
	}
	return partial == "1"
}

// loadSnapshot returns the snapshot that the query selects, and what it takes of the budget of pages.
func (e *Edge) loadSnapshot(ctx context.Context, s chunk.Session, m snapshotQuery) (aisdk.FrontendSnapshot, *reservation, *httpkit.Problem) {
	if m.at == 0 && m.checkpoint == "" {
		return e.load(ctx, s, fold.PageQuery{Partial: m.partial, Limit: m.messages, Parts: m.parts, Branch: m.branch})
	}
	if !e.rewinds.begin(s) {
		return aisdk.FrontendSnapshot{}, nil, busy
	}
	defer e.rewinds.end(s)
	ctx, cancel := context.WithTimeout(ctx, e.cfg.HistoryTimeout)
	defer cancel()
	hold := e.reads.reserveHistory(ctx)
	if hold == nil {
		return aisdk.FrontendSnapshot{}, nil, busy
	}
	snap, err := e.loadHistory(ctx, s, m)
	if err != nil {
		hold.release()
	}
	return snap, hold, e.pastProblem(s, err)
}

func (e *Edge) loadHistory(ctx context.Context, s chunk.Session, m snapshotQuery) (aisdk.FrontendSnapshot, error) {
	if m.checkpoint != "" {
		return e.readCheckpoint(ctx, s, m.checkpoint)
	}
	return e.readAt(ctx, s, m.at, m.partial)
}

func (e *Edge) pastProblem(s chunk.Session, err error) *httpkit.Problem {
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedFuture:
		return inFuture
	case isTruncated:
		return hasExpired
	case errors.Is(err, chunk.ErrUnknownCheckpoint):
		return noCheckpoint
	case errors.Is(err, context.DeadlineExceeded):
		e.cfg.Log.Warn("historical snapshot timed out", "session", s.String())
		return takesTooLong
	}
	return e.loadProblem(s, err)
}

// historyLimiter admits one historical snapshot of a session at a time. Each may read a whole log; the budget of reads bounds them all. A request over these limits is
// rejected with a retry time, because it would otherwise wait until the others are complete.
type historyLimiter struct {
	mu   sync.Mutex // guards busy
	busy map[chunk.Session]struct{}
}

func (r *historyLimiter) begin(s chunk.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.busy[s]; taken {
		return false
	}
	if r.busy == nil {
		r.busy = make(map[chunk.Session]struct{})
	}
	r.busy[s] = struct{}{}
	return true
}

func (r *historyLimiter) end(s chunk.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, s)
}

// etag identifies the content of a page: two pages with the same etag differ only in the time at which they were made, hence it is a weak one. It begins with
// the sequence, for readability. The hash includes the content of the page, so that it also changes with the build that made the page, and if a stream is
// recreated with sequences from 1. It includes the query, so that pages of different queries differ.
func (m snapshotQuery) etag(view string, snap aisdk.FrontendSnapshot, page []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %t %d %d %q", view, m.partial, m.messages, m.at, m.checkpoint)
	if m.parts > 0 { // builds without this parameter give the same etag to the other queries
		fmt.Fprintf(sum, " %d", m.parts)
	}
	before, after, _ := bytes.Cut(page, fmt.Appendf(nil, `"timestamp":%d`, snap.Timestamp))
	sum.Write(before)
	sum.Write(after)
	return fmt.Sprintf(`W/"%d-%x"`, snap.StreamSequence, sum.Sum(nil)[:12])
}

// matches reports whether the If-None-Match header of a request contains the etag, RFC 9110 section 13.1.2: the header is a list, on one line or several, or
// "*"; weak and strong etags are equal. A malformed entry matches nothing.
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
