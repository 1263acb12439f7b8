package natstest_test

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// parentVariable makes TestServersEndWithTheirParent the parent, in a test
// binary of its own.
const parentVariable = "TRTEST_NATSTEST_PARENT"

func TestMain(m *testing.M) { natstest.Main(m) }
