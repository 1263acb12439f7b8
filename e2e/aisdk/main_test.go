//go:build e2e

package aisdk

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite stops the Node processes before goleak checks for leaked goroutines.
type suite struct{ m *testing.M }

func (h suite) Run() int {
	code := h.m.Run()
	for _, j := range sdkClients {
		j.stop()
	}
	return code
}
