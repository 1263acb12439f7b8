//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// An edge with 256 descriptors gets 400 clients. With the default limit it keeps
// a reserve: the accepted clients are served, probes and metrics respond, and
// the others wait in the accept queue. With a limit that is too high it accepts
// connections until the kernel refuses, and retries. In both cases every client
// has received the log of its session at the end.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const descriptors, pages = 256, 400
	for name, tt := range map[string]struct {
		args    []string
		served  int // minimum served concurrently
		answers bool
	}{
		"with a reserve": {nil, descriptors / 2, true},
		"without":        {[]string{"--max-connections", "1000"}, descriptors * 3 / 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.StartProcess(t)
			rec := startWriters(t, server.URL, 10, 250*time.Millisecond)
			edge := newEdge(t, server.URL, tt.args...)
			edge.descriptors = descriptors
			edge.start(t)
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
