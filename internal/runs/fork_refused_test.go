package runs

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// A fork whose origin is deleted after its messages were read has no record.
func TestForkOfDeletedSession(t *testing.T) {
	w := stack.Start(t, stack.Options{})
	origin, fork := chunk.RootSession("acme", "s1"), chunk.RootSession("acme", "f1")
	writer := w.NewWriter(producers.Config{})
	run, err := writer.Start(t.Context(), origin, chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: "where?"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	seeds, end, _, err := w.Snapshot(origin).Seed(fold.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	var records []chunk.Chunk
	for _, b := range seeds {
		records = append(records, chunk.Chunk{AgentID: fork.ID, AgentType: "finder", Body: b})
	}
	records = append(records, chunk.Chunk{AgentID: fork.ID, AgentType: "finder", Body: end})
	js := w.NewProcess(natsauth.Projector).JS
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	eraser, err := retention.NewEraser(js, store, retention.EraserConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := eraser.Delete(t.Context(), origin); err != nil {
		t.Fatal(err)
	}
	f := forks{Reader: w.Reader, index: store, open: func() (*producers.Producer, error) { return writer, nil }}
	if ok, err := f.Fork(t.Context(), origin, fork, records); ok || !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("%t, %v", ok, err)
	}
	if n := len(w.Records(fork)); n > 0 {
		t.Errorf("%d records", n)
	}
}
