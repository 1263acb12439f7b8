//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/natstest"
)

// An edge may have 256 descriptors open, and 400 pages come. By default it takes
// as many as leave it some descriptors: those are served, its probes and figures
// answer, and the others wait at the door. Told to take more than it can, it
// takes what the kernel gives and tries again. Either way everybody is served in
// the end, each with the log of its session.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const descriptors, pages = 256, 400
	for name, tt := range map[string]struct {
		args    []string
		served  int // at once, at least
		answers bool
	}{
		"with a reserve": {nil, descriptors / 2, true},
		"without":        {[]string{"--max-connections", "1000"}, descriptors * 3 / 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.StartProcess(t)
			chatter := startChatter(t, server.URL, 10, 250*time.Millisecond)
			edge := newEdge(t, server.URL, tt.args...)
			edge.descriptors = descriptors
			edge.start(t)
			crowd := chatter.startCrowd(t, edge.addr, pages, nil)
			inside := func(f *follower) bool { return f.at.Load() > 0 }
			natstest.Await(t, "the edge to be full", func(context.Context) error {
				if n := crowd.count(inside); n < tt.served {
					return fmt.Errorf("%d pages are served", n)
				}
				return nil
			})
			chatter.awaitMore(t)
			if n := crowd.count(inside); n >= descriptors {
				t.Errorf("%d pages are served with %d descriptors", n, descriptors)
			}
			if tt.answers {
				for _, path := range []string{"/healthz", "/readyz"} {
					awaitStatusCode(t, "http://"+edge.ops+path, http.StatusOK)
				}
				if open := edge.metric(t, "process_open_fds"); open >= descriptors {
					t.Errorf("%v of %d descriptors are open", open, descriptors)
				}
			}
			crowd.judge(t)
			awaitStatusCode(t, "http://"+edge.addr+"/readyz", http.StatusOK)
		})
	}
}
