//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// An edge with 256 descriptors gets 400 clients. It keeps a reserve: the accepted
// clients are served, probes and metrics respond, and the others wait in the
// accept queue. If the limit falls to 256 after the start, so that there is no
// reserve, it accepts connections until the kernel refuses, and retries. In both
// cases every client has received the log of its session at the end.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const descriptors, pages = 256, 400
	for name, tt := range map[string]struct {
		atStart uint64 // descriptors
		served  int    // minimum served concurrently
		answers bool
	}{
		"with a reserve": {descriptors, descriptors / 2, true},
		"without":        {5 * descriptors, descriptors * 3 / 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.StartProcess(t)
			rec := startWriters(t, server.URL, 10, 250*time.Millisecond)
			edge := newEdge(t, server.URL)
			edge.descriptors = int(tt.atStart)
			edge.start(t)
			if err := unix.Prlimit(edge.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: descriptors, Max: tt.atStart}, nil); err != nil {
				t.Fatal(err)
			}
			readers := rec.startReaders(t, edge.addr, pages, nil)
			inside := func(f *follower) bool { return f.at.Load() > 0 }
			natstest.Eventually(t, "the edge to be full", func(context.Context) error {
				if n := readers.count(inside); n < tt.served {
					return fmt.Errorf("%d clients are served", n)
				}
				return nil
			})
			rec.awaitMore(t)
			if n := readers.count(inside); n >= descriptors {
				t.Errorf("%d clients are served with %d descriptors", n, descriptors)
			}
			if tt.answers {
				for _, path := range []string{"/healthz", "/readyz"} {
					awaitStatusCode(t, "http://"+edge.ops+path, http.StatusOK)
				}
				if open := edge.metric(t, "process_open_fds"); open >= descriptors {
					t.Errorf("%v of %d descriptors are open", open, descriptors)
				}
			}
			readers.checkAll(t)
			awaitStatusCode(t, "http://"+edge.addr+"/healthz", http.StatusOK)
		})
	}
}
