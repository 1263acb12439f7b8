//go:build e2e

package agui

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite stops the Node process before goleak checks for leaked goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if theClient.stop != nil {
		theClient.stop()
	}
	return code
}
