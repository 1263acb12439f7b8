package projector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// expectFinding verifies s1 and checks the finding.
func expectFinding(t *testing.T, store projector.Store, log projector.Log, want projector.Finding) projector.VerifyResult {
	t.Helper()
	v, err := projector.VerifySnapshot(t.Context(), store, log, s1)
	if err != nil || v.Finding != want {
		t.Fatalf("%s, %v: %+v; want %s", v.Finding, err, v, want)
	}
	if (v.Finding == projector.Different) != (len(v.Differences) > 0) {
		t.Fatalf("%s with %d differences", v.Finding, len(v.Differences))
	}
	return v
}

// TestVerifySame checks that a snapshot is the same wherever it was saved, although the log has grown and later records removed
// earlier ones.
func TestVerifySame(t *testing.T) {
	for seed := range uint64(20) {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewSessionGenerator(log, s1, seed)
		a.Write(t, 10)
		for range 8 {
			stored(t, store, log, s1)
			a.Write(t, 40)
			expectFinding(t, store, log, projector.Same)
			log.DeleteRemoved(s1)
			expectFinding(t, store, log, projector.Same)
		}
	}
}

// TestVerifyDifferent checks that a head folded from another log is found, even if all other members are the same, and that the
// members that differ are named.
func TestVerifyDifferent(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"})
	another, other := storetest.NewLog(), storetest.NewMemory()
	another.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	another.Append(t, s1, 1, chunk.TextDelta{Delta: "b"})
	stored(t, store, log, s1)
	stored(t, other, another, s1)
	expectFinding(t, store, log, projector.Same)
	v := expectFinding(t, other, log, projector.Different)
	var members []string
	for _, d := range v.Differences {
		members = append(members, d.Member)
	}
	if got := strings.Join(members, " "); got != "open records" {
		t.Errorf("differs in %q, want open records: %+v", got, v.Differences)
	}
}

// TestVerifyRolledBackLog compares a head with a log that was rolled back, and with one that continued differently.
func TestVerifyRolledBackLog(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	stored(t, store, log60(t, log), s1)
	back := storetest.NewLog()
	a := storetest.NewSessionGenerator(back, s1, 22)
	a.WithCleanups = false
	a.Write(t, 20)
	expectFinding(t, store, back, projector.Unprovable)
	a.Write(t, 100)
	expectFinding(t, store, back, projector.Different)
}

// log60 has a session of about 60 records.
func log60(t *testing.T, log *storetest.Log) *storetest.Log {
	t.Helper()
	a := storetest.NewSessionGenerator(log, s1, 21)
	a.WithCleanups = false
	a.Write(t, 60)
	return log
}

// TestVerifyMessages checks that stored messages which do not match the hash in the head are a difference.
func TestVerifyMessages(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 3)
	a.Write(t, 1)
	for storetest.Trimmed(stored(t, store, log, s1)).TrimmedCount() == 0 {
		a.Write(t, 40)
	}
	store.DropMessages(s1)
	if v := expectFinding(t, store, log, projector.Different); v.Differences[0].Member != "messages" {
		t.Errorf("%+v, want messages", v.Differences)
	}
}

func TestVerifyUnprovable(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	if _, err := projector.VerifySnapshot(t.Context(), store, log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	records := storetest.NewSessionGenerator(log, s1, 4).Write(t, 60)
	expectFinding(t, store, log, projector.Unsaved)
	stored(t, store, log, s1)
	log.Expire(s1, 5)
	expectFinding(t, store, log, projector.Unprovable)
	log.Expire(s1, records[len(records)-1].Ordinal)
	expectFinding(t, store, log, projector.Unprovable)
	store.CorruptHead(s1, "no head")
	expectFinding(t, store, log, projector.Unreadable)
}
