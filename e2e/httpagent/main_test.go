//go:build e2e

package httpagent

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
