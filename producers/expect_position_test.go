package producers

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// A start that was decided from a snapshot fails if the session has newer records: it neither repeats a completed run nor replaces a run of another worker. Of
// many concurrent starts from one snapshot one succeeds.
func TestStartBehindARecord(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	s := chunk.RootSession("t", "behind")
	run := mustStart(t, producer, s, ExpectPosition(chunk.Position{}))
	seen := run.Position()
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	before := p.log(t, s)
	for _, mode := range []string{modeExecute, modeTakeover} {
		_, err := producer.Start(t.Context(), s, chunk.RunStarted{Mode: mode}, ExpectPosition(seen))
		if !errors.Is(err, ErrPositionMismatch) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("%s: err = %v, want ErrMoved and ErrNotStored", mode, err)
		}
	}
	if after := p.log(t, s); len(after) != len(before) {
		t.Fatalf("%d records, want the %d from before", len(after), len(before))
	}
	seen = run.Position()
	outcome := make(chan error, 8)
	for range cap(outcome) {
		go func() {
			_, err := producer.Start(t.Context(), s, chunk.RunStarted{Mode: modeTakeover}, ExpectPosition(seen))
			outcome <- err
		}()
	}
	won := 0
	for range cap(outcome) {
		switch err := <-outcome; {
		case err == nil:
			won++
		case !errors.Is(err, ErrPositionMismatch):
			t.Errorf("err = %v, want ErrMoved", err)
		}
	}
	if won != 1 {
		t.Errorf("%d started, want 1", won)
	}
}
