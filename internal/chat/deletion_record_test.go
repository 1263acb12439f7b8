package chat

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/projector/fold"
)

// A chat is deleted, and its log has only the deletion record, with its tombstone and without it. Each request has the answer of a chat that does not exist, and the
// next message starts the chat as a new one.
func TestChatAfterItsDeletion(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("tombstone lost %t", lost), func(t *testing.T) {
			u := newUploads(t)
			u.answer()
			requests := func() (all []string) {
				all = append(all, u.edge.get("/stream", nil), u.edge.get("/stream", http.Header{"X-Resume-From-Sequence": {"1"}}), u.edge.get("/snapshot", nil), u.edge.get("/queue", nil))
				return append(all, u.edge.post("/answers", `{"toolCallId":"c1","result":1}`), u.edge.post("/stop", ""))
			}
			unknown := requests()
			u.edge.post("", chatBody("", user("u1", "canary")))
			u.awaitSaved()
			if err := u.delete(); err != nil {
				t.Fatal(err)
			}
			if lost {
				u.loseTombstone()
			}
			for i, got := range requests() {
				if got != unknown[i] {
					t.Errorf("request %d: %s, want %s", i, got, unknown[i])
				}
			}
			if got := u.edge.post("", chatBody("", user("u1", "hello"))); !strings.HasPrefix(got, "start(msg-1) ") || !strings.HasSuffix(got, " DONE") {
				t.Errorf("the first message of the new chat: %s", got)
			}
			u.awaitSaved()
			if got := u.edge.get("/snapshot", nil); strings.Contains(got, "canary") || !strings.Contains(got, "hello") {
				t.Errorf("the new chat has %s", got)
			}
			if snap := u.AwaitStatus(uploaded, fold.Ended); snap.Faults.Lost+snap.Faults.Skipped > 0 {
				t.Errorf("faults of the new chat: %+v", snap.Faults)
			}
		})
	}
}

func (u *uploads) loseTombstone() {
	u.t.Helper()
	bucket := must(u.Server.JetStream(u.t).Stream(u.t.Context(), "KV_TR_SNAPSHOTS"))(u.t)
	key := must(names.SnapshotHeadKey(uploaded))(u.t)
	if err := bucket.Purge(u.t.Context(), jetstream.WithPurgeSubject("$KV.TR_SNAPSHOTS."+key)); err != nil {
		u.t.Fatal(err)
	}
}
