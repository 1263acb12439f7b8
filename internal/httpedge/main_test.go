package httpedge_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs more histories than the default of rapid, unless -rapid.checks is set.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("1000"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
