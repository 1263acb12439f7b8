package chat

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/sse"
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

func (l *longTurn) Next(context.Context, <-chan time.Time) ([]chunk.Record, error) {
	step := int64(l.next/3 + 1)
	body := []chunk.Body{chunk.StepStart{}, chunk.TextDelta{Delta: strings.Repeat("word ", 40)}, chunk.StepEnd{}}[l.next%3]
	var err error
	l.data, err = chunk.Chunk{AgentID: l.session.ID, AgentType: agentType, Timestamp: 1, Step: step, Body: body}.AppendJSON(l.data[:0])
	rec := chunk.Record{Seq: l.seq(), Session: l.session, Epoch: 1, Ordinal: chunk.Ordinal(l.seq()), Type: body.Type(), StoredAt: time.UnixMilli(1), Data: l.data}
	l.next++
	return []chunk.Record{rec}, err
}

// discard is a response that counts its bytes and its largest write.
type discard struct {
	header         http.Header
	bytes, largest int
}

func (d *discard) Header() http.Header              { return d.header }
func (d *discard) WriteHeader(int)                  {}
func (d *discard) Flush()                           {}
func (d *discard) SetWriteDeadline(time.Time) error { return nil }
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
			out := &discard{header: http.Header{}}
			st := &stream{
				service: e.service, plan: &conversation.Stream{MessageID: "msg-1", Show: show, After: 2}, state: state,
				message: message{MessageWriter: aisdk.New("msg-1", aisdk.Options{})},
			}
			st.out = sse.NewWriter(out, time.Minute)
			before := heap()
			if p, err := st.read(t.Context()); p != nil || err != nil {
				t.Fatal(p, err)
			}
			if grown := int64(heap()) - int64(before); grown > 4<<20 {
				t.Errorf("the response holds %d bytes before it writes", grown)
			}
			if err := st.writeHistory(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := st.flush(); err != nil {
				t.Fatal(err)
			}
			if grown := int64(heap()) - int64(before); grown > 4<<20 {
				t.Errorf("the response holds %d bytes after it has written", grown)
			}
			if out.bytes < steps*len("word ")*40 || out.largest > 2*flushBytes {
				t.Errorf("%d bytes were written, at most %d at once", out.bytes, out.largest)
			}
			runtime.KeepAlive(st)
		})
	}
}
