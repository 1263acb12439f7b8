package consumers

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// With three replicas a consumer may be on one that lags. A read nevertheless returns every record that was acknowledged before the read began, and a
// follower misses no record when the leader is killed.
func TestReplicas(t *testing.T) {
	cluster := streamtest.StartCluster(t)
	w := &env{t: t, js: cluster.JetStream(t), next: map[chunk.Session]chunk.Ordinal{}}
	cluster.AwaitCurrent(t, stream)
	w.reader = w.newReader(Config{Heartbeat: 500 * time.Millisecond}, cluster.Conn(t))
	first := w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	same(t, f.get(t, 1), []chunk.Record{first})
	var want []chunk.Record
	kid := alice.Child("kid")
	for i := range 25 {
		want = append(want, w.say(alice, "x"))
		after := chunk.Position{}
		if i > 0 {
			after = want[i-1].Position()
		}
		if i == 0 {
			continue
		}
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: after}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want[i:])
		child := w.say(kid, "y")
		got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: want[i].Seq}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, []chunk.Record{child})
	}
	same(t, f.get(t, 25), want)

	// If the leader is killed when it gets the request to delete a consumer, the request is lost. The server then deletes the consumer after its inactivity
	// threshold, which is longer than this test waits.
	w.consumers(1)
	leader := cluster.Leader(t, stream)
	cluster.Kill(t, leader)
	more := w.persist(alice, 20)
	same(t, f.get(t, 20), more)
	cluster.Restart(t, leader)
	cluster.AwaitCurrent(t, stream)
	more = w.persist(alice, 5)
	same(t, f.get(t, 5), more)
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil || len(got) != 51 {
		t.Fatalf("%d records, %v; want 51", len(got), err)
	}
	f.stop(t)
	w.noConsumers()
}

// persist writes n records during the election of a leader as a writer does: it sends each record with the same expected sequence until it is stored.
func (w *env) persist(s chunk.Session, n int) []chunk.Record {
	w.t.Helper()
	var recs []chunk.Record
	for range n {
		w.next[s]++
		msg := w.encode(s, 1, w.next[s], chunk.TextDelta{Delta: "on"})
		msg.Header.Set(jetstream.MsgIDHeader, chunk.EventID(1, w.next[s])) // sufficient for one writer; the SDK also compares the stored message
		rec := chunk.Record{Session: s, Epoch: 1, Ordinal: w.next[s], Type: chunk.TypeTextDelta, Data: msg.Data}
		natstest.Eventually(w.t, "a record is stored", func(ctx context.Context) error {
			ack, err := w.js.PublishMsg(ctx, msg)
			if err == nil {
				rec.Seq = chunk.Seq(ack.Sequence)
			}
			return err
		})
		recs = append(recs, rec)
	}
	return recs
}
