//go:build e2e

package e2e

import (
	"testing"

	"github.com/tailrace/tailrace/internal/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
