//go:build e2e

package dialects

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// suite stops the Node processes before goleak checks for leaked goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := errors.Join(aguiClient.Stop(), aiClient.Stop(), mastraClients.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
