package natstest_test

import (
	"testing"

	"github.com/tailrace/tailrace/internal/natstest"
)

// parentVariable makes the test binary a parent that starts a server and waits
// to be killed.
const parentVariable = "TAILRACE_NATSTEST_PARENT"

func TestMain(m *testing.M) { natstest.Main(m) }
