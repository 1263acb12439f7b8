//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"

	"github.com/tailrace/tailrace/chunk"
)

// remoteVariable holds the job of a test binary that runs followers instead of
// tests. Thousands of followers need a separate process for their descriptors
// and memory, which must not count as those of the edge.
const remoteVariable = "TRTEST_E2E_REMOTE"

// remoteJob lists the sessions to follow. The child exits when its standard
// input ends, so it does not outlive its parent.
type remoteJob struct {
	Addr     string   `json:"addr"`
	Sessions []string `json:"sessions"` // one for each follower
}

// remoteReport is one line from the child: that all followers have received an
// event, and later the result of each.
type remoteReport struct {
	Attached bool `json:"attached,omitempty"`

	Session string      `json:"session,omitempty"`
	Tally   tally       `json:"tally"`
	Answers map[int]int `json:"answers,omitempty"`
	Failed  string      `json:"failed,omitempty"`
}

// tally is a digest of a sequence of events: sequences that differ in number,
// order, id or text have different tallies.
type tally struct {
	Events int    `json:"events"`
	Sum    uint64 `json:"sum"`
}

func (t *tally) add(e sseEvent) {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d %s", t.Sum, e.seq, e.data) // a hash does not fail
	t.Events, t.Sum = t.Events+1, h.Sum64()
}

// runRemote is the main function of the child and returns its exit code.
func runRemote(jobJSON string, in io.Reader, out io.Writer) int {
	var job remoteJob
	if err := json.Unmarshal([]byte(jobJSON), &job); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", remoteVariable, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error means the end, too
	}()
	var (
		attached, done sync.WaitGroup
		mu             sync.Mutex // guards enc
		enc            = json.NewEncoder(out)
	)
	report := func(r remoteReport) {
		mu.Lock()
		defer mu.Unlock()
		_ = enc.Encode(r) //nolint:errchkjson // if the parent is gone, standard input ends as well
	}
	for _, id := range job.Sessions {
		attached.Add(1)
		first := sync.OnceFunc(attached.Done)
		done.Go(func() {
			defer first()
			r := remoteReport{Session: id}
			f := &follower{addr: job.Addr, root: chunk.RootSession("default", id), onEvent: func(e sseEvent) {
				first()
				r.Tally.add(e)
			}}
			if err := f.run(ctx); err != nil {
				r.Failed = err.Error()
			}
			r.Answers = f.statuses
			report(r)
		})
	}
	attached.Wait()
	report(remoteReport{Attached: true})
	done.Wait()
	return 0
}
