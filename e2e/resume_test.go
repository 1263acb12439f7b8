//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/producers"
)

// Random session trees are written while clients with random scopes follow them
// with a real server. Each connection is cut after a random number of bytes,
// also within events, and the client resumes with the last complete id. At the
// end each client has received the log once and in order.
func TestResumeIsExact(t *testing.T) {
	seed := seedtest.Seed(t)
	w := newResumeEnv(t)
	for round := range 8 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tree, err := w.writeTree(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", round)), treeOptions{clients: 12}, rand.New(rand.NewPCG(seed, uint64(round))))
			if err != nil {
				t.Fatal(err)
			}
			w.check(t, tree)
		})
	}
}

func newResumeEnv(t *testing.T) *edgeEnv {
	t.Helper()
	// The memory is small, so that clients have to read from the log.
	return newEdgeEnv(t, edgeEnvConfig{write: natstest.Start(t).Conn(t), edge: httpedge.Config{HubBytes: 64 << 10}})
}

// writtenTree is a tree that was written while clients followed it.
type writtenTree struct {
	root    chunk.Session
	clients []*resumeClient
}

// treeOptions configures writeTree. The zero value has no clients and no
// delays.
type treeOptions struct {
	clients          int
	chunks           int                         // of the root; 0 selects 150 to 400
	pace             func(context.Context) error // called before each chunk, if not nil
	cut              int64                       // maximum bytes of a connection of a client; defaults to 20,000
	retryUnavailable bool                        // clients retry after status 503
	flat             bool                        // without sub-agents
}

// writeTree writes a tree while clients follow it, and returns when it is
// complete and all clients have received the end.
func (w *edgeEnv) writeTree(ctx context.Context, root chunk.Session, p treeOptions, random *rand.Rand) (writtenTree, error) {
	tree := writtenTree{root: root}
	run, err := w.producer.Start(ctx, root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("random"))
	if err != nil {
		return tree, err
	}
	if _, err := run.Flush(ctx); err != nil {
		return tree, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for range p.clients {
		client := newResumeClient(w.url, root, rand.New(rand.NewPCG(random.Uint64(), 1)))
		client.retryUnavailable = p.retryUnavailable
		client.cut = cmp.Or(p.cut, client.cut)
		tree.clients = append(tree.clients, client)
		group.Go(func() error { return client.watch(ctx) })
	}
	writeRandom := rand.New(rand.NewPCG(random.Uint64(), 2))
	group.Go(func() error { return w.write(ctx, run, p, writeRandom) })
	return tree, group.Wait()
}

// check compares the events of the clients with the log.
func (w *edgeEnv) check(t *testing.T, tree writtenTree) {
	t.Helper()
	for i, client := range tree.clients {
		if want := w.expected(t, tree.root, client.scope); !slices.Equal(client.got, want) {
			t.Errorf("%s, client %d (%d connections, scope %d): %s", tree.root.ID, i, client.connections, client.scope, firstDifference(client.got, want))
		}
	}
}

// resumeClient is an EventSource whose connections are cut.
type resumeClient struct {
	url              string
	scope            chunk.Scope
	cut              int64 // maximum bytes of a connection
	retryUnavailable bool
	random           *rand.Rand
	lastID           string
	retry            time.Duration
	got              []string
	connections      int
}

func newResumeClient(base string, root chunk.Session, random *rand.Rand) *resumeClient {
	c := &resumeClient{scope: chunk.Scope(random.IntN(2)), random: random, cut: 20_000}
	c.url = base + "/v1/sessions/" + root.ID + "/events"
	if c.scope == chunk.ScopeSession {
		c.url += "?scope=session"
	}
	return c
}

// watch reconnects until the server responds that the session has ended.
func (c *resumeClient) watch(ctx context.Context) error {
	for {
		over, err := c.connect(ctx)
		if over || err != nil {
			return err
		}
		if c.retryUnavailable {
			select {
			case <-time.After(c.retry):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func (c *resumeClient) connect(ctx context.Context) (over bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return false, err
	}
	if c.lastID != "" {
		req.Header.Set("Last-Event-ID", c.lastID)
	}
	if c.random.IntN(2) == 0 { // headers by which the edge recognizes a browser
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-cache")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	c.connections++
	switch resp.StatusCode {
	case http.StatusNoContent:
		return true, nil
	case http.StatusOK:
		return false, c.read(io.LimitReader(resp.Body, c.random.Int64N(c.cut)))
	case http.StatusServiceUnavailable:
		if c.retryUnavailable {
			return false, c.setRetryDelay("1000")
		}
	}
	return false, fmt.Errorf("status %d", resp.StatusCode)
}

// read reads complete events as defined by the HTML standard: an event without
// its blank line is ignored, including its id.
func (c *resumeClient) read(body io.Reader) error {
	lines := bufio.NewReader(body)
	id, data := c.lastID, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil //nolint:nilerr // cut: an incomplete event is ignored, and the client reconnects
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			c.lastID = id
			if data != "" {
				c.got = append(c.got, id+" "+data)
			}
			data = ""
		case strings.HasPrefix(line, "id: "):
			id = line[len("id: "):]
		case strings.HasPrefix(line, "data: "):
			data += line[len("data: "):]
		case strings.HasPrefix(line, "retry: "):
			if err := c.setRetryDelay(line[len("retry: "):]); err != nil {
				return err
			}
		case strings.HasPrefix(line, ":"):
		default:
			return fmt.Errorf("invalid line %q", line)
		}
	}
}

// setRetryDelay records the reconnect delay of the server.
func (c *resumeClient) setRetryDelay(milliseconds string) error {
	var err error
	c.retry, err = time.ParseDuration(milliseconds + "ms")
	return err
}
