package producers

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// Who decided what to start from a look at the session must not start it when
// the session has gone on since: not an ended run again, and not over a run that
// somebody else began. Of many who looked at the same time one starts.
func TestStartBehindARecord(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	s := chunk.RootSession("t", "behind")
	run := mustStart(t, producer, s, Behind(chunk.Position{}))
	seen := run.Position()
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	before := p.log(t, s)
	for _, mode := range []string{modeExecute, modeTakeover} {
		_, err := producer.Start(t.Context(), s, chunk.RunStarted{Mode: mode}, Behind(seen))
		if !errors.Is(err, ErrMoved) || !errors.Is(err, chunk.ErrNotStored) {
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
			_, err := producer.Start(t.Context(), s, chunk.RunStarted{Mode: modeTakeover}, Behind(seen))
			outcome <- err
		}()
	}
	won := 0
	for range cap(outcome) {
		switch err := <-outcome; {
		case err == nil:
			won++
		case !errors.Is(err, ErrMoved):
			t.Errorf("err = %v, want ErrMoved", err)
		}
	}
	if won != 1 {
		t.Errorf("%d started, want 1", won)
	}
}
