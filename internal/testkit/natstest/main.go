package natstest

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is the TestMain of a package that uses natstest: it runs the tests and fails if goroutines leak. The commands of Tailrace that a test runs, in its process
// or as a process, do not use a default port or directory.
func Main(m *testing.M, opts ...goleak.Option) {
	withoutDefaults()
	goleak.VerifyTestMain(m, opts...)
}

// withoutDefaults sets the settings of Tailrace whose default is shared by all processes of the machine, so that a test passes beside a `make run`: listeners get
// a free port, a command that should have the URL of a server or a directory fails.
func withoutDefaults() {
	for name, value := range map[string]string{
		"TAILRACE_LISTEN": Loopback + ":0", "TAILRACE_OPS_LISTEN": Loopback + ":0", "TAILRACE_NATS_PORT": "1", "TAILRACE_DATA_DIR": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
}
