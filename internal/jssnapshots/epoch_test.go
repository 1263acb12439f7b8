package jssnapshots

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// The bucket lacks what the consumer has acknowledged, as a restored one does. When the bucket or the log gets a new epoch, while a projector runs or before
// one starts, all sessions are saved again, also those without new records.
func TestBucketRefilledForNewEpoch(t *testing.T) {
	for _, renewed := range []string{"KV_TR_SNAPSHOTS", stream} {
		t.Run(renewed, func(t *testing.T) {
			w := newEnv(t)
			all := []*storetest.SessionGenerator{
				storetest.NewSessionGenerator(storetest.NewLog(), s1, 31),
				storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", "s2"), 32),
			}
			caughtUp := func() {
				t.Helper()
				for _, session := range all {
					w.caughtUp(session.Session)
				}
				w.allAcknowledged()
			}
			p := w.project(SourceConfig{})
			for _, session := range all {
				w.copy(session.Write(t, 60))
			}
			caughtUp()
			p.awaitStart(t, nil)

			if renewed == stream { // a process notices it when it attaches to its consumer
				p.stop()
			}
			w.emptyBucket()
			w.renewEpoch(renewed)
			if renewed == stream {
				w.project(SourceConfig{})
			} else {
				p.awaitStart(t, ErrBucketRecreated)
			}
			caughtUp()
		})
	}
}

// The log gets a new epoch while a projector runs, which then loses its consumer.
func TestEpochOfLogRenewedWhileRunning(t *testing.T) {
	w := newEnv(t)
	session := storetest.NewSessionGenerator(storetest.NewLog(), s1, 33)
	p := w.project(SourceConfig{})
	w.copy(session.Write(t, 60))
	w.caughtUp(s1)
	p.awaitStart(t, nil)
	w.emptyBucket()
	w.renewEpoch(stream)
	if err := w.js.DeleteConsumer(t.Context(), stream, Durable); err != nil {
		t.Fatal(err)
	}
	p.awaitStart(t, ErrStreamRecreated)
	w.caughtUp(s1)
	w.copy(session.Write(t, 20))
	w.caughtUp(s1)
	w.allAcknowledged()
}

func (w *env) emptyBucket() {
	w.tb.Helper()
	bucket, err := w.js.Stream(w.tb.Context(), "KV_TR_SNAPSHOTS")
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := bucket.Purge(w.tb.Context()); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *env) renewEpoch(stream string) {
	w.tb.Helper()
	if err := jsclient.New(w.js).RenewEpoch(w.tb.Context(), stream); err != nil {
		w.tb.Fatal(err)
	}
}
