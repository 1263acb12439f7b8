package natstest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that uses this one: it runs the tests and
// fails when a goroutine is left over. When the test binary was started by
// StartProcess or StartCluster it is the server, and runs no tests.
//
//	func TestMain(m *testing.M) { natstest.Main(m) }
func Main(m *testing.M, opts ...goleak.Option) {
	if text, ok := os.LookupEnv(childVariable); ok {
		os.Exit(runChild(text, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m, opts...)
}
