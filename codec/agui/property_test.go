package agui

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// turnRange is one turn of a log: the records from first to last-1.
type turnRange struct {
	id          string
	first, last int
}

// folded returns the snapshot of the session of a log.
func folded(tb rapid.TB, log turntest.Log) fold.Snapshot {
	tb.Helper()
	folder := fold.New(turntest.Session)
	for _, rec := range log.Remaining() {
		if rec.Session != turntest.Session {
			continue
		}
		folder.SkipGap(rec, fold.GapRemoved)
		err := folder.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = folder.Skip(rec, err.Error())
		}
		if err != nil {
			tb.Fatalf("%v\n%s", err, log)
		}
	}
	return folder.Snapshot()
}

// turns returns the turns of a log, according to the fold.
func turns(tb rapid.TB, log turntest.Log) []turnRange {
	tb.Helper()
	var out []turnRange
	for i, rec := range log {
		if rec.Session != turntest.Session || rec.Type != chunk.TypeRunStarted {
			continue
		}
		s := folded(tb, log[:i+1])
		if s.TurnStart().Seq != rec.Seq {
			continue
		}
		if n := len(out); n > 0 {
			out[n-1].last = i
		}
		out = append(out, turnRange{id: fold.MessageID(s.TurnMessages()), first: i, last: len(log)})
	}
	return out
}

func options(t *rapid.T) Options {
	opt := Options{SubAgents: rapid.Bool().Draw(t, "sub-agents"), ClientTool: turntest.IsClientTool}
	if rapid.Bool().Draw(t, "state") {
		opt.State = chunk.Value(`{}`)
	}
	return opt
}

func show(t *rapid.T, c *client, frames []byte, log turntest.Log) {
	t.Helper()
	if err := c.read(frames); err != nil {
		t.Fatalf("%v\nthe record's frames:\n%s\nof\n%s", err, frames, log)
	}
}

// live passes a log to a client that reads it from the start, in one response.
func live(t *rapid.T, c *client, opt Options, log turntest.Log) {
	t.Helper()
	for _, at := range turns(t, log) {
		c.open()
		if opt.State != nil {
			c.state = "unknown" // until the turn begins
			if opt.State = folded(t, log[:at.first]).State; opt.State == nil {
				opt.State, c.state = chunk.Value(`{}`), map[string]any{}
			}
		}
		w := New(at.id, opt)
		for _, rec := range log[at.first:at.last] {
			frames := w.Append(nil, rec)
			show(t, c, frames, log)
			checkIDs(t, frames, rec)
			if ends := c.verify.finished || c.verify.failed; c.verify.first && ends != w.Done() {
				t.Fatalf("done is %v after %s, the client has the end: %v\n%s", w.Done(), rec.Type, ends, log)
			}
		}
	}
}

// checkIDs checks that only the last event of a record has its cursor as id.
func checkIDs(t *rapid.T, frames []byte, rec chunk.Record) {
	t.Helper()
	ids := bytes.Count(frames, []byte("\nid: "))
	if bytes.HasPrefix(frames, []byte("id: ")) {
		ids++
	}
	switch last := bytes.LastIndex(frames, []byte("id: "+rec.Cursor().String()+"\n")); {
	case len(frames) == 0 || ids == 0 && rec.Type == chunk.TypeRunStarted:
	case ids != 1 || last < 0 || bytes.Count(frames[last:], []byte("\n\n")) != 1:
		t.Fatalf("the id is not on the last event:\n%s", frames)
	}
}

// TestEveryClientAccepts checks that a client accepts all events, whatever the worker writes.
func TestEveryClientAccepts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true}).Draw(t, "log")
		live(t, newClient(), options(t), log)
	})
}

// snapshotMessages returns the messages and the state of a snapshot.
func snapshotMessages(t *rapid.T, of fold.Content) (messages []map[string]any, state any) {
	t.Helper()
	var s struct {
		Messages []map[string]any
		State    any
	}
	text := AppendContent(nil, of)
	if err := decode(text, &s); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return s.Messages, s.State
}

// TestClientHasTheSnapshot checks that the messages and the state of a client are those of the snapshot, at the end and after every record.
func TestClientHasTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: rapid.Bool().Draw(t, "sub"), Plain: true}).Draw(t, "log")
		c := newClient()
		cut := rapid.IntRange(1, len(log)).Draw(t, "cut")
		live(t, c, options(t), log[:cut])
		compare(t, c, log[:cut])
	})
}

func compare(t *rapid.T, c *client, log turntest.Log) {
	t.Helper()
	compareWith(t, c, folded(t, log).Content(true), log)
}

func compareWith(t *rapid.T, c *client, of fold.Content, log turntest.Log) {
	t.Helper()
	messages, state := snapshotMessages(t, of)
	if got, want := normalized(c.messages), normalized(messages); got != want {
		t.Fatalf("client:\n%s\nsnapshot:\n%s\nof\n%s", got, want, log)
	}
	if got, want := fmt.Sprint(c.state), fmt.Sprint(state); got != want {
		t.Fatalf("state %s, want %s", got, want)
	}
}

// TestReconnect checks that a client that loses its connection after any record continues with a new call of runAgent, and has the messages and the state of the
// snapshot.
func TestReconnect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Plain: true}).Draw(t, "log")
		opt, id := options(t), turns(t, log)[0].id
		c := newClient()
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		w := New(id, opt)
		for _, rec := range log[:cut] {
			show(t, c, w.Append(nil, rec), log)
		}
		c.open()
		w = New(id, opt)
		for _, rec := range log[:cut] {
			w.Append(nil, rec)
		}
		if frames := w.Resume(nil); bytes.Contains(frames, []byte("id: ")) {
			t.Fatalf("an event of no record has an id: %s", frames)
		} else {
			show(t, c, frames, log)
		}
		for _, rec := range log[cut:] {
			show(t, c, w.Append(nil, rec), log)
		}
		compare(t, c, log)
	})
}

// TestFromPartialSnapshot checks that a client that loads the messages of an answer in flight continues them.
func TestFromPartialSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, Crashes: true, Plain: true}).Draw(t, "log")
		opt, id := options(t), turns(t, log)[0].id
		cut := rapid.IntRange(1, len(log)).Draw(t, "cut")
		c := newClient()
		c.messages, c.state = snapshotMessages(t, folded(t, log[:cut]).Content(true))
		w := New(id, opt)
		for _, rec := range log[:cut] {
			w.Append(nil, rec)
		}
		c.open()
		show(t, c, w.Resume(nil), log)
		for _, rec := range log[cut:] {
			if rec.Type == chunk.TypeTruncated {
				return // the client loads the snapshot again
			}
			show(t, c, w.Append(nil, rec), log)
		}
		compare(t, c, log)
	})
}

// TestTailIsTheSame checks that a Writer that gets the earlier records of the turn writes the same bytes as the one that wrote these.
func TestTailIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Crashes: true, Reuse: true}).Draw(t, "log")
		opt, id := options(t), turns(t, log)[0].id
		whole, cut := New(id, opt), rapid.IntRange(0, len(log)).Draw(t, "cut")
		var want []string
		for _, rec := range log {
			want = append(want, string(whole.Append(nil, rec)))
		}
		w := New(id, opt)
		for i, rec := range log {
			shared := rec
			shared.Data = bytes.Clone(rec.Data)
			got := string(w.Append([]byte("x"), shared))[1:]
			if i == cut {
				w.Resume(nil)
			}
			if got != want[i] {
				t.Fatalf("record %d after a cut at %d:\n got %s\nwant %s", i, cut, got, want[i])
			}
			clear(shared.Data) // as the buffer of a reader: the next record overwrites it
		}
	})
}

// TestRemovedRecordsAreForgotten checks that a Writer that never saw the records which a truncated record removed writes the same after it.
func TestRemovedRecordsAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, Crashes: true, Reuse: true}).Draw(t, "log")
		id := turns(t, log)[0].id
		removed := map[chunk.Ordinal]chunk.Ordinal{}
		for _, rec := range log {
			if rec.Type != chunk.TypeTruncated {
				continue
			}
			c, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			b, _ := chunk.As[chunk.Truncated](c)
			for _, r := range b.Removed {
				for o := r.First; o <= r.Last; o++ {
					removed[chunk.Ordinal(o)] = rec.Ordinal
				}
			}
		}
		all, rest := New(id, Options{}), New(id, Options{})
		unlike := map[chunk.Ordinal]bool{}
		for _, by := range removed {
			for o := range removed {
				if removed[o] == by {
					for n := o; n <= by; n++ {
						unlike[n] = true // until the truncated record the client of all has more to end
					}
				}
			}
		}
		for _, rec := range log {
			want := all.Append(nil, rec)
			if removed[rec.Ordinal] > 0 {
				continue
			}
			if got := rest.Append(nil, rec); !unlike[rec.Ordinal] && !bytes.Equal(got, want) {
				t.Fatalf("%s\n got %s\nwant %s\nof\n%s", rec.Data, got, want, log)
			}
		}
	})
}

// TestViewHasTheSnapshot checks that a client of the stream under a view has the messages and the state of the snapshot under this view, with the same ids.
func TestViewHasTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Plain: true}).Draw(t, "log")
		chat := viewtest.Views().Draw(t, "view").Chat()
		c := newClient()
		for _, at := range turns(t, log) {
			c.open()
			w := New(at.id, Options{})
			for _, rec := range log[at.first:at.last] {
				if shown, ok := chat.Record(rec); ok {
					show(t, c, w.Append(nil, shown), log)
				} else {
					show(t, c, w.Hide(nil, rec), log)
				}
			}
		}
		compareWith(t, c, chat.Snapshot(folded(t, log).Content(true)), log)
	})
}
