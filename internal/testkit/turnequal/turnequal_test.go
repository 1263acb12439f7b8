package turnequal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// altered is an old writer with another last byte after a record of one type, or in other frames.
type altered struct {
	Writer

	of   chunk.Type // "" for none
	what string
}

func changed(frames []byte) []byte {
	if len(frames) > len(dst) {
		frames[len(frames)-1] = '!'
	}
	return frames
}

func (w *altered) Append(to []byte, rec chunk.Record) []byte {
	frames := w.Writer.Append(to, rec)
	if rec.Type == w.of {
		return changed(frames)
	}
	return frames
}

func (w *altered) Hide(to []byte, rec chunk.Record) []byte {
	frames := w.Writer.Hide(to, rec)
	if w.what == "Hide" {
		return changed(frames)
	}
	return frames
}

func (w *altered) Resume(to []byte) []byte {
	frames := w.Writer.Resume(to)
	if w.what == "Resume" {
		return changed(frames)
	}
	return frames
}

func (w *altered) Done() bool { return w.Writer.Done() != (w.what == "Done") }

// keeper is an old writer that reads the data of the previous record once more, after its call.
type keeper struct {
	Writer

	kept chunk.Record
}

func (w *keeper) Append(to []byte, rec chunk.Record) []byte {
	if w.kept.Data != nil && !bytes.HasPrefix(w.kept.Data, []byte("{")) {
		to = append(to, "overwritten"...)
	}
	w.kept = rec
	return w.Writer.Append(to, rec)
}

// alteredMessage is an old writer of the AI SDK with another byte in the frames of a method.
type alteredMessage struct {
	Message

	what string
}

func (m alteredMessage) Start(to []byte) []byte {
	frames := m.Message.Start(to)
	if m.what == "Start" {
		return changed(frames)
	}
	return frames
}

func (m alteredMessage) Finish(to []byte) []byte {
	frames := m.Message.Finish(to)
	if m.what == "Finish" {
		return changed(frames)
	}
	return frames
}

func (m alteredMessage) Advance(rec chunk.Record) {
	if m.what != "Advance" {
		m.Message.Advance(rec)
	}
}

func (m alteredMessage) BeginReplay() Replay { return alteredReplay{m.Message.BeginReplay(), m.what} }

type alteredReplay struct {
	Replay

	what string
}

func (r alteredReplay) FindRemoved(rec chunk.Record) {
	if r.what != "FindRemoved" {
		r.Replay.FindRemoved(rec)
	}
}

func (r alteredReplay) Scan(rec chunk.Record) {
	if r.what != "Scan" {
		r.Replay.Scan(rec)
	}
}

func (r alteredReplay) Hide(to []byte, rec chunk.Record) []byte {
	frames := r.Replay.Hide(to, rec)
	if r.what == "Hide of a replay" {
		return changed(frames)
	}
	return frames
}

func (r alteredReplay) Complete() bool { return r.Replay.Complete() != (r.what == "Complete") }

func (r alteredReplay) End(to []byte) []byte {
	frames := r.Replay.End(to)
	if r.what == "End" {
		return changed(frames)
	}
	return frames
}

// problem returns the first problem of random turns, "" if 300 logs have none.
func problem(dialect string, known Differences, now func(Turn) Writer) string {
	logs := cases(dialect, turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true})
	for seed := range 300 {
		for _, c := range logs.Example(seed) {
			if p := compare(c, known, old(dialect), now); p != "" {
				return p
			}
		}
	}
	return ""
}

// TestFindsDifferences checks that a writer that differs in one way is found, and that the error is short and names the place.
func TestFindsDifferences(t *testing.T) {
	for _, dialect := range []string{AGUI, AISDK, Kortyx, Mastra} {
		for _, typ := range []chunk.Type{chunk.TypeTextDelta, chunk.TypeToolEnd, chunk.TypeRunStarted, chunk.TypeStreamEnd, chunk.TypeCustom} {
			p := problem(dialect, nil, func(of Turn) Writer {
				if m, ok := old(dialect)(of).(Message); ok {
					return differentAppend{m, typ}
				}
				return &altered{Writer: old(dialect)(of), of: typ}
			})
			if !strings.HasPrefix(p, dialect+": Append") || !strings.Contains(p, string(typ)) {
				t.Errorf("%s, %s: %q", dialect, typ, p)
			}
		}
	}
	for _, dialect := range []string{AGUI, Kortyx, Mastra} {
		for _, what := range []string{"Hide", "Resume", "Done"} {
			p := problem(dialect, nil, func(of Turn) Writer { return &altered{Writer: old(dialect)(of), what: what} })
			if !strings.HasPrefix(p, dialect+": "+what) {
				t.Errorf("%s, %s: %q", dialect, what, p)
			}
		}
		if p := problem(dialect, nil, func(of Turn) Writer { return &keeper{Writer: old(dialect)(of)} }); !strings.Contains(p, "overwritten") {
			t.Errorf("%s: a writer keeps the data of a record: %q", dialect, p)
		}
	}
	for _, what := range []string{"Start", "Finish", "Advance", "FindRemoved", "Scan", "Complete", "End", "Hide of a replay"} {
		if p := problem(AISDK, nil, func(of Turn) Writer { return alteredMessage{old(AISDK)(of).(Message), what} }); p == "" {
			t.Errorf("%s: found no difference", what)
		}
	}
}

// differentAppend is an old writer of the AI SDK with another last byte after a record of one type.
type differentAppend struct {
	Message

	of chunk.Type
}

func (m differentAppend) Append(to []byte, rec chunk.Record) []byte {
	frames := m.Message.Append(to, rec)
	if rec.Type == m.of {
		return changed(frames)
	}
	return frames
}

// unused notes whether a row was reported.
type unused struct {
	testing.TB

	rows []any
}

func (u *unused) Helper() {}

func (u *unused) Errorf(_ string, args ...any) { u.rows = append(u.rows, args[1]) }

// TestKnownDifferences checks that a row accepts a difference of its dialect only where its predicate does, and that one that was not needed is reported.
func TestKnownDifferences(t *testing.T) {
	rows := func() Differences {
		return Differences{
			{Name: "another dialect", Dialect: Kortyx, Accepts: func(*Case, int) bool { return true }},
			{Name: "another type", Dialect: Mastra, Accepts: func(c *Case, at int) bool { return c.Log[at].Type == chunk.TypeFile }},
			{Name: "this", Dialect: Mastra, Accepts: func(c *Case, at int) bool { return c.Log[at].Type == chunk.TypeToolEnd }},
		}
	}
	now := func(of Turn) Writer { return &altered{Writer: old(Mastra)(of), of: chunk.TypeToolEnd} }
	if p := problem(Mastra, rows()[:2], now); p == "" {
		t.Error("a row accepts a difference that is not its own")
	}
	known := rows()
	if p := problem(Mastra, known, now); p != "" {
		t.Error(p)
	}
	u := unused{TB: t}
	known.Unused(&u, Mastra)
	if len(u.rows) != 1 || u.rows[0] != "another type" {
		t.Errorf("unused: %v", u.rows)
	}
}
