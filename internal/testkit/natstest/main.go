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
	goleak.VerifyTestMain(m, opts...)
}
