package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/ingesttest"
	"github.com/tailrace/tailrace/producers"
)

// cutBody is a body that ends after some bytes, as if the connection broke.
type cutBody struct {
	in    io.Reader
	left  int
	pause func()
}

var errCut = errors.New("cut")

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errCut
	}
	if c.pause != nil {
		c.pause()
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// client sends the lines of a script through all edges until they are stored.
type client struct {
	w       *env
	rng     *rand.Rand
	session string
	run     string
	epoch   int64
	lines   []string
}

func (c *client) edge() edge { return c.w.edges[c.rng.IntN(len(c.w.edges))] }

func (c *client) path(rest string) string {
	return "/v1/sessions/" + c.session + "/runs" + rest
}

// open opens the run, possibly twice at once.
func (c *client) open(ctx context.Context) error {
	body := fmt.Sprintf(`{"runId":%q,"agentType":%q}`, c.run, ingesttest.AgentType)
	epochs := make([]int64, 1+c.rng.IntN(2))
	errs := make([]error, len(epochs))
	var all sync.WaitGroup
	for i := range epochs {
		e := c.edge()
		all.Go(func() {
			a, err := e.send(ctx, http.MethodPost, c.path(""), "application/json", strings.NewReader(body))
			for n := 0; err != nil && n < 100; n++ { // a connection that was cut
				a, err = e.send(ctx, http.MethodPost, c.path(""), "application/json", strings.NewReader(body))
			}
			if epochs[i], errs[i] = a.number("epoch"), err; err == nil && epochs[i] != 1 {
				errs[i] = fmt.Errorf("open: %s %s", a, a.body)
			}
		})
	}
	all.Wait()
	c.epoch = epochs[0]
	return errors.Join(errs...)
}

// attempt sends the lines from first, and cuts the request after some bytes; a negative number does not.
func (c *client) attempt(ctx context.Context, e edge, first, cutAt int) (answer, error) {
	text := strings.Join(c.lines[first-1:], "\n") + "\n"
	var body io.Reader = strings.NewReader(text)
	if cutAt >= 0 {
		body = &cutBody{in: body, left: min(cutAt, len(text)-1)}
	}
	return e.send(ctx, http.MethodPost, c.path("/"+c.run+"/chunks?epoch="+strconv.FormatInt(c.epoch, 10)), "application/x-ndjson", body,
		"Tailrace-First-Line", strconv.Itoa(first))
}

// write sends the lines until the last one is stored.
func (c *client) write(ctx context.Context) error {
	cuts := c.rng.IntN(5)
	first := 1
	for n := 0; ; n++ {
		if n > 100 {
			return errors.New("100 requests")
		}
		size := 0
		for _, l := range c.lines[first-1:] {
			size += len(l) + 1
		}
		cutAt := -1
		if n < cuts {
			cutAt = c.rng.IntN(size + 1)
		}
		mine, other := c.edge(), c.edge()
		var all sync.WaitGroup
		if c.rng.IntN(4) == 0 { // another request of the same run, which the client does not know of any more
			from, at := 1+c.rng.IntN(first), c.rng.IntN(size+1)
			if c.rng.IntN(2) == 0 {
				at = -1
			}
			all.Go(func() { _, _ = c.attempt(ctx, other, from, at) })
		}
		a, err := c.attempt(ctx, mine, first, cutAt)
		all.Wait()
		if err == nil && a.members()["done"] == true {
			if got := a.number("stored"); got != int64(first-1+len(c.lines[first-1:])) {
				return fmt.Errorf("stored %d of %d lines: %s", got, len(c.lines), a.body)
			}
			return nil
		}
		if err == nil && a.text("code") != codeSuperseded && a.text("code") != codeCut && a.text("code") != codeFirstLine {
			return fmt.Errorf("%s %s", a, a.body)
		}
		state, err := c.edge().send(ctx, http.MethodGet, c.path("/"+c.run), "", nil)
		if err != nil {
			continue
		}
		if state.status != http.StatusOK {
			return fmt.Errorf("state: %s %s", state, state.body)
		}
		next := int(state.number("next"))
		first = next
		if c.rng.IntN(3) == 0 { // lines that are stored are sent again
			first = 1 + c.rng.IntN(next)
		}
		if first > len(c.lines) {
			first = len(c.lines)
		}
	}
}

// end ends the run, possibly by two requests at once.
func (c *client) end(ctx context.Context) error {
	errs := make([]error, 1+c.rng.IntN(2))
	var all sync.WaitGroup
	for i := range errs {
		e := c.edge()
		all.Go(func() {
			for range 100 {
				a, err := e.send(ctx, http.MethodPost, c.path("/"+c.run+"/end?epoch="+strconv.FormatInt(c.epoch, 10)), "", nil)
				if err != nil {
					continue // a connection that was cut
				}
				if a.text("status") != "ended" {
					errs[i] = fmt.Errorf("end: %s %s", a, a.body)
				}
				return
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// runs is how many runs the property test has; TRTEST_INGEST_RUNS is another number.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TRTEST_INGEST_RUNS")
	if text == "" {
		return 300
	}
	return must(strconv.Atoi(text))(t)
}

// TestExactlyOnce sends random runs, which are cut at random bytes, through two edges, often by two requests at once. The log has what was sent, once.
func TestExactlyOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TRTEST_INGEST_SEED"); text != "" {
		seed = must(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("TRTEST_INGEST_SEED=%d", seed)
	w := newEnv(t, func(cfg *envConfig) { cfg.edges, cfg.producer = 2, producers.Config{MaxChunk: 4 << 10} })
	total := runs(t)
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range jobs {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				session := fmt.Sprintf("s%d", i)
				s := ingesttest.Random(rng, session)
				if rng.IntN(4) == 0 { // all clients of an edge lose their connections
					w.edges[rng.IntN(len(w.edges))].site.CloseClientConnections()
				}
				c := &client{w: w, rng: rng, session: session, run: fmt.Sprintf("r%d", i), lines: s.Lines}
				err := c.open(t.Context())
				if err == nil {
					err = c.write(t.Context())
				}
				if err == nil && rng.IntN(2) == 0 {
					s.End()
					err = c.end(t.Context())
				}
				if err != nil {
					t.Errorf("run %d: %v\n%.3000s\n%s", i, err, strings.Join(s.Lines, "\n"), w.lines(chunk.RootSession(tenant, session)))
					continue
				}
				w.checkLog(i, session, s)
			}
		})
	}
	for i := range total {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
}

func (w *env) checkLog(i int, session string, s *ingesttest.Script) {
	for _, id := range s.Sessions() {
		if err := s.Check(id, w.Chunks(chunk.RootSession(tenant, session).Child(id))); err != nil {
			w.t.Errorf("run %d: %v", i, err)
		}
	}
}
