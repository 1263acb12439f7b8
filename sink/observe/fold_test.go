package observe_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// The latest run of each session, its usage, and the calls without an outcome are those of the snapshot of projector/fold. The differences are decisions:
//   - a run that a user has stopped is interrupted, and one that was silent for too long is abandoned: the fold has both as failed;
//   - a piece of text, of reasoning or of arguments begins no run;
//   - the reason of the last step stays over a takeover; the fold forgets it;
//   - the fold has no row for a call: what is compared is that no row has an outcome for a call that the fold has open, and the other way round;
//   - a late record about a call that ended in the turn before changes nothing; the fold begins another call;
//   - a wait ends with a run of its turn; the fold keeps one of an earlier run, or of a run that was interrupted.
func TestRowsAgreeWithTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Cleanups: true, Hostile: true, Clocks: true}).Draw(t, "log")
		rows := current(rowsOf(observe.Config{}, log))
		remaining := sinktest.Remaining(log)
		for s, snapshot := range snapshots(t, remaining) {
			if snapshot.TurnStart() == (chunk.Position{}) && snapshot.Run.StartSeq == 0 {
				continue // no run_started
			}
			if onlyPieces(remaining, s) {
				continue
			}
			compareRun(t, snapshot, ofSession(rows, s.ID, row.Run))
			first, last := starts(remaining, s)
			compareCalls(t, snapshot, ofSession(rows, s.ID, row.Tool), last)
			again := func(id string) bool {
				turn := int64(snapshot.TurnStart().Ordinal)
				return first[id] < turn && turn < last[id]
			}
			if !hasEnded(remaining, s) {
				compareWaits(t, snapshot, ofSession(rows, s.ID, row.Approval, row.ClientTool), again)
			}
		}
		if t.Failed() {
			t.Fatalf("%s", log)
		}
	})
}

// onlyPieces reports whether nothing in a session begins a run.
func onlyPieces(log sinktest.Log, s chunk.Session) bool {
	return !slices.ContainsFunc(log, func(rec chunk.Record) bool {
		return rec.Session == s && rec.Type != chunk.TypeThinking && rec.Type != chunk.TypeTextDelta && rec.Type != chunk.TypeToolArgStreamDelta &&
			(rec.Type == chunk.TypeRunStarted || !rec.Type.Control())
	})
}

// snapshots folds the sessions of a log.
func snapshots(t *rapid.T, log sinktest.Log) map[chunk.Session]fold.Snapshot {
	folders := map[chunk.Session]*fold.Folder{}
	for _, rec := range log {
		folder := folders[rec.Session]
		if folder == nil {
			folder = fold.New(rec.Session)
			folders[rec.Session] = folder
		}
		folder.SkipGap(rec, fold.GapRemoved)
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, "invalid")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	out := map[chunk.Session]fold.Snapshot{}
	for s, f := range folders {
		out[s] = f.Snapshot()
	}
	return out
}

// ofSession returns the rows of a session in the order in which they began.
func ofSession(rows map[string]row.Observation, session string, kinds ...row.Kind) (out []row.Observation) {
	for _, o := range rows {
		if o.Session == session && slices.Contains(kinds, o.Kind) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b row.Observation) int { return int(a.FirstSeq - b.FirstSeq) })
	return out
}

func compareRun(t *rapid.T, want fold.Snapshot, runs []row.Observation) {
	if len(runs) == 0 {
		t.Errorf("session %s has no run", want.Session.ID)
		return
	}
	got := runs[len(runs)-1]
	statuses := map[fold.RunStatus][]row.Status{
		fold.RunRunning: {row.Running}, fold.RunSuspended: {row.Suspended}, fold.RunInterrupted: {row.Interrupted}, fold.RunEnded: {row.Completed},
		fold.RunFailed: {row.Failed, row.Abandoned, row.Interrupted}, fold.RunSuperseded: {row.Superseded},
	}
	if want.Run.ID != got.RunID || !slices.Contains(statuses[want.Run.Status], got.Status) {
		t.Errorf("session %s: run %q is %s, want %q, %s", want.Session.ID, got.RunID, got.Status, want.Run.ID, want.Run.Status)
	}
	if got.Status == row.Running { // its row has the sums of an earlier record
		return
	}
	number := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	usage := fold.Usage{Input: number(got.InputTokens), Output: number(got.OutputTokens), Cached: number(got.CachedTokens), CacheWrite: number(got.CacheWriteTokens)}
	if usage != want.Run.Usage || want.Run.FinishReason != "" && got.FinishReason != want.Run.FinishReason {
		t.Errorf("session %s: %+v %q, want %+v %q", want.Session.ID, usage, got.FinishReason, want.Run.Usage, want.Run.FinishReason)
	}
}

// starts returns the first and the last record that begins each call of a session, or asks about it.
func starts(log sinktest.Log, of chunk.Session) (first, last map[string]int64) {
	first, last = map[string]int64{}, map[string]int64{}
	for _, rec := range log {
		c, err := rec.Decode()
		if err != nil || rec.Session != of {
			continue
		}
		var id string
		switch b := c.Body.(type) {
		case chunk.ToolArgStreamStart:
			id = b.ToolCallID
		case chunk.ToolStart:
			id = b.ToolCallID
		case chunk.ToolApprovalRequest:
			id = b.ToolCallID
		default:
			continue
		}
		if first[id] == 0 {
			first[id] = int64(rec.Ordinal)
		}
		last[id] = int64(rec.Ordinal)
	}
	return first, last
}

// hasEnded reports whether a run of a session has ended, or was interrupted.
func hasEnded(log sinktest.Log, of chunk.Session) bool {
	return slices.ContainsFunc(log, func(rec chunk.Record) bool {
		return rec.Session == of && (rec.Type.Terminal() || rec.Type == chunk.TypeRunInterrupted)
	})
}

// compareCalls compares the calls whose rows are of their last use: one that is open has no row, or one from before a cleanup.
func compareCalls(t *rapid.T, want fold.Snapshot, calls []row.Observation, starts map[string]int64) {
	open := map[string]bool{}
	for _, c := range want.OpenCalls() {
		open[c.ID] = true
	}
	for _, o := range calls {
		hasOutcome := !slices.Contains([]row.Status{row.Running, row.Waiting, row.Interrupted}, o.Status)
		if open[o.ToolCallID] && hasOutcome && o.LastOrdinal >= max(starts[o.ToolCallID], int64(want.TurnStart().Ordinal)) {
			t.Errorf("session %s: call %s is %s, and open in the snapshot", want.Session.ID, o.ToolCallID, o.Status)
		}
	}
}

// compareWaits compares the waits but for those of calls whose ids begin again in a later turn: the rows of the earlier calls have ended.
func compareWaits(t *rapid.T, want fold.Snapshot, waits []row.Observation, again func(id string) bool) {
	kinds := map[fold.PendingKind]row.Kind{fold.PendingApproval: row.Approval, fold.PendingClient: row.ClientTool}
	pending, waiting := map[string]row.Kind{}, map[string]row.Kind{}
	for _, p := range want.Pending {
		if !again(p.CallID) {
			pending[p.CallID] = kinds[p.Kind]
		}
	}
	for _, o := range waits {
		if o.Status == row.Waiting && !again(o.ToolCallID) {
			waiting[o.ToolCallID] = o.Kind
		}
	}
	if diff := cmp.Diff(pending, waiting); diff != "" {
		t.Errorf("session %s waits for\n%s", want.Session.ID, diff)
	}
}
