package fold

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var forkSession = chunk.RootSession("acme", "f1")

// forkLog returns the first records of a fork of s.
func forkLog(t failer, s Snapshot, f Fork) []chunk.Record {
	t.Helper()
	seeds, end, _, err := s.Seed(f)
	if err != nil {
		t.Fatalf("seed: %v", err)
	}
	var log []chunk.Record
	for _, b := range seeds {
		log = append(log, forkRecord(t, len(log)+1, 1, b))
	}
	return append(log, forkRecord(t, len(log)+1, 1, end))
}

func forkRecord(t failer, n int, epoch chunk.Epoch, body chunk.Body) chunk.Record {
	t.Helper()
	c := chunk.Chunk{AgentID: forkSession.ID, AgentType: "agent", Timestamp: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatalf("%T: %v", body, err)
	}
	return chunk.Record{Seq: chunk.Seq(100 + n), Session: forkSession, Epoch: epoch, Ordinal: chunk.Ordinal(n), Type: c.Type(), StoredAt: time.UnixMilli(2), Data: data}
}

// shownIn describes messages without the sub-agents and the positions of their records. A call without an outcome has failed.
func shownIn(s Snapshot) string {
	var b strings.Builder
	for _, m := range s.AllMessages() {
		b.WriteString(m.ID() + " in " + MessageID(m.Shown) + " " + string(m.Role) + m.ClientID + string(m.Metadata))
		if m.Replaced {
			b.WriteString(" replaced")
		}
		for i := range m.Parts {
			p := &m.Parts[i]
			p.Streaming = false
			if c := p.Call; c != nil && !c.State.hasOutcome() {
				c.State, c.Error, c.Input = CallFailed, abandoned, orNull(c.Input)
			}
			b.WriteString("\n  ")
			b.Write(p.AppendJSON(nil))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// A fork of any position of any log has the messages, the ids, the state and the replaced messages of that position, also if its snapshot is saved after each record
// and if its messages are in many records. It is unknown until it has the last record.
func TestForkHasTheMessagesOfItsOrigin(t *testing.T) {
	defer func(n int) { maxSeedBytes = n }(maxSeedBytes)
	laws(t, 60, func(t *rapid.T, a *generator) {
		maxSeedBytes = rapid.SampledFrom([]int{1 << 10, 4 << 10, 448 << 10}).Draw(t, "record")
		origin := whole(t, a, rapid.IntRange(0, len(a.all)).Draw(t, "cut"), true)
		open := origin.turn != nil && rapid.Bool().Draw(t, "open")
		log := forkLog(t, origin, Fork{State: origin.State, Open: open})
		plain, saved := newSnapshot(forkSession), newSnapshot(forkSession)
		for i, rec := range log {
			plain = take(t, plain, rec, log)
			saved = take(t, reload(t, saved), rec, log)
			if plain.Faults.Skipped > 0 {
				t.Fatalf("record %d: %+v", i, plain.Faults)
			}
			if seeding := plain.Status == Seeding; seeding != (i < len(log)-1) {
				t.Fatalf("record %d of %d: %s", i+1, len(log), plain.Status)
			}
		}
		equal(t, "saved and loaded", saved, plain)
		if got, want := shownIn(plain), shownIn(origin); got != want {
			t.Fatalf("messages:\n%s\nwant\n%s", got, want)
		}
		if string(plain.State) != string(origin.State) || plain.Origin.Session != origin.Session.ID || plain.Usage != (Usage{}) || len(plain.OpenCalls()) > 0 {
			t.Fatalf("%+v", plain)
		}
		status, step := Ended, int64(0)
		if open {
			status, step = Paused, origin.Run.Step
		}
		if plain.Status != status || plain.Run.Step != step {
			t.Fatalf("%s, step %d, want %s, step %d", plain.Status, plain.Run.Step, status, step)
		}
		again := newSnapshot(forkSession)
		for _, rec := range forkLog(t, plain, Fork{State: plain.State, Open: open}) {
			again = take(t, again, rec, nil)
		}
		if got := shownIn(again); got != shownIn(plain) {
			t.Fatalf("fork of the fork:\n%s\nwant\n%s", got, shownIn(plain))
		}
	})
}

// A run that continues a fork writes into the message of the answer, and a cleanup of its step leaves what the fork began with.
func TestForkContinues(t *testing.T) {
	origin := foldBodies(t,
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}},
		chunk.TextDelta{Delta: "a"}, chunk.StepCommitted{RunID: "r1", StepID: "1", CheckpointID: "cp1"},
	)
	log := forkLog(t, origin, Fork{Open: true})
	f := newSnapshot(forkSession)
	for _, rec := range log {
		f = take(t, f, rec, log)
	}
	n := len(log)
	log = append(log, forkRecord(t, n+1, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "continue", Input: []chunk.InputMessage{}}), stepOf(t, forkRecord(t, n+2, 2, chunk.TextDelta{Delta: "b"}), 2))
	for _, rec := range log[n:] {
		f = take(t, f, rec, log)
	}
	list := f.AllMessages()
	if len(list) != 3 || list[2].Shown != 1 || f.TurnMessages() != 1 || f.BeforeAnswer().MessageCount() != 2 || f.Run.Step != 2 {
		t.Fatalf("answer in msg-%d, step %d\n%s", f.TurnMessages(), f.Run.Step, shownIn(f))
	}
	log = append(log, forkRecord(t, n+3, 2, chunk.Truncated{TruncatedAtStep: 1, Removed: []chunk.OrdinalRange{{First: int64(n + 2), Last: int64(n + 2)}}}))
	f = take(t, f, log[n+2], log)
	if got, want := shownIn(f), shownIn(origin); got != want {
		t.Fatalf("after a cleanup:\n%s\nwant\n%s", got, want)
	}
}

// Edits replace outcomes, and one that names no call is refused.
func TestForkEdits(t *testing.T) {
	origin := foldBodies(t,
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "find", Arguments: chunk.Value(`{}`)}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "find", Error: new("lost")},
		chunk.ToolStart{ToolCallID: "c2", ToolName: "find", Arguments: chunk.Value(`{}`)},
		chunk.ToolApprovalRequest{ToolCallID: "c3", ToolName: "delete", ApprovalID: "p3", Input: chunk.Value(`{}`)},
		chunk.ToolApprovalRequest{ToolCallID: "c4", ToolName: "delete", ApprovalID: "p4", Input: chunk.Value(`{}`)},
		chunk.StreamPaused{},
	)
	yes, no := true, false
	f := newSnapshot(forkSession)
	for _, rec := range forkLog(t, origin, Fork{Open: true, Edits: []Edit{{CallID: "c1", Output: chunk.Value(`{"n":1}`)}, {CallID: "c3", Approved: &yes}, {CallID: "c4", Approved: &no}}}) {
		f = take(t, f, rec, nil)
	}
	var got []string
	for _, c := range f.AllMessages()[1].Calls() {
		got = append(got, c.ID+" "+string(c.State)+" "+string(c.Output)+c.Error)
	}
	want := []string{"c1 " + string(CallDone) + ` {"n":1}`, "c2 " + string(CallFailed) + " " + abandoned, "c3 " + string(CallApproved) + " ", "c4 " + string(CallDenied) + " " + Denial("")}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if open := f.OpenCalls(); len(open) != 1 || open[0].ID != "c3" || !open[0].Approved {
		t.Errorf("open calls: %+v", open)
	}
	for _, bad := range []Fork{
		{Open: true, Edits: []Edit{{CallID: "c9", Output: chunk.Value("1")}}},
		{Open: true, Edits: []Edit{{CallID: "c1", Approved: &yes}}},
		{Edits: []Edit{{CallID: "c3", Approved: &yes}}},
	} {
		if _, _, _, err := origin.Seed(bad); !errors.Is(err, ErrUnknownCall) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Records that are not the first ones of a fork, or not in order, are skipped.
func TestForkRefusesOtherRecords(t *testing.T) {
	origin := foldBodies(t, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}}, chunk.TextDelta{Delta: "a"})
	seeds, end, _, err := origin.Seed(Fork{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(seeds[0].Messages, "\n")
	later := forkRecord(t, 3, 1, seeds[0])
	for name, log := range map[string][]chunk.Record{
		"a message is missing": {forkRecord(t, 1, 1, chunk.SessionSeed{Form: Version, Messages: lines[1]})},
		"a newer form":         {forkRecord(t, 1, 1, chunk.SessionSeed{Form: Version + 1, Messages: lines[0]})},
		"not a message":        {forkRecord(t, 1, 1, chunk.SessionSeed{Form: Version, Messages: "["})},
		"twice":                {forkRecord(t, 1, 1, seeds[0]), forkRecord(t, 2, 1, seeds[0])},
		"after its end":        {forkRecord(t, 1, 1, seeds[0]), forkRecord(t, 2, 1, end), later},
		"after a run":          {forkRecord(t, 1, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{}}), forkRecord(t, 2, 1, end)},
		"another turn":         {forkRecord(t, 1, 1, chunk.SessionForked{Origin: end.Origin, Turn: &chunk.ForkedTurn{First: 7}})},
		"a broken state":       {forkRecord(t, 1, 1, chunk.SessionForked{Origin: end.Origin, State: new("{")})},
	} {
		s := newSnapshot(forkSession)
		for i, rec := range log {
			before := stored(s)
			next, err := applyRecord(s, rec)
			if i == len(log)-1 {
				if !errors.Is(err, ErrInvalidRecord) || stored(next) != before {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			if s = next; err != nil {
				t.Fatalf("%s, record %d: %v", name, i, err)
			}
		}
	}
}

// A session that is too large is refused.
func TestForkIsLimited(t *testing.T) {
	long := foldBodies(t, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: strings.Repeat("x", 500<<10)}}})
	if _, _, _, err := long.Seed(Fork{}); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("a part of 500 KiB: %v", err)
	}
	if _, _, _, err := newSnapshot(session).Seed(Fork{State: chunk.Value(`"` + strings.Repeat("x", 500<<10) + `"`)}); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("a state of 500 KiB: %v", err)
	}
}

// foldBodies folds records of step 1.
func foldBodies(t *testing.T, bodies ...chunk.Body) Snapshot {
	t.Helper()
	s := newSnapshot(session)
	for i, body := range bodies {
		rec := record(t, i+1, body)
		if !rec.Type.Control() {
			rec = stepOf(t, rec, 1)
		}
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			t.Fatalf("%T: %v", body, err)
		}
	}
	return s
}

// stepOf returns a record of another step.
func stepOf(t *testing.T, rec chunk.Record, step int64) chunk.Record {
	t.Helper()
	c, err := rec.Decode()
	if err != nil {
		t.Fatal(err)
	}
	c.Step = step
	if rec.Data, err = c.AppendJSON(nil); err != nil {
		t.Fatal(err)
	}
	return rec
}
