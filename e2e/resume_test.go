//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
)

var seed = flag.Uint64("seed", 0, "seed of the resume test; 0 draws one and prints it")

// Random trees of sessions are written while clients with random scopes watch
// them over a real server. Each connection is cut after a random number of
// bytes, in the middle of events too, and the client comes back with the last
// id it has whole. In the end each client holds the log, once and in order.
func TestResumeIsExact(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("again with: -seed %d", *seed)
	w := newResumeWorld(t)
	for round := range 8 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			w.round(t, rand.New(rand.NewPCG(*seed, uint64(round))), chunk.RootSession("default", fmt.Sprintf("s%d", round)))
		})
	}
}

type resumeWorld struct {
	producer *producers.Producer
	reader   *consumers.Reader
	url      string
}

func newResumeWorld(t *testing.T) *resumeWorld {
	t.Helper()
	server := natstest.Start(t)
	nc := server.Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	producer, err := producers.New(nc, js, producers.Config{Linger: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := consumers.New(nc, js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// A small memory, so that clients fall out of it and read the log.
	h, err := hub.New(hublog.Log{Reader: reader}, hublog.Feed{Reader: reader}, hub.Config{Encode: native.Encode, Memory: 64 << 10, Page: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	edge, err := sseedge.New(h, noSnapshots{}, sseedge.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return h.Run(ctx) })
	front := httptest.NewServer(edge)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		cancel()
		if err := errors.Join(running.Wait(), producer.Close()); err != nil {
			t.Error(err)
		}
	})
	return &resumeWorld{producer: producer, reader: reader, url: front.URL}
}

type noSnapshots struct{}

func (noSnapshots) Snapshot(context.Context, chunk.Session, bool) (sseedge.Snapshot, error) {
	return sseedge.Snapshot{}, errors.New("no client may need a snapshot here")
}

func (w *resumeWorld) round(t *testing.T, random *rand.Rand, root chunk.Session) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, err := w.producer.Start(ctx, root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("random"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	clients := make([]*resumeClient, 12)
	var group errgroup.Group
	for i := range clients {
		clients[i] = newResumeClient(w.url, root, rand.New(rand.NewPCG(random.Uint64(), 1)))
		group.Go(func() error { return clients[i].watch(ctx) })
	}
	group.Go(func() error { return w.write(ctx, run, rand.New(rand.NewPCG(random.Uint64(), 2))) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, client := range clients {
		if want := w.expected(t, root, client.scope); !slices.Equal(client.got, want) {
			t.Errorf("client %d (%d connections, scope %d): %s", i, client.connections, client.scope, firstDifference(client.got, want))
		}
	}
}

// write is a random history: text, tools, sub-agents that talk at the same
// time, pauses, one or two runs.
func (w *resumeWorld) write(ctx context.Context, run *producers.Run, random *rand.Rand) error {
	var children errgroup.Group
	for n := range 150 + random.IntN(250) {
		var err error
		switch random.IntN(12) {
		case 0:
			err = run.Say(ctx, chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))})
		case 1:
			err = run.Say(ctx, chunk.ToolStart{ToolCallID: fmt.Sprint(n), ToolName: "t", Arguments: chunk.Value(`{}`)})
		case 2:
			_, err = run.Flush(ctx)
		case 3:
			if random.IntN(8) == 0 {
				err = w.child(ctx, run, &children, random.IntN(40))
			}
		default:
			err = run.Say(ctx, chunk.TextDelta{Delta: strings.Repeat("é\n", 1+random.IntN(40))})
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(children.Wait(), run.End(ctx, chunk.Value(`"done"`)), run.Close())
}

func (w *resumeWorld) child(ctx context.Context, run *producers.Run, children *errgroup.Group, size int) error {
	child, err := run.Child(ctx, chunk.SubagentStart{SubAgentType: "helper", CallID: "c"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	children.Go(func() error {
		for range size {
			if err := child.Say(ctx, chunk.TextDelta{Delta: "child "}); err != nil {
				return err
			}
		}
		return errors.Join(run.EndChild(ctx, child, chunk.Value(`1`)), child.Close())
	})
	return nil
}

// expected are the events of the log for a scope: what Replay reads, encoded
// one by one, without those that only move the cursor.
func (w *resumeWorld) expected(t *testing.T, root chunk.Session, scope chunk.Scope) []string {
	t.Helper()
	records := w.reader.ReplayTree(t.Context(), root, 0)
	if scope == chunk.ScopeSession {
		records = w.reader.Replay(t.Context(), root, chunk.Position{})
	}
	var events []string
	for rec, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		frame := string(native.Encode(nil, rec, scope))
		if _, data, found := strings.Cut(frame, "data: "); found {
			events = append(events, fmt.Sprintf("%d %s", rec.Seq, strings.TrimSpace(data)))
		}
	}
	return events
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("event %d is %.120s, want %.120s", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d events, want %d", len(got), len(want))
}

// resumeClient is an EventSource with a cut wire.
type resumeClient struct {
	url         string
	scope       chunk.Scope
	random      *rand.Rand
	lastID      string
	got         []string
	connections int
}

func newResumeClient(base string, root chunk.Session, random *rand.Rand) *resumeClient {
	c := &resumeClient{scope: chunk.Scope(random.IntN(2)), random: random}
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
		return false, c.read(io.LimitReader(resp.Body, c.random.Int64N(20_000)))
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
		case strings.HasPrefix(line, ":"), strings.HasPrefix(line, "retry:"):
		default:
			return fmt.Errorf("a line of no kind: %q", line)
		}
	}
}
