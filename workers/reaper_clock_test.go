package workers

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
)

// The clock of a host is a day fast: its sweep would fail the run of a command that a worker is about to fetch, so that it is refused. The run of a session is
// as old as its last record by the time of the server.
func TestReaperWithAWrongClock(t *testing.T) {
	w := newEnv(t)
	s, _ := w.orphan()
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), w.Snapshot(s), 0); err != nil {
		t.Fatal(err)
	}
	c := execute(uniqueName("s"), "unserved", "Hello?")
	w.Request(c)
	r := w.reaper(ReaperConfig{})
	for shift, want := range map[time.Duration]error{24 * time.Hour: jsclient.ErrClock, -24 * time.Hour: jsclient.ErrClock, 30 * time.Second: nil} {
		r.host = func() time.Time { return time.Now().Add(shift) }
		if err := r.Sweep(t.Context(), store); !errors.Is(err, want) {
			t.Errorf("host shifted by %s: %v, want %v", shift, err, want)
		}
		if _, _, err := w.Queue.Pending(t.Context(), c.Session, c.AgentType); err != nil {
			t.Fatalf("host shifted by %s: %v", shift, err)
		}
	}
	if types(w.Bodies(s)) != "run_started text_delta tool_start" {
		t.Errorf("the run was ended: %s", types(w.Bodies(s)))
	}
}
