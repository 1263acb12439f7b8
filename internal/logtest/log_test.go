package logtest_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/logtest"
)

// The fake passes what the real log passes, see internal/hublog.
func TestLogKeepsTheContract(t *testing.T) {
	logtest.Exercise(t, func(*testing.T) logtest.World { return logtest.New() })
}

// A position with an ordinal need not be that of a record of the session: a hub
// that follows a tree stands at the record of a sub-agent and asks for its root.
func TestReplayFromAPlaceBetweenRecords(t *testing.T) {
	log := logtest.New()
	root := chunk.RootSession("acme", "root")
	logtest.Begin(log, root)
	between := logtest.Begin(log, root.Child("child"))
	want := log.Append(root, chunk.TypeTextDelta, `"delta":"b"`)
	got, err := logtest.Collect(log.Replay(t.Context(), root, chunk.Position{Seq: between.Seq, Ordinal: 1}, logtest.End))
	if err != nil {
		t.Fatal(err)
	}
	if err := logtest.Same(got, []chunk.Record{want}); err != nil {
		t.Error(err)
	}
}
