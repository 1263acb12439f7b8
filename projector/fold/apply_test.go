package fold

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// begun returns a session with a run and one piece of text, at ordinal 2.
func begun(t *testing.T) Snapshot {
	t.Helper()
	s := newSnapshot(session)
	for i, body := range []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "a"}} {
		rec := record(t, i+1, body)
		rec.Epoch = 5
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestRejectedRecordsChangeNothing checks the error and the unchanged snapshot of records that cannot be applied.
func TestRejectedRecordsChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*chunk.Record)
		want   error
	}{
		{"missing record before it", func(r *chunk.Record) { r.Ordinal = 4 }, ErrGap},
		{"another session", func(r *chunk.Record) { r.Session = chunk.RootSession("acme", "s2") }, ErrWrongSession},
		{"another tenant", func(r *chunk.Record) { r.Session.Tenant = "evil" }, ErrWrongSession},
		{"invalid JSON", func(r *chunk.Record) { r.Data = []byte("{") }, ErrInvalidRecord},
		{"no data", func(r *chunk.Record) { r.Data = nil }, ErrInvalidRecord},
		{"types differ", func(r *chunk.Record) { r.Type = chunk.TypeStreamEnd }, ErrInvalidRecord},
		{"an applied ordinal after the position", func(r *chunk.Record) { r.Ordinal = 1 }, ErrGap},
		{"of a fenced epoch as well", func(r *chunk.Record) { r.Ordinal, r.Epoch = 2, 4 }, ErrGap},
		{"later epoch at an applied ordinal", func(r *chunk.Record) { r.Ordinal, r.Epoch = 2, 6 }, ErrLogRolledBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begun(t)
			before := stored(s)
			rec := record(t, 3, chunk.TextDelta{Delta: "b"})
			rec.Epoch = 5
			c.change(&rec)
			s, err := applyRecord(s, rec)
			if !errors.Is(err, c.want) || errors.Is(err, ErrInvalidRecord) != errors.Is(c.want, ErrInvalidRecord) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
			if stored(s) != before {
				t.Errorf("changed to %s", stored(s))
			}
		})
	}
}

// TestIgnoredRecords checks that a record of a fenced epoch or of an unknown type changes only the position and the chain.
func TestIgnoredRecords(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*chunk.Record)
	}{
		{"fenced epoch", func(r *chunk.Record) { r.Epoch = 4 }},
		{"fenced epoch and unreadable", func(r *chunk.Record) { r.Epoch, r.Data = 4, nil }},
		{"an unknown type", func(r *chunk.Record) {
			r.Type, r.Data = "hologram", []byte(`{"type":"hologram","agentId":"s1","agentType":"agent","timestamp":1,"step":9}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := begun(t)
			rec := record(t, 3, chunk.TextDelta{Delta: "b"})
			rec.Epoch = 5
			c.change(&rec)
			s, err := applyRecord(begun(t), rec)
			if err != nil || s.Position != rec.Position() {
				t.Fatalf("position %+v, %v", s.Position, err)
			}
			if s.chain == want.chain {
				t.Error("the chain is unchanged")
			}
			s.Position, s.chain = want.Position, want.chain
			equal(t, "all but position and chain", s, want)
		})
	}
}

// TestSkipExpired checks that expired records are counted as lost with a fault, and that the fold continues.
func TestSkipExpired(t *testing.T) {
	rec := record(t, 10, chunk.TextDelta{Delta: "z"})
	rec.Epoch = 5
	s := skipGap(begun(t), rec, GapExpired)
	s, err := applyRecord(s, rec)
	if err != nil || s.Faults.Lost != 7 || s.Position != rec.Position() || len(s.Faults.Recent) != 1 {
		t.Errorf("faults %+v at %+v, %v; want 7 lost", s.Faults, s.Position, err)
	}
	equal(t, "reload", reload(t, s), s)
}

// TestHostileTruncations checks that a truncated record that lists other, all or invalid ordinals is harmless.
func TestHostileTruncations(t *testing.T) {
	const maxOrdinal = 1<<53 - 1
	for _, removed := range [][]chunk.OrdinalRange{
		{},
		{{First: 1, Last: maxOrdinal}},
		{{First: maxOrdinal, Last: maxOrdinal}, {First: 2, Last: 2}, {First: 2, Last: 2}, {First: 1, Last: 2}},
		{{First: 3, Last: 3}},
	} {
		s := begun(t)
		truncation := record(t, 3, chunk.Truncated{Removed: removed})
		truncation.Epoch = 5
		log := []chunk.Record{record(t, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}), record(t, 2, chunk.TextDelta{Delta: "a"}), truncation}
		for i := range log {
			log[i].Epoch = 5
		}
		s = take(t, s, truncation, log)
		if s.Position != truncation.Position() {
			t.Errorf("%v: position %+v", removed, s.Position)
		}
		equal(t, "reload", reload(t, s), s)
	}
}

// TestOtherVersion checks that a head of another version is rejected.
func TestOtherVersion(t *testing.T) {
	for _, head := range []string{`{}`, `{"version":2}`, `{"version":0}`} {
		if _, err := ParseHead([]byte(head)); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v, want ErrVersion", head, err)
		}
		if _, err := ParseHead([]byte(head)); errors.Is(err, ErrNewerVersion) != (head == `{"version":2}`) {
			t.Errorf("%s: %v", head, err)
		}
	}
	for _, head := range []string{``, `[]`, `{`, `{"version":1}`, `{"version":1,"open":{}}`, `{"version":1,"seq":"x"}`, `{"version":1,"finished":2,"chain":"00"}`} {
		if _, err := ParseHead([]byte(head)); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v, want another error", head, err)
		}
	}
}
