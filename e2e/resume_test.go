//go:build e2e

package e2e

import (
	"bufio"
	"cmp"
	"context"
	"flag"
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
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge/hub"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one and prints it")

// seeded is the dice of a test, thrown again by the flag.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("again with: -seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// Random trees of sessions are written while clients with random scopes watch
// them over a real server. Each connection is cut after a random number of
// bytes, in the middle of events too, and the client comes back with the last
// id it has whole. In the end each client holds the log, once and in order.
func TestResumeIsExact(t *testing.T) {
	seeded(t)
	w := newResumeWorld(t)
	for round := range 8 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			story, err := w.tell(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", round)), plot{clients: 12}, rand.New(rand.NewPCG(*seed, uint64(round))))
			if err != nil {
				t.Fatal(err)
			}
			w.check(t, story)
		})
	}
}

func newResumeWorld(t *testing.T) *edgeWorld {
	t.Helper()
	// A small memory, so that clients fall out of it and read the log.
	return newEdgeWorld(t, worldConfig{write: natstest.Start(t).Conn(t), hub: hub.Config{Memory: 64 << 10, Page: 8 << 10}})
}

// told is a tree that was written while clients watched it.
type told struct {
	root    chunk.Session
	clients []*resumeClient
}

// plot is how a tree is told. The zero plot is told to nobody, at once.
type plot struct {
	clients int
	chunks  int                         // of the root; 150 to 400 when 0
	pace    func(context.Context) error // before each of them, when not nil
	cut     int64                       // bytes of the longest connection of a client; 20,000 when 0
	patient bool                        // the clients come back when they are refused for now
}

// tell writes a tree before clients, and returns when it is complete and they
// know.
func (w *edgeWorld) tell(ctx context.Context, root chunk.Session, p plot, random *rand.Rand) (told, error) {
	story := told{root: root}
	run, err := w.producer.Start(ctx, root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("random"))
	if err != nil {
		return story, err
	}
	if _, err := run.Flush(ctx); err != nil {
		return story, err
	}
	group, ctx := errgroup.WithContext(ctx)
	for range p.clients {
		client := newResumeClient(w.url, root, rand.New(rand.NewPCG(random.Uint64(), 1)))
		client.patient = p.patient
		client.cut = cmp.Or(p.cut, client.cut)
		story.clients = append(story.clients, client)
		group.Go(func() error { return client.watch(ctx) })
	}
	dice := rand.New(rand.NewPCG(random.Uint64(), 2))
	group.Go(func() error { return w.write(ctx, run, p, dice) })
	return story, group.Wait()
}

// check holds what the clients got against the log.
func (w *edgeWorld) check(t *testing.T, story told) {
	t.Helper()
	for i, client := range story.clients {
		if want := w.expected(t, story.root, client.scope); !slices.Equal(client.got, want) {
			t.Errorf("%s, client %d (%d connections, scope %d): %s", story.root.ID, i, client.connections, client.scope, firstDifference(client.got, want))
		}
	}
}

// resumeClient is an EventSource with a cut wire.
type resumeClient struct {
	url         string
	scope       chunk.Scope
	cut         int64 // bytes of the longest connection
	patient     bool
	random      *rand.Rand
	lastID      string
	retry       time.Duration
	got         []string
	connections int
}

func newResumeClient(base string, root chunk.Session, random *rand.Rand) *resumeClient {
	c := &resumeClient{scope: chunk.Scope(random.IntN(2)), random: random, cut: 20_000}
	c.url = base + "/v1/sessions/" + root.ID + "/events"
	if c.scope == chunk.ScopeSession {
		c.url += "?scope=session"
	}
	return c
}

// watch connects until the server says that nothing more will come.
func (c *resumeClient) watch(ctx context.Context) error {
	for {
		over, err := c.connect(ctx)
		if over || err != nil {
			return err
		}
		if c.patient {
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
	if c.random.IntN(2) == 0 { // what the edge takes for a browser
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
		if c.patient {
			return false, c.comeBack("1000")
		}
	}
	return false, fmt.Errorf("status %d", resp.StatusCode)
}

// read takes whole events, as the HTML standard says: an event without its
// blank line never was, and the id counts only with it.
func (c *resumeClient) read(body io.Reader) error {
	lines := bufio.NewReader(body)
	id, data := c.lastID, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil //nolint:nilerr // cut: what was begun is forgotten, and the client comes back
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
			if err := c.comeBack(line[len("retry: "):]); err != nil {
				return err
			}
		case strings.HasPrefix(line, ":"):
		default:
			return fmt.Errorf("a line of no kind: %q", line)
		}
	}
}

// comeBack notes when the server wants to see the client again.
func (c *resumeClient) comeBack(milliseconds string) error {
	var err error
	c.retry, err = time.ParseDuration(milliseconds + "ms")
	return err
}
