package natstest_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// lastMessage polls until the server answers: right after a restart, requests
// get no responders.
func lastMessage(t *testing.T, js jetstream.JetStream, stream, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	var msg *jetstream.RawStreamMsg
	natstest.Eventually(t, "the last message of "+subject, func(ctx context.Context) error {
		s, err := js.Stream(ctx, stream)
		if err == nil {
			msg, err = s.GetLastMsgForSubject(ctx, subject)
		}
		return err
	})
	return msg
}
