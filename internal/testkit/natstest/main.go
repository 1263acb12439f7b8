package natstest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// IsChild reports whether this process is a child of StartProcess or StartCluster.
func IsChild() bool {
	_, ok := os.LookupEnv(childVariable)
	return ok
}

// Main is the TestMain of a package that uses natstest: it runs the tests and
// fails if goroutines leak. In a child process of StartProcess or StartCluster
// it runs the server instead of the tests.
func Main(m *testing.M, opts ...goleak.Option) {
	if text, ok := os.LookupEnv(childVariable); ok {
		os.Exit(runChild(text, os.Stdin, os.Stdout))
	}
	// A mirror that was deleted, or whose server was shut down, while it asked its stream for a consumer waits 30 seconds for the response.
	opts = append(opts, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"))
	goleak.VerifyTestMain(m, opts...)
}
