package fold

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// script folds chunks one by one, each in the given step. With reloads it saves and loads the snapshot before each chunk.
type script struct {
	t       *testing.T
	s       Snapshot
	reloads bool
	log     []chunk.Record
	epoch   chunk.Epoch
}

func (sc *script) applyChunk(step int64, body chunk.Body) {
	sc.t.Helper()
	c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: step, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		sc.t.Fatal(err)
	}
	if _, ok := body.(chunk.RunStarted); ok {
		sc.epoch++
	}
	rec := chunk.Record{
		Seq: chunk.Seq(len(sc.log) + 1), Session: session, Epoch: sc.epoch, Ordinal: chunk.Ordinal(len(sc.log) + 1), Type: c.Type(), Data: data,
	}
	sc.log = append(sc.log, rec)
	if sc.reloads {
		sc.s = reload(sc.t, sc.s)
	}
	sc.s = take(sc.t, sc.s, rec, sc.log)
}

func (sc *script) turn(n int) {
	sc.t.Helper()
	sc.applyChunk(0, chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n), Mode: "execute"})
}

func (sc *script) piece(step int64, id, rest string) {
	sc.t.Helper()
	data := fmt.Sprintf(`{"type":"structured-data","streamId":%q,"dataType":"t",%s}`, id, rest)
	sc.applyChunk(step, chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(data)})
}

// shown returns the open streams as one text.
func (sc *script) shown() string {
	var out []string
	for _, v := range BrowserForm(sc.s, true, 0).Structured {
		out = append(out, string(v))
	}
	return strings.Join(out, "\n")
}

// both runs a script with and without reloads, and compares the results.
func both(t *testing.T, play func(sc *script)) {
	t.Helper()
	plain := &script{t: t, s: newSnapshot(session)}
	play(plain)
	saved := &script{t: t, s: newSnapshot(session), reloads: true}
	play(saved)
	equal(t, "with saves and loads", saved.s, plain.s)
}

// TestPiecesAreRemoved checks that a removed step removes its pieces: the snapshot from before the step does not contain them.
func TestPiecesAreRemoved(t *testing.T) {
	both(t, func(sc *script) {
		sc.turn(1)
		sc.piece(1, "d", `"kind":"text-delta","path":"t","delta":"one "`)
		sc.applyChunk(2, chunk.TextDelta{Delta: "now"}) // the step has started and has not changed a stream
		sc.piece(2, "d", `"kind":"text-delta","path":"t","delta":"two "`)
		sc.piece(2, "e", `"kind":"final","data":1`)
		sc.applyChunk(0, chunk.Truncated{TruncatedAtStep: 1, Removed: []chunk.OrdinalRange{{First: 3, Last: 5}}})
		sc.piece(2, "d", `"kind":"text-delta","path":"t","delta":"again"`)
		if got := sc.shown(); got != `{"streamId":"d","dataType":"t","status":"streaming","data":{"t":"one again"}}` {
			sc.t.Errorf("streams %s", got)
		}
		if n := len(BrowserForm(sc.s, true, 0).Messages); n != 0 {
			sc.t.Errorf("%d messages, want none", n)
		}
	})
}

// TestIDsAreReusable checks that the id of a final stream is rejected to the end of its turn, and may be reused in the next
// turn. An open stream stays.
func TestIDsAreReusable(t *testing.T) {
	both(t, func(sc *script) {
		for turn := range 4 {
			sc.turn(turn + 1)
			sc.piece(1, "d", `"kind":"set","path":"a","value":1`)
			sc.piece(1, "d", fmt.Sprintf(`"kind":"final","data":%d`, turn))
			sc.piece(1, "d", `"kind":"final","data":"late"`)
			sc.piece(1, "long", `"kind":"append","path":"l","items":[1]`)
		}
		if got := sc.s.Faults.RejectedPieces; got != 4 {
			sc.t.Errorf("%d rejected, want the late ones", got)
		}
		for turn, m := range BrowserForm(sc.s, true, 0).Messages {
			want := fmt.Sprintf(`{"type":"data-structured","id":"d","data":{"dataType":"t","status":"done","data":%d}}`, turn)
			if len(m.Parts) != 1 || string(m.Parts[0]) != want {
				sc.t.Errorf("turn %d has %s, want %s", turn, m.Parts, want)
			}
		}
		if got := sc.shown(); got != `{"streamId":"long","dataType":"t","status":"streaming","data":{"l":[1,1,1,1]}}` {
			sc.t.Errorf("streams %s", got)
		}
		if n := len(sc.s.trimFinished().streams.state.AppendJSON(nil)); n > 300 {
			sc.t.Errorf("the head has %d bytes of streams", n)
		}
	})
}

// TestRejectedPieces checks that a first piece without a stream id leaves nothing that is not stored, and that an id that was
// rejected does not end a stream with that id in the next turn.
func TestRejectedPieces(t *testing.T) {
	both(t, func(sc *script) {
		sc.turn(1)
		sc.applyChunk(1, chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(`{}`)})
		if sc.s.streams.state != nil {
			sc.t.Error("state without streams")
		}
		sc.piece(1, "d", `"kind":"none"`)
		sc.turn(2)
		sc.piece(1, "d", `"kind":"set","path":"a","value":1`)
		sc.turn(3)
		if got := sc.shown(); got != `{"streamId":"d","dataType":"t","status":"streaming","data":{"a":1}}` || sc.s.Faults.RejectedPieces != 2 {
			sc.t.Errorf("streams %s, %d rejected", got, sc.s.Faults.RejectedPieces)
		}
	})
}

// TestDeadlineStays checks that a deadline stays when the session reports the pause again.
func TestDeadlineStays(t *testing.T) {
	both(t, func(sc *script) {
		sc.turn(1)
		sc.applyChunk(1, chunk.ToolStart{ToolCallID: "c", ToolName: "ask", Arguments: chunk.Value(`{}`)})
		sc.applyChunk(1, chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: chunk.Value(`{"toolCallIds":["c"],"deadline":17}`)})
		sc.applyChunk(1, chunk.StreamPaused{})
		if len(sc.s.Pending) != 1 || sc.s.Pending[0].Deadline != 17 {
			sc.t.Errorf("pending %+v", sc.s.Pending)
		}
	})
}
