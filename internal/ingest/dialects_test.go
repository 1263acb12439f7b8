package ingest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/ingesttest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/producers"
)

// recordedStream is what an agent sends in a dialect: the bodies of the responses of one run.
type recordedStream struct {
	name, dialect, media string
	bodies               []string
}

// TestDialectsExactlyOnce sends streams of all dialects, which are cut at random bytes, through two edges, often by two requests at once. The log has the chunks
// that it has when each response is sent in one piece.
func TestDialectsExactlyOnce(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	streams := append(textStreams(t, rng), mastraStreams(t, rng)...)
	streams = append(streams, writtenStreams(t, int(seed>>1))...)
	for i := range 20 {
		script := ingesttest.Random(rng, fmt.Sprintf("s%d", len(streams)))
		streams = append(streams, framed(rng, fmt.Sprintf("native %d", i), dialect.Native, [][]string{script.Lines}))
	}
	whole := newEnv(t, func(cfg *envConfig) { cfg.producer = producers.Config{MaxChunk: 64 << 10} })
	w := newEnv(t, func(cfg *envConfig) { cfg.edges, cfg.producer = 2, producers.Config{MaxChunk: 64 << 10} })
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range jobs {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				session := fmt.Sprintf("s%d", i)
				err := whole.sendStream(nil, session, streams[i])
				if err == nil {
					err = w.sendStream(rng, session, streams[i])
				}
				if err != nil {
					t.Errorf("%s: %v", streams[i].name, err)
					continue
				}
				compareTrees(t, streams[i].name, w.tree(session), whole.tree(session))
			}
		})
	}
	for i := range streams {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
}

func compareTrees(t *testing.T, name string, got, want map[string]string) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for id := range want {
		if got[id] != want[id] {
			t.Errorf("%s: session %s has\n%s\nwant\n%s", name, id, got[id], want[id])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d sessions, want %d", name, len(got), len(want))
	}
}

// tree returns the text of the sessions of a tree.
func (w *env) tree(root string) map[string]string {
	w.t.Helper()
	all := map[string][]chunk.Chunk{}
	for rec, err := range w.Log.Replay(w.t.Context(), chunk.Range{Session: chunk.RootSession(tenant, root), Tree: true}) {
		if err != nil {
			w.t.Errorf("%s: %v", root, err)
			return nil
		}
		c, err := rec.Decode()
		if err != nil {
			w.t.Errorf("%s: %v", root, err)
			return nil
		}
		all[rec.Session.ID] = append(all[rec.Session.ID], c)
	}
	text := map[string]string{}
	for id, chunks := range all {
		text[id] = ingesttest.Text(chunks)
	}
	return text
}

// sendStream writes a run: each response until it is stored, unless the run has ended. Requests are cut with rng.
func (w *env) sendStream(rng *rand.Rand, session string, s recordedStream) error {
	ctx := w.t.Context()
	pick := func(n int) int {
		if rng == nil {
			return 0
		}
		return rng.IntN(n)
	}
	runs := "/v1/sessions/" + session + "/runs"
	a, err := w.edges[0].send(ctx, http.MethodPost, runs, "application/json", strings.NewReader(`{"runId":"r1","agentType":"main"}`))
	if err != nil || a.status != http.StatusCreated {
		return fmt.Errorf("open: %s %s %w", a, a.body, err)
	}
	post := func(edge int, first int64, body io.Reader) (answer, error) {
		path := fmt.Sprintf("%s/r1/chunks?epoch=1&dialect=%s&firstLine=%d", runs, s.dialect, first)
		return w.edges[edge].send(ctx, http.MethodPost, path, s.media, body)
	}
	first := int64(1)
	for _, body := range s.bodies {
		for n := 0; ; n++ {
			if n > 100 {
				return fmt.Errorf("100 requests, the last: %s %s", a, a.body)
			}
			var late sync.WaitGroup
			if rng != nil && pick(4) == 0 { // a request that the client has given up
				edge, cut := pick(len(w.edges)), pick(len(body)+1)
				late.Go(func() { _, _ = post(edge, first, &cutBody{in: strings.NewReader(body), left: cut}) })
			}
			var in io.Reader = strings.NewReader(body)
			if rng != nil && n < 4 && pick(4) > 0 {
				in = &cutBody{in: in, left: pick(len(body) + 1)}
			}
			a, err = post(pick(len(w.edges)), first, in)
			late.Wait()
			if err == nil && a.members()["done"] == true {
				break
			}
			if code := a.text("code"); err == nil && code != codeSuperseded && code != codeCut {
				return fmt.Errorf("%s %s", a, a.body)
			}
		}
		first = a.number("next")
		if a, err = w.edges[0].send(ctx, http.MethodGet, runs+"/r1", "", nil); err != nil || a.text("status") != "paused" {
			return err
		}
	}
	return nil
}

// framed returns a stream of lines, as server-sent events or as JSON lines.
func framed(rng *rand.Rand, name, dialect string, responses [][]string) recordedStream {
	s := recordedStream{name: name, dialect: dialect, media: "application/x-ndjson"}
	before, after := "", "\n"
	if rng.IntN(2) == 0 {
		s.media, before, after = "text/event-stream", ": a comment\ndata: ", "\n\n"
	}
	for _, lines := range responses {
		var b strings.Builder
		for _, line := range lines {
			b.WriteString(before + line + after)
		}
		s.bodies = append(s.bodies, b.String())
	}
	return s
}

// testdata returns the lines of a file of a package of dialects.
func testdata(t *testing.T, path ...string) (lines []string) {
	t.Helper()
	file := must(os.Open(filepath.Join(append([]string{"..", "..", "codec"}, path...)...)))(t)
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	if err := in.Err(); err != nil || len(lines) == 0 {
		t.Fatalf("%v: %d lines, %v", path, len(lines), err)
	}
	return lines
}

// textStreams returns the streams of packages openai, of chat completions and of the Responses API, and anthropic: "-" ends each response.
func textStreams(t *testing.T, rng *rand.Rand) []recordedStream {
	t.Helper()
	return slices.Concat(streamsOf(t, rng, dialect.OpenAI, "streams.txt"), streamsOf(t, rng, dialect.OpenAI, "agents.txt"), streamsOf(t, rng, dialect.Anthropic, "streams.txt"))
}

func streamsOf(t *testing.T, rng *rand.Rand, of, file string) (all []recordedStream) {
	t.Helper()
	name := ""
	var responses [][]string
	var lines []string
	add := func() {
		if len(responses) > 0 {
			all = append(all, framed(rng, of+" "+name, of, responses))
		}
		responses = nil
	}
	for _, line := range testdata(t, of, "testdata", file) {
		switch {
		case strings.HasPrefix(line, "# "):
			add()
			name = line[2:]
		case line == "-":
			responses, lines = append(responses, lines), nil
		case line != "" && !strings.HasPrefix(line, "//"):
			lines = append(lines, line)
		}
	}
	add()
	return all
}

// mastraStreams returns the recordings of package mastra. Its servers end each response with [DONE].
func mastraStreams(t *testing.T, rng *rand.Rand) (all []recordedStream) {
	t.Helper()
	for _, file := range []string{"mastra-runs.jsonl", "mastra-cases.jsonl"} {
		for _, line := range testdata(t, "mastra", "testdata", file) {
			if file == "mastra-cases.jsonl" && rng.IntN(4) > 0 {
				continue // short ones, of which each execution has others
			}
			var r struct {
				Name   string            `json:"name"`
				Chunks []json.RawMessage `json:"chunks"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			responses := [][]string{nil}
			for _, c := range r.Chunks {
				var typed struct {
					Type string `json:"type"`
				}
				if json.Unmarshal(c, &typed) != nil || typed.Type == "" { // separates two responses, or no chunk
					responses = append(responses, nil)
					continue
				}
				last := len(responses) - 1
				responses[last] = append(responses[last], string(c))
			}
			for i := range responses {
				responses[i] = append(responses[i], "[DONE]")
			}
			all = append(all, framed(rng, "mastra "+r.Name, dialect.Mastra, responses))
		}
	}
	for _, file := range []string{"network.jsonl", "nested-workflow.jsonl"} {
		all = append(all, framed(rng, "mastra "+file, dialect.Mastra, [][]string{append(testdata(t, "mastra", "testdata", file), "[DONE]")}))
	}
	return all
}

// writtenStreams returns what the edge itself writes of random logs, with its framing, up to the first end of a response.
func writtenStreams(t *testing.T, seed int) (all []recordedStream) {
	t.Helper()
	logs := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Plain: true})
	for _, name := range dialects.Written() {
		if name == dialect.Native {
			continue
		}
		for i := range 15 {
			w := dialects.NewWriter(name, dialects.Turn{Session: turntest.Session, MessageID: "m1", State: chunk.Value(`{}`)})
			var body []byte
			for _, rec := range logs.Example(seed%1e9 + i) {
				if body = w.Append(body, rec); w.Done() {
					break
				}
			}
			all = append(all, recordedStream{name: fmt.Sprintf("%s %d", name, i), dialect: name, media: "text/event-stream", bodies: []string{cmp.Or(string(body), ":\n\n")}})
		}
	}
	return all
}
