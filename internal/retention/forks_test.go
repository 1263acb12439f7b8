package retention

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// found returns the ids of the forks of a session, and those of its keys.
func (w *env) found(s chunk.Session) string {
	w.Helper()
	var forks, keys []string
	for fork, err := range w.eraser.Forks(w.Context(), s) {
		must(w.T, err)
		forks = append(forks, fork.Session.ID)
	}
	all, err := w.store.Forks(w.Context(), s)
	must(w.T, err)
	for _, s := range all {
		keys = append(keys, s.ID)
	}
	slices.Sort(forks)
	slices.Sort(keys)
	return strings.Join(forks, " ") + " of " + strings.Join(keys, " ")
}

func (w *env) wantFound(when string, s chunk.Session, want string) {
	w.Helper()
	if got := w.found(s); got != want {
		w.Errorf("%s: %s has the forks %q, want %q", when, s, got, want)
	}
}

// The keys of a session name its forks, also those that no projector has saved. A key without a fork of this session says nothing: that of an incomplete fork, of another
// session, of a fork that was deleted, or of one of an earlier session with the id. The key goes with the fork, and all go with the session.
func TestForksAreFound(t *testing.T) {
	w := newEnv(t)
	say := func(s chunk.Session) chunk.Session {
		must(t, w.say(s).End(t.Context(), nil))
		return s
	}
	origin, other := say(chunk.RootSession("acme", "o:1")), say(chunk.RootSession("acme", "other"))
	globex := say(chunk.RootSession("globex", "o:1"))
	records := w.forks(origin)
	fork := func(of, s chunk.Session, n int) chunk.Session {
		t.Helper()
		must(t, w.store.AddFork(t.Context(), of, s))
		if ok, err := w.producer.Fork(t.Context(), s, records(s)[:n]); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return s
	}
	complete := len(records(origin))
	f1 := fork(origin, chunk.RootSession("acme", "f/1@"), complete)
	f2 := fork(origin, chunk.RootSession("acme", "f2"), complete)
	fork(origin, chunk.RootSession("acme", "part"), complete-1)
	must(t, w.store.AddFork(t.Context(), origin, other))
	must(t, w.store.AddFork(t.Context(), origin, chunk.RootSession("acme", "none")))
	w.wantFound("written", origin, "f/1@ f2 of f/1@ f2 none other part")
	w.wantFound("another tenant", globex, " of ")

	must(t, w.eraser.Delete(t.Context(), f1))
	w.wantFound("a fork was deleted", origin, "f2 of f2 none other part")
	must(t, w.eraser.Delete(t.Context(), origin))
	w.wantFound("the origin was deleted", origin, " of ")

	// A process that was stalled writes the key after that. The session with the id that starts then has another time.
	natstest.Eventually(t, "another millisecond", func(context.Context) error {
		if head := w.Snapshot(f2); time.Now().UnixMilli() <= head.Created {
			return fmt.Errorf("created at %d", head.Created)
		}
		return nil
	})
	say(origin)
	must(t, w.store.AddFork(t.Context(), origin, f2))
	w.wantFound("started again", origin, " of f2")
	records = w.forks(origin)
	fork(origin, chunk.RootSession("acme", "f3"), len(records(origin)))
	w.wantFound("a fork of the new one", origin, "f3 of f2 f3")
}

// The projector writes the key of a fork before its first head, so a bucket that is filled from the log has it. One that is removed because of its age takes its key along.
func TestKeysOfForksAreWrittenAgain(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	origin, fork := chunk.RootSession("acme", "o1"), chunk.RootSession("acme", "f1")
	must(t, w.say(origin).End(t.Context(), nil))
	records := w.forks(origin)(fork)
	if ok, err := w.producer.Fork(t.Context(), fork, records); !ok || err != nil {
		t.Fatal(ok, err)
	}
	natstest.Eventually(t, "the head of the fork", func(ctx context.Context) error {
		head, _, err := w.store.Load(ctx, fork)
		if err == nil && head.Origin == nil {
			err = fmt.Errorf("no origin at %d", head.Position.Ordinal)
		}
		return err
	})
	stop()
	w.wantFound("saved", origin, "f1 of f1")
	stream, err := w.projector.Stream(t.Context(), "TR_CHUNKS_0")
	must(t, err)
	must(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject("tr.chunks.0.acme.f1.f1")))
	if n, err := w.eraser.SweepAt(t.Context(), time.Now().Add(200*24*time.Hour)); n != 1 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	w.wantFound("expired", origin, " of ")
}
