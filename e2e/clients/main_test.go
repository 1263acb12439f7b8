//go:build e2e

package clients

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

func TestMain(m *testing.M) { roletest.Main(m) }
