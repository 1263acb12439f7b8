package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/producers"
)

// script is a run: its lines, and the chunks that they are, by session.
type script struct {
	lines []string
	want  map[string][]chunk.Chunk
	runs  map[string]int // how often a session is started
}

// randomScript returns a run of an agent and its sub-agents. Lines have a time, so that records can be compared.
func randomScript(rng *rand.Rand, session string) script {
	s := script{want: map[string][]chunk.Chunk{}, runs: map[string]int{session: 1}}
	steps := map[string]int64{}
	agents := []string{session}
	emit := func(agent, kind, rest string, body chunk.Body) {
		line := fmt.Sprintf(`{"type":%q,"timestamp":7%s`, kind, rest)
		if agent != session || rng.IntN(2) == 0 {
			line += fmt.Sprintf(`,"agentId":%q`, agent)
		}
		if _, begins := body.(chunk.StepStart); begins {
			steps[agent]++
		}
		if rng.IntN(3) == 0 {
			line += fmt.Sprintf(`,"step":%d`, steps[agent])
		}
		s.lines = append(s.lines, line+"}")
		kindOf := "main"
		if agent != session {
			kindOf = "sub"
		}
		s.want[agent] = append(s.want[agent], chunk.Chunk{AgentID: agent, AgentType: kindOf, Timestamp: 7, Step: steps[agent], Body: body})
	}
	text := func(agent string, n int) {
		piece := strings.Repeat(string(rune('a'+rng.IntN(26))), n)
		emit(agent, "text_delta", fmt.Sprintf(`,"delta":%q`, piece), chunk.TextDelta{Delta: piece})
	}
	for n := rng.IntN(40); n >= 0; n-- {
		agent := agents[rng.IntN(len(agents))]
		switch k := rng.IntN(20); {
		case k < 10:
			text(agent, 1+rng.IntN(30))
		case k == 10:
			text(agent, 4<<10+rng.IntN(8<<10)) // is split
		case k == 11:
			s.lines = append(s.lines, "")
		case k < 14:
			emit(agent, "step_start", "", chunk.StepStart{})
		case k < 16:
			emit(agent, "thinking", `,"content":"hm","isComplete":false`, chunk.Thinking{Content: "hm"})
		case k < 18:
			emit(agent, "custom", `,"eventName":"n","data":[1]`, chunk.Custom{EventName: "n", Data: chunk.Value("[1]")})
		case k == 18 && len(agents) < 4:
			id := fmt.Sprintf("%s-%d", session, rng.IntN(9)) // perhaps one that has ended
			if slices.Contains(agents, id) {
				continue
			}
			emit(agent, "subagent_start", fmt.Sprintf(`,"subAgentType":"sub","subSessionId":%q,"callId":"c"`, id), chunk.SubagentStart{SubAgentType: "sub", SubSessionID: id, CallID: "c"})
			agents = append(agents, id)
			steps[id] = 0
			s.runs[id]++
		case k == 19 && len(agents) > 1 && agent != session:
			// The parent is always the root's session or an agent before it; any of them may report the end.
			emit(session, "subagent_end", fmt.Sprintf(`,"subAgentType":"sub","subSessionId":%q,"callId":"c","result":null`, agent), chunk.SubagentEnd{SubAgentType: "sub", SubSessionID: agent, CallID: "c", Result: chunk.Value("null")})
			agents = slices.DeleteFunc(agents, func(id string) bool { return id == agent })
			s.want[agent] = append(s.want[agent], chunk.Chunk{AgentID: agent, AgentType: "sub", Step: steps[agent], Body: chunk.StreamEnd{StreamID: agent}})
		}
	}
	text(session, 1)
	return s
}

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
	body := fmt.Sprintf(`{"runId":%q,"agentType":"main"}`, c.run)
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

// merged joins the deltas that a log may have in one record.
func merged(all []chunk.Chunk) (out []string) {
	var last *chunk.Chunk
	flush := func() {
		if last != nil {
			text, err := last.AppendJSON(nil)
			if err != nil {
				panic(err)
			}
			out = append(out, string(text))
		}
	}
	for _, c := range all {
		if c.Type().Control() {
			c.Timestamp = 7
		}
		if last != nil {
			if m, ok := chunk.Merge(*last, c); ok {
				last = &m
				continue
			}
		}
		flush()
		last = &c
	}
	flush()
	return out
}

// runs is how many runs the property test has; TAILRACE_INGEST_RUNS is another number.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TAILRACE_INGEST_RUNS")
	if text == "" {
		return 300
	}
	return must(strconv.Atoi(text))(t)
}

// TestExactlyOnce sends random runs, which are cut at random bytes, through two edges, often by two requests at once. The log has what was sent, once.
func TestExactlyOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TAILRACE_INGEST_SEED"); text != "" {
		seed = must(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("TAILRACE_INGEST_SEED=%d", seed)
	w := newEnv(t, func(cfg *envConfig) { cfg.edges, cfg.producer = 2, producers.Config{MaxChunk: 4 << 10} })
	total := runs(t)
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range jobs {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				session := fmt.Sprintf("s%d", i)
				s := randomScript(rng, session)
				if rng.IntN(4) == 0 { // all clients of an edge lose their connections
					w.edges[rng.IntN(len(w.edges))].site.CloseClientConnections()
				}
				c := &client{w: w, rng: rng, session: session, run: fmt.Sprintf("r%d", i), lines: s.lines}
				err := c.open(t.Context())
				if err == nil {
					err = c.write(t.Context())
				}
				if err != nil {
					t.Errorf("run %d: %v\n%.3000s\n%s", i, err, strings.Join(s.lines, "\n"), w.lines(chunk.RootSession(tenant, session)))
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

func (w *env) checkLog(i int, session string, s script) {
	for id, want := range s.want {
		of := chunk.RootSession(tenant, session).Child(id)
		var got []chunk.Chunk
		began := 0 // of the same run of the root
		for _, c := range w.Chunks(of) {
			if c.Type() == chunk.TypeRunStarted {
				began++
				continue
			}
			got = append(got, c)
		}
		if a, b := merged(got), merged(want); began != s.runs[id] || !slices.Equal(a, b) {
			w.t.Errorf("run %d, session %s: %d runs, the log has\n%s\nwant\n%s", i, id, began, strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
	}
}
