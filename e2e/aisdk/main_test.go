//go:build e2e

package aisdk

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(house{m}) }

// house sends the judges home before anybody looks for what was left behind.
type house struct{ m *testing.M }

func (h house) Run() int {
	code := h.m.Run()
	for _, j := range judges {
		j.stop()
	}
	return code
}
