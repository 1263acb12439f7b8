package fold

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// begun is a session with a run and one piece of text, at ordinal 2.
func begun(t *testing.T) Snapshot {
	t.Helper()
	s := New(session)
	for i, body := range []chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "a"}} {
		rec := record(t, i+1, body)
		rec.Epoch = 5
		var err error
		if s, err = Apply(s, rec); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// What cannot be applied changes nothing, and says what to do.
func TestRefusedRecordsChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*chunk.Record)
		want   error
	}{
		{"one is missing before it", func(r *chunk.Record) { r.Ordinal = 4 }, ErrGap},
		{"it is of another session", func(r *chunk.Record) { r.Session = chunk.RootSession("acme", "s2") }, ErrForeign},
		{"it is of another tenant", func(r *chunk.Record) { r.Session.Tenant = "evil" }, ErrForeign},
		{"it is no JSON", func(r *chunk.Record) { r.Data = []byte("{") }, ErrPoison},
		{"it is nothing", func(r *chunk.Record) { r.Data = nil }, ErrPoison},
		{"inside and outside differ", func(r *chunk.Record) { r.Type = chunk.TypeStreamEnd }, ErrPoison},
		{"a later writer wrote over the past", func(r *chunk.Record) { r.Ordinal, r.Epoch = 2, 6 }, ErrRewound},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begun(t)
			before := stored(s)
			rec := record(t, 3, chunk.TextDelta{Delta: "b"})
			rec.Epoch = 5
			c.change(&rec)
			s, err := Apply(s, rec)
			if !errors.Is(err, c.want) || IsPermanent(err) != errors.Is(c.want, ErrPoison) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
			if stored(s) != before {
				t.Errorf("changed to %s", stored(s))
			}
		})
	}
}

// A record of an overtaken epoch moves the position when its turn comes, and the
// chain, and nothing else; one of a type that nobody knows too.
func TestPassedOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*chunk.Record)
	}{
		{"an overtaken epoch", func(r *chunk.Record) { r.Epoch = 4 }},
		{"an overtaken epoch that cannot even be read", func(r *chunk.Record) { r.Epoch, r.Data = 4, nil }},
		{"an unknown type", func(r *chunk.Record) {
			r.Type, r.Data = "hologram", []byte(`{"type":"hologram","agentId":"s1","agentType":"agent","timestamp":1,"step":9}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := begun(t)
			rec := record(t, 3, chunk.TextDelta{Delta: "b"})
			rec.Epoch = 5
			c.change(&rec)
			s, err := Apply(begun(t), rec)
			if err != nil || s.Position != rec.Position() {
				t.Fatalf("position %+v, %v", s.Position, err)
			}
			if s.chain == want.chain {
				t.Error("the chain does not tell")
			}
			s.Position, s.chain = want.Position, want.chain
			equal(t, "all but position and chain", s, want)
		})
	}
}

// Records that have expired are counted and marked, and the fold goes on.
func TestAcrossWhatExpired(t *testing.T) {
	rec := record(t, 10, chunk.TextDelta{Delta: "z"})
	rec.Epoch = 5
	s := Across(begun(t), rec, Expired)
	s, err := Apply(s, rec)
	if err != nil || s.Faults.Lost != 7 || s.Position != rec.Position() || len(s.Faults.Recent) != 1 {
		t.Errorf("faults %+v at %+v, %v; want 7 lost", s.Faults, s.Position, err)
	}
	equal(t, "reload", reload(t, s), s)
}

// A mark that lists nobody's records, all records, or nonsense does no harm.
func TestHostileMarks(t *testing.T) {
	const most = 1<<53 - 1
	for _, removed := range [][]chunk.OrdinalRange{
		{},
		{{First: 1, Last: most}},
		{{First: most, Last: most}, {First: 2, Last: 2}, {First: 2, Last: 2}, {First: 1, Last: 2}},
		{{First: 3, Last: 3}},
	} {
		s := begun(t)
		mark := record(t, 3, chunk.Truncated{Removed: removed})
		mark.Epoch = 5
		log := []chunk.Record{record(t, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}), record(t, 2, chunk.TextDelta{Delta: "a"}), mark}
		for i := range log {
			log[i].Epoch = 5
		}
		s = take(t, s, mark, log)
		if s.Position != mark.Position() {
			t.Errorf("%v: position %+v", removed, s.Position)
		}
		equal(t, "reload", reload(t, s), s)
	}
}

// A head of another version is not guessed at.
func TestOtherVersion(t *testing.T) {
	for _, head := range []string{`{}`, `{"version":3}`, `{"version":0}`} {
		if _, err := ParseHead([]byte(head)); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v, want ErrVersion", head, err)
		}
		if _, err := ParseHead([]byte(head)); errors.Is(err, ErrNewer) != (head == `{"version":3}`) {
			t.Errorf("%s: %v", head, err)
		}
	}
	for _, head := range []string{``, `[]`, `{`, `{"version":2,"open":{}}`, `{"version":2,"seq":"x"}`, `{"version":2,"finished":2,"chain":"00"}`} {
		if _, err := ParseHead([]byte(head)); err == nil || errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v, want that it is damaged", head, err)
		}
	}
}
