package observe_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

var position = row.Position{Generation: 1, History: "dk3p9x0q1a2b"}

// reader reads a log into a Folder, as a sink does.
type reader struct {
	*observe.Folder

	log     sinktest.Log
	deleted bool // the log has deleted what its cleanups remove
}

// append appends a record, after the records of its tree if the Folder does not know them.
func (r *reader) append(b *row.Batch, at int) {
	rec := r.log[at]
	if r.Missing(rec) {
		r.Load(rec.Session.Tree())
		tree := sinktest.Tree(r.log, rec.Session, at)
		if r.deleted {
			tree = sinktest.Remaining(tree)
		}
		for _, earlier := range tree {
			r.Append(nil, earlier)
		}
	}
	r.Append(b, rec)
}

func rowsOf(cfg observe.Config, log sinktest.Log) row.Batch {
	cfg.Position = position
	var b row.Batch
	f := observe.New(cfg)
	for _, rec := range log {
		f.Append(&b, rec)
	}
	return b
}

// logs generates logs of workers, and logs that have more than workers write.
func logs(c sinktest.Config) *rapid.Generator[sinktest.Log] {
	c.Trees, c.Records = 2, 70
	long := c
	long.Trees, long.Records = 1, 250 // several turns of the root after a sub-agent has ended
	return rapid.OneOf(
		turntest.Logs(turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true}),
		sinktest.Logs(c), sinktest.Logs(c), sinktest.Logs(long),
	).Filter(func(log sinktest.Log) bool { return len(log) > 0 })
}

var everything = sinktest.Config{Cleanups: true, Deleted: true, Expired: true, Hostile: true, Clocks: true}

// A Folder that forgets each tree at once, or begins at any record, writes the rows of one that keeps all, also if the log has deleted what its cleanups remove. What such a log does not show
// is left out, see known.
func TestRowsAreAFunctionOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs(everything).Draw(t, "log")
		deleted := rapid.Bool().Draw(t, "deleted")
		want := known(rowsOf(observe.Config{}, log), deleted)
		forgets, few := read(observe.Config{Memory: 1}, log, 0, deleted), read(observe.Config{Memory: 30_000}, log, 0, deleted)
		if diff := cmp.Diff(want, forgets); diff != "" {
			t.Fatalf("without memory:\n%s\n%s", diff, log)
		}
		if diff := cmp.Diff(want, few); diff != "" {
			t.Fatalf("with little memory:\n%s\n%s", diff, log)
		}
		cut := rapid.IntRange(0, len(log)-1).Draw(t, "cut")
		if diff := cmp.Diff(since(want, log[cut].Seq), read(observe.Config{}, log, cut, deleted)); diff != "" {
			t.Fatalf("from record %d:\n%s\n%s", cut, diff, log)
		}
	})
}

// read returns the rows of the records from an index.
func read(cfg observe.Config, log sinktest.Log, from int, deleted bool) (b row.Batch) {
	cfg.Position = position
	r := reader{Folder: observe.New(cfg), log: log, deleted: deleted}
	for i := from; i < len(log); i++ {
		r.append(&b, i)
	}
	return known(b, deleted)
}

// known leaves out what cannot be known from a log that has lost records.
func known(b row.Batch, deleted bool) row.Batch {
	b.Observations = slices.DeleteFunc(b.Observations, func(o row.Observation) bool { return o.Status == row.Unknown && o.EndTime == nil })
	if len(b.Observations) == 0 {
		b.Observations = nil
	}
	if !deleted {
		return b
	}
	for i := range b.Observations {
		b.Observations[i] = withoutCaller(b.Observations[i])
		b.Observations[i].Incomplete = false // a removed beginning looks like a lost one
	}
	for i := range b.Events {
		if e := &b.Events[i]; e.Session != e.Root {
			e.TurnID, e.TraceID = "", ""
		}
	}
	return b
}

// withoutCaller leaves out what the row of a sub-agent takes from its parent.
func withoutCaller(o row.Observation) row.Observation {
	if o.Session == o.SessionID {
		return o
	}
	if o.Kind == row.Run {
		o.ParentID, o.ParentSpanID = "", ""
	}
	o.TraceID, o.TurnID, o.Depth, o.UserID, o.UserIssuer = "", "", 0, "", ""
	return o
}

// since returns the rows that were written at a record or later.
func since(b row.Batch, seq chunk.Seq) (after row.Batch) {
	for _, e := range b.Events {
		if e.Seq >= int64(seq) {
			after.Events = append(after.Events, e)
		}
	}
	for _, o := range b.Observations {
		if o.Seq >= int64(seq) {
			after.Observations = append(after.Observations, o)
		}
	}
	for _, g := range b.Gaps {
		if g.Seq >= int64(seq) {
			after.Gaps = append(after.Gaps, g)
		}
	}
	return after
}

// Every record is a row, but for the pieces of texts.
func TestEachRecordIsARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs(everything).Draw(t, "log")
		b := rowsOf(observe.Config{Deltas: true}, log)
		if len(b.Events) != len(log) {
			t.Fatalf("%d rows of %d records", len(b.Events), len(log))
		}
		for i, e := range b.Events {
			want := string(log[i].Data)
			if _, err := log[i].Decode(); err != nil {
				want = ""
			}
			if e.Seq != int64(log[i].Seq) || e.Type != string(log[i].Type) || string(e.Body) != want {
				t.Fatalf("row %+v of record %+v", e, log[i])
			}
		}
		without := slices.DeleteFunc(b.Events, func(e row.Event) bool {
			c, _ := chunk.Decode([]byte(e.Body))
			thought, complete := chunk.As[chunk.Thinking](c)
			return e.Type == "text_delta" || e.Type == "tool_arg_stream_delta" || e.Type == "thinking" && (!complete || !thought.IsComplete)
		})
		if diff := cmp.Diff(without, rowsOf(observe.Config{}, log).Events, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// latest returns the rows that count: of each id the one with the highest sequence. A record writes one row of an id: of two, it would return the wrong one.
func latest(b row.Batch) map[string]row.Observation {
	out := map[string]row.Observation{}
	for _, o := range b.Observations {
		if was, ok := out[o.ID]; !ok || o.Seq > was.Seq {
			out[o.ID] = o
		}
	}
	return out
}

// current returns the latest rows but for those that began in a removed range, or were erased.
func current(b row.Batch) map[string]row.Observation {
	rows := latest(b)
	for id, o := range rows {
		for _, g := range b.Gaps {
			same := g.Tenant == o.Tenant && g.Root == o.Root && (g.Session == o.Session || g.Erases() && g.Session == g.Root)
			removed := g.Reason == row.Removed && o.FirstSeq < g.Seq && (g.FromSeq == nil || *g.FromSeq <= o.FirstSeq) && g.FromOrdinal <= o.FirstOrdinal && o.FirstOrdinal <= g.ToOrdinal
			if same && (removed || g.Erases() && o.Seq <= g.Seq) {
				delete(rows, id)
			}
		}
	}
	return rows
}

// The rows that count are those of the log that remains after its cleanups. A call or a step that is open has a row only if it had ended before a cleanup. What a sub-agent takes from its parent
// is as it was when its run began, so that is compared in root sessions only.
func TestRowsOfTheRemainingLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := everything
		c.Expired = false
		log := logs(c).Draw(t, "log")
		whole, remaining := current(rowsOf(observe.Config{}, log)), current(rowsOf(observe.Config{}, sinktest.Remaining(log)))
		for id, o := range whole { // a wait that began in a record that stays, for a call that was removed
			_, stays := whole[o.ParentID]
			if _, ok := remaining[id]; !ok && !stays && (o.Kind == row.Approval || o.Kind == row.ClientTool) && o.Status != row.Waiting {
				delete(whole, id)
			}
		}
		for id, o := range whole { // a later row of the last run of a session that had ended is without its content, as doc.go says
			if r, ok := remaining[id]; ok && o.Kind == row.Run && o.ContentTruncated != r.ContentTruncated {
				o.Input, o.Output, o.ContentTruncated = r.Input, r.Output, r.ContentTruncated
				whole[id] = o
			}
		}
		if diff := cmp.Diff(modulo(remaining), modulo(whole)); diff != "" {
			t.Fatalf("%s\n%s", diff, log)
		}
	})
}

// modulo leaves out what differs between the rows of a log and of the one that remains.
func modulo(rows map[string]row.Observation) map[string]row.Observation {
	for id, o := range rows {
		if (o.Kind == row.Tool || o.Kind == row.Step) && o.EndTime == nil {
			delete(rows, id)
			continue
		}
		if o = withoutCaller(o); o.Kind == row.Run && o.Status == row.Running { // its sums are those at the time of the row
			o.Steps, o.ToolCalls, o.FailedToolCalls, o.InputTokens, o.OutputTokens, o.CachedTokens, o.ReasoningTokens = nil, nil, nil, nil, nil, nil, nil
			o.Cost, o.Currency, o.CostSource, o.FinishReason, o.LastOrdinal = nil, "", "", "", 0
		}
		o.Place, o.Incomplete = row.Place{Session: o.Session}, false
		rows[id] = o
	}
	return rows
}
