package projector_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/storetest"
)

// verified verifies s1 and expects a finding.
func verified(t *testing.T, store projector.Store, log projector.Log, want projector.Finding) projector.Verdict {
	t.Helper()
	v, err := projector.Verify(t.Context(), store, log, s1)
	if err != nil || v.Finding != want {
		t.Fatalf("%s, %v: %+v; want %s", v.Finding, err, v, want)
	}
	if (v.Finding == projector.Different) != (len(v.Differences) > 0) {
		t.Fatalf("%s with %d differences", v.Finding, len(v.Differences))
	}
	return v
}

// A snapshot is the same wherever it was saved, however far the log has gone on
// and whatever of it was taken back since.
func TestVerifyWhatIsRight(t *testing.T) {
	for seed := range uint64(20) {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewAuthor(log, s1, seed)
		a.Write(t, 10)
		for range 8 {
			stored(t, store, log, s1)
			a.Write(t, 40)
			verified(t, store, log, projector.Same)
			log.Sweep(s1)
			verified(t, store, log, projector.Same)
		}
	}
}

// A head that was folded from another log shows it, even if all it says is the
// same; and the members that differ are named.
func TestVerifyWhatIsWrong(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"})
	foreign, other := storetest.NewLog(), storetest.NewMemory()
	foreign.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	foreign.Append(t, s1, 1, chunk.TextDelta{Delta: "b"})
	stored(t, store, log, s1)
	stored(t, other, foreign, s1)
	verified(t, store, log, projector.Same)
	v := verified(t, other, log, projector.Different)
	var members []string
	for _, d := range v.Differences {
		members = append(members, d.Member)
	}
	if got := strings.Join(members, " "); got != "open records" {
		t.Errorf("differs in %q, want open records: %+v", got, v.Differences)
	}
}

// A log that was set back, and one that went on differently from there.
func TestVerifyAgainstALogThatWasSetBack(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	stored(t, store, log60(t, log), s1)
	back := storetest.NewLog()
	a := storetest.NewAuthor(back, s1, 22)
	a.Crashes = false
	a.Write(t, 20)
	verified(t, store, back, projector.Unprovable)
	a.Write(t, 100)
	verified(t, store, back, projector.Different)
}

// log60 has a session of about 60 records.
func log60(t *testing.T, log *storetest.Log) *storetest.Log {
	t.Helper()
	a := storetest.NewAuthor(log, s1, 21)
	a.Crashes = false
	a.Write(t, 60)
	return log
}

// Messages that are not those that the head counts are a difference.
func TestVerifyMessages(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewAuthor(log, s1, 3)
	a.Write(t, 1)
	for stored(t, store, log, s1).FinishedCount() == 0 {
		a.Write(t, 40)
	}
	store.Tear(s1)
	if v := verified(t, store, log, projector.Different); v.Differences[0].Member != "messages" {
		t.Errorf("%+v, want messages", v.Differences)
	}
}

func TestVerifyWhatCannotBeCompared(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	if _, err := projector.Verify(t.Context(), store, log, s1); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("err = %v, want ErrUnknownSession", err)
	}
	records := storetest.NewAuthor(log, s1, 4).Write(t, 60)
	verified(t, store, log, projector.Unsaved)
	stored(t, store, log, s1)
	log.Expire(s1, 5)
	verified(t, store, log, projector.Unprovable)
	log.Expire(s1, records[len(records)-1].Ordinal)
	verified(t, store, log, projector.Unprovable)
	store.Spoil(s1, "no head")
	verified(t, store, log, projector.Unreadable)
}

// A head of version 1 is not wrong because it knows less.
func TestVerifyAnOlderHead(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"})
	store.Spoil(s1, olderHead(t, storetest.Fold(t, log, s1)))
	verified(t, store, log, projector.Older)
	store.Spoil(s1, strings.Replace(olderHead(t, storetest.Fold(t, log, s1)), `"text":"a"`, `"text":"b"`, 1))
	verified(t, store, log, projector.Different)
}

// olderHead is a head as version 1 wrote it: without what version 2 adds.
func olderHead(t *testing.T, s fold.Snapshot) string {
	t.Helper()
	head := strings.Replace(string(s.AppendHead(nil)), `"version":2`, `"version":1`, 1)
	head = strings.ReplaceAll(head, `"status":"running",`, "")
	for {
		before, rest, found := strings.Cut(head, `"records":"`)
		if !found {
			return head
		}
		_, after, _ := strings.Cut(rest, `"recordsSince":1,`)
		head = before + after
	}
}
