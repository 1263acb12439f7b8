package jscontrol

import (
	"fmt"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// Three servers, whose leader steps down or is killed while fifty clients answer at
// once: one answer is accepted, the errors of the others have that one, and a client
// that got a response reads it.
func TestFirstAnswerWinsOnACluster(t *testing.T) {
	t.Parallel()
	const rounds, clients = 6, 50
	cluster := streamtest.StartCluster(t)
	var boxes []*Inbox
	for range 3 {
		boxes = append(boxes, newInbox(t, cluster.JetStream(t), InboxConfig{RetryTimeout: clusterConfig.RetryTimeout}))
	}
	for round := range rounds {
		var all sync.WaitGroup
		var mu sync.Mutex // guards both
		accepted, named := map[string]bool{}, map[string]bool{}
		for i := range clients {
			all.Go(func() {
				b, a := boxes[i%len(boxes)], approval(fmt.Sprint("c", round), i%2 == 0)
				a.Reason = fmt.Sprint(i)
				err := b.Answer(t.Context(), a)
				winner := a.Reason
				if err != nil {
					winner = reasonOfFirst(t, err)
				}
				if read, err := b.Answers(t.Context(), session, "run-1"); err != nil || len(read) != round+1 || read[round].Reason != winner {
					t.Errorf("round %d: read %+v, %v, want %s", round, read, err, winner)
				}
				mu.Lock()
				defer mu.Unlock()
				if named[winner] = true; err == nil {
					accepted[winner] = true
				}
			})
		}
		killed := -1
		switch round % 3 {
		case 1:
			cluster.StepDown(t, "KV_TR_INBOX")
		case 2:
			killed = cluster.Leader(t, "KV_TR_INBOX")
			cluster.Kill(t, killed)
		}
		all.Wait()
		if len(accepted) != 1 || len(named) != 1 {
			t.Errorf("round %d: accepted %v, named %v", round, accepted, named)
		}
		if killed >= 0 {
			cluster.Restart(t, killed)
		}
	}
}

// reasonOfFirst returns the reason of the first answer, which err must have.
func reasonOfFirst(t *testing.T, err error) string {
	t.Helper()
	if first, ok := asAnswered(err); ok {
		return first.Reason
	}
	t.Errorf("err = %v, want ErrAnswered", err)
	return ""
}
