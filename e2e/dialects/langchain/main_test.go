//go:build e2e

package langchain

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite stops the Node process before goleak checks for leaked goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := client.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
