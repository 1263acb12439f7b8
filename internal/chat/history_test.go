package chat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/projector/fold"
)

// testHistoryBytes is the size of a history that the edges of newEdge keep, 0 for the default.
var testHistoryBytes int

// TestLongHistories repeats tests with histories that are read from the log for each pass: the frames are the same.
func TestLongHistories(t *testing.T) {
	testHistoryBytes = 1
	defer func() { testHistoryBytes = 0 }()
	for name, test := range map[string]func(*testing.T){
		"ClientTool": TestClientTool, "Approval": TestApproval, "Reconnect": TestReconnect, "TailOverASuspension": TestTailOverASuspension,
		"CursorInRemovedStep": TestCursorInRemovedStep, "ReconnectDuringACleanup": TestReconnectDuringACleanup, "FiftyContinuations": TestFiftyContinuations, "RegenerateAndEdit": TestRegenerateAndEdit,
	} {
		t.Run(name, test)
	}
}

// longTurn is a log of one turn with many steps, which is made while it is read.
type longTurn struct {
	session chunk.Session
	steps   int
	next    int // number of the next record, from 0; three for each step
	data    []byte
}

func (l *longTurn) seq() chunk.Seq { return chunk.Seq(l.next + 2) }
func (l *longTurn) Close()         {}

func (l *longTurn) Poll(context.Context) (hub.Batch, <-chan struct{}, error) {
	step := int64(l.next/3 + 1)
	body := []chunk.Body{chunk.StepStart{}, chunk.TextDelta{Delta: strings.Repeat("word ", 40)}, chunk.StepEnd{}}[l.next%3]
	var err error
	l.data, err = chunk.Chunk{AgentID: l.session.ID, AgentType: agentType, Timestamp: 1, Step: step, Body: body}.AppendJSON(l.data[:0])
	rec := chunk.Record{Seq: l.seq(), Session: l.session, Epoch: 1, Ordinal: chunk.Ordinal(l.seq()), Type: chunk.Chunk{Body: body}.Type(), StoredAt: time.UnixMilli(1), Data: l.data}
	l.next++
	return hub.Batch{Frames: hub.EncodeRecord(nil, rec, chunk.ScopeTree), Records: 1}, nil, err
}

// discard is a response that counts its bytes and its largest write.
type discard struct {
	header         http.Header
	bytes, largest int
	heap           func() uint64
	before, after  uint64 // bytes of heap before the first write and after the last one
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     { d.before = d.heap() }
func (d *discard) Flush()              {}
func (d *discard) SetWriteDeadline(at time.Time) error {
	if at.IsZero() { // the response is complete
		d.after = d.heap()
	}
	return nil
}
func (d *discard) Write(data []byte) (int, error) {
	d.bytes += len(data)
	d.largest = max(d.largest, len(data))
	return len(data), nil
}

// A page that resumes a turn of 300,000 records gets all of it, and the response keeps neither its records, which are 94 MB, nor its frames.
func TestMemoryOfALongTurn(t *testing.T) {
	s := chunk.RootSession("acme", "s1")
	const steps = 100_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, show := range []conversation.Show{conversation.ShowWhole, conversation.ShowTail} {
		t.Run(fmt.Sprint(show), func(t *testing.T) {
			w := newEnv(t)
			e := w.newEdge(func(cfg *edgeConfig) {
				cfg.follow = func(context.Context, chunk.Session, chunk.Position, chunk.Seq) (recordStream, error) {
					return &longTurn{session: s, steps: steps}, nil
				}
			})
			last := chunk.Seq(3*steps + 1)
			state := conversation.State{
				Session: s, AgentType: agentType, Known: true, MaxSeq: last, Position: chunk.Position{Seq: last, Ordinal: chunk.Ordinal(last)},
				TurnStart: chunk.Position{Seq: 1, Ordinal: 1}, TurnRun: fold.Run{ID: "r1", Epoch: 1, Mode: "execute", Status: fold.RunRunning, StartSeq: 1},
			}
			out := &discard{header: http.Header{}, heap: heap}
			begun := heap()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/chat/s1/stream", nil)
			plan := &conversation.Stream{MessageID: "msg-1", Show: show, After: 2}
			of := chat{id: "s1", session: s, logic: e.service.logic}
			counts := e.service.metrics.newCounts()
			if p := e.service.serve(out, r, of, plan, &state, &counts); p != nil {
				t.Fatal(p)
			}
			if grown := int64(out.before) - int64(begun); grown > 4<<20 {
				t.Errorf("the response holds %d bytes before it writes", grown)
			}
			if grown := int64(out.after) - int64(begun); out.after == 0 || grown > 4<<20 {
				t.Errorf("the response holds %d bytes after it has written", grown)
			}
			if out.bytes < steps*len("word ")*40 || out.largest > 2*flushBytes {
				t.Errorf("%d bytes were written, at most %d at once", out.bytes, out.largest)
			}
		})
	}
}

// flushBytes is the number of bytes that the edge collects of a long turn.
const flushBytes = 64 << 10

// closedReader reads a chat until it has read a text. Then the server closes its connection.
type closedReader struct {
	recordStream

	closed bool
}

func (r *closedReader) Poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	if r.closed {
		return hub.Batch{}, nil, errClosed
	}
	batch, wait, err := r.recordStream.Poll(ctx)
	r.closed = strings.Contains(string(batch.Frames), "Hello ")
	return batch, wait, err
}

var errClosed = fmt.Errorf("read of the log: %w", io.EOF)

// A server closes the connection of an edge that reads an answer, so that the read fails with io.EOF. The response breaks off: its client would take a clean end
// for the end of the answer.
func TestClosedConnectionIsNoEndOfAnAnswer(t *testing.T) {
	w := newEnv(t)
	gate := make(chan struct{})
	w.work(slowly(gate))
	var reads atomic.Int32
	var e *edge
	e = w.newEdge(func(c *edgeConfig) {
		c.follow = func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) {
			n := reads.Add(1)
			if n == 3 {
				return brokenReader{errClosed}, nil
			}
			records, err := e.service.followHub(ctx, root, after, through)
			if err != nil || n > 1 {
				return records, err
			}
			return &closedReader{recordStream: records}, nil
		}
	})
	e.service.historyBytes = 1
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("text-delta(Hello )")
	if err := first.broken(); err == nil {
		t.Error("the first response ended cleanly in the middle of an answer")
	}
	if err := e.open(http.MethodGet, "/stream", "", nil).broken(); err == nil || reads.Load() != 3 {
		t.Errorf("%v after %d reads: want a response that breaks off at the second read of the answer", err, reads.Load())
	}
	close(gate)
	want(t, w.newEdge(nil).post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
}
