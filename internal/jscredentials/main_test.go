package jscredentials

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func newStore(tb testing.TB, js jetstream.JetStream) *Store {
	tb.Helper()
	s, err := New(js, Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
