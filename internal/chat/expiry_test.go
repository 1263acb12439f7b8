package chat

import (
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
)

// saveAndExpire stores the snapshot of the chat s1 and removes its records from the log.
func (w *env) saveAndExpire() {
	w.t.Helper()
	ctx := w.t.Context()
	log := must(consumers.New(w.JS, consumers.Config{}))(w.t)
	store := must(jssnapshots.New(w.JS, jssnapshots.Config{}))(w.t)
	must(projector.Rebuild(ctx, store, log, chunk.RootSession("acme", "s1")))(w.t)
	stream := must(w.JS.Stream(ctx, "TR_CHUNKS_0"))(w.t)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject("tr.chunks.0.acme.s1.s1")); err != nil {
		w.t.Fatal(err)
	}
}

// A conversation whose records have all expired continues: by an edge that had it in memory, and by another one.
func TestChatContinuesAfterItsRecordsExpired(t *testing.T) {
	for name, restarted := range map[string]bool{"same edge": false, "restarted edge": true} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			e := w.newEdge(nil)
			w.work(answer)
			want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
			w.saveAndExpire()
			if restarted {
				e = w.newEdge(nil)
			}
			want(t, e.get("", nil), "204")
			second := chatBody("", user("u1", "hi"), `{"id":"msg-1","role":"assistant","parts":[]}`, user("u2", "more"))
			want(t, e.post("", second), whole("msg-3"))
			want(t, e.post("", second), whole("msg-3"))
			snap := must(w.Reader.Snapshot(t.Context(), chunk.RootSession("acme", "s1")))(t)
			if n := len(snap.Messages(0)); n != 4 {
				t.Errorf("%d messages, want 4", n)
			}
		})
	}
}

// The records of an answer in flight expire. A page that returns gets 204: the snapshot has what was written.
func TestAnswerInFlightExpires(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	gate := make(chan struct{})
	w.work(slowly(gate))
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("text-delta(Hello )")
	w.saveAndExpire()
	want(t, w.newEdge(nil).get("", nil), "204")
	first.close()
	close(gate)
}
