package natstest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that uses natstest: it runs the tests and
// fails if goroutines leak.
func Main(m *testing.M, opts ...goleak.Option) { goleak.VerifyTestMain(m, opts...) }
