//go:build e2e

package chat

import (
	"os"
	"testing"

	"github.com/tailrace/tailrace/internal/natstest"
)

// TestMain runs the tests, or is an edge or a NATS server for them.
func TestMain(m *testing.M) {
	if listen, ok := os.LookupEnv(edgeVariable); ok {
		os.Exit(runEdge(listen))
	}
	natstest.Main(m)
}
