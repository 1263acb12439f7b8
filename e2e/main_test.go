//go:build e2e

package e2e

import (
	"os"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// TestMain runs the tests or, in a child process, a NATS server, followers or a worker.
// Each process of a test gets a separate port for its probes and metrics, as --listen
// does for the edge. Each process has the NATS permissions of its role.
func TestMain(m *testing.M) {
	if job, ok := os.LookupEnv(remoteVariable); ok {
		os.Exit(runRemote(job, os.Stdin, os.Stdout))
	}
	if job, ok := os.LookupEnv(workerVariable); ok {
		os.Exit(runWorker(job, os.Stdin))
	}
	roletest.Main(m)
}
