package observe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

var position = row.Position{Generation: 1, History: "dk3p9x0q1a2b"}

// appendTo appends a record, after the records of the tree that the Folder does not know.
func appendTo(f *observe.Folder, b *row.Batch, log turntest.Log, at int) {
	if f.Missing(log[at]) {
		f.Load(log[at].Session.Tree())
		for i := range log[:at] {
			f.Append(nil, log[i])
		}
	}
	f.Append(b, log[at])
}

func rowsOf(cfg observe.Config, log turntest.Log) row.Batch {
	var b row.Batch
	f := observe.New(cfg)
	for i := range log {
		appendTo(f, &b, log, i)
	}
	return b
}

func logs() *rapid.Generator[turntest.Log] {
	return turntest.Logs(turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true})
}

// A Folder that forgets each session at once, or begins at any record, writes the rows of one that keeps all.
func TestRowsAreAFunctionOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs().Draw(t, "log")
		want := rowsOf(observe.Config{Position: position}, log)
		forgets := rowsOf(observe.Config{Position: position, Memory: 1}, log)
		if diff := cmp.Diff(want, forgets); diff != "" {
			t.Fatalf("without memory:\n%s\n%s", diff, log)
		}
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		var later row.Batch
		f := observe.New(observe.Config{Position: position})
		for i := cut; i < len(log); i++ {
			appendTo(f, &later, log, i)
		}
		after := row.Batch{}
		from := int64(0)
		if cut > 0 {
			from = int64(log[cut-1].Seq)
		}
		for _, e := range want.Events {
			if e.Seq > from {
				after.Events = append(after.Events, e)
			}
		}
		for _, o := range want.Observations {
			if o.Seq > from {
				after.Observations = append(after.Observations, o)
			}
		}
		for _, g := range want.Gaps {
			if g.Seq > from {
				after.Gaps = append(after.Gaps, g)
			}
		}
		if diff := cmp.Diff(after, later); diff != "" {
			t.Fatalf("from record %d:\n%s\n%s", cut, diff, log)
		}
	})
}

// Every record is a row, but for the pieces of texts.
func TestEachRecordIsARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs().Draw(t, "log")
		b := rowsOf(observe.Config{Position: position, Deltas: true}, log)
		if len(b.Events) != len(log) {
			t.Fatalf("%d rows of %d records", len(b.Events), len(log))
		}
		for i, e := range b.Events {
			if e.Seq != int64(log[i].Seq) || e.Type != string(log[i].Type) || string(e.Body) != string(log[i].Data) {
				t.Fatalf("row %+v of record %+v", e, log[i])
			}
		}
	})
}
