package mastra

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// fataler is testing.TB, or the test of a property.
type fataler interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
