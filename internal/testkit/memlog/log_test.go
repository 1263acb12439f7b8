package memlog_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// The log in memory passes the contract that the real log passes, see TestLogKeepsTheContract of consumers.
func TestLogKeepsTheContract(t *testing.T) {
	memlog.RunContract(t, func(*testing.T) memlog.TestLog { return memlog.New() })
}

// A position with an ordinal may be that of a record of another session: the position of a hub that follows a tree can be a record of a sub-agent when it reads
// the root.
func TestReplayAfterARecordOfAnotherSession(t *testing.T) {
	log := memlog.New()
	root := chunk.RootSession("acme", "root")
	memlog.AppendRunStarted(log, root)
	between := memlog.AppendRunStarted(log, root.Child("child"))
	want := log.Append(root, chunk.TypeTextDelta, `"delta":"b"`)
	got, err := memlog.Collect(log.Replay(t.Context(), chunk.Range{Session: root, After: chunk.Position{Seq: between.Seq, Ordinal: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := memlog.Same(got, []chunk.Record{want}); err != nil {
		t.Error(err)
	}
}
