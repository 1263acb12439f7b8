package storetest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace/tailrace/internal/projector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The store in memory keeps the contract that the real ones keep.
func TestMemoryKeepsTheContract(t *testing.T) {
	RunContract(t, func(*testing.T) projector.Store {
		m := NewMemory()
		m.Limit = 4 << 20
		return m
	})
}
