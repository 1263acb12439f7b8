package natstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// lastMessage asks until the server answers: right after a restart requests
// find nobody.
func lastMessage(t *testing.T, js jetstream.JetStream, stream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := js.Stream(ctx, stream)
		if err == nil {
			var msg *jetstream.RawStreamMsg
			if msg, err = s.GetLastMsgForSubject(ctx, subject); err == nil {
				return msg
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("last message of %s: %v", subject, err)
		}
	}
}
