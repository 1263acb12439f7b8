//go:build e2e

package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// TestWheel checks what pip would publish: the modules, their types, and nothing else.
func TestWheel(t *testing.T) {
	b := newPython(t)
	want := []string{"tailrace/py.typed"}
	sources, err := filepath.Glob(filepath.Join(pythonSource, "src", "tailrace", "*.py"))
	if err != nil || len(sources) == 0 {
		t.Fatal(err, sources)
	}
	for _, path := range sources {
		want = append(want, "tailrace/"+filepath.Base(path))
	}
	slices.Sort(want)
	got := slices.DeleteFunc(slices.Clone(b.files), func(name string) bool { return strings.HasPrefix(name, "tailrace-0.1.0.dist-info/") })
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the wheel has %v, want %v", got, want)
	}
	metadata := exec.CommandContext(t.Context(), b.python, "-c", `
import importlib.metadata as m
d = m.distribution("tailrace")
print(d.metadata["Requires-Python"], [r for r in d.requires or () if "extra" not in r])
`)
	if out, err := metadata.CombinedOutput(); err != nil || string(out) != ">=3.10 []\n" {
		t.Errorf("%v, %s; want a package without requirements", err, out)
	}
}

// TestPythonUnits runs the tests of the parts that do no I/O.
func TestPythonUnits(t *testing.T) {
	b := newPython(t)
	dir, err := filepath.Abs(filepath.Join(pythonSource, "test"))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), b.python, "-B", "-W", "error", "-m", "unittest", "discover", "-s", dir)
	run.Dir = b.dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

var anyPort = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// TestPythonReadme runs the boxes of the README and examples/python/agent.py against an edge.
func TestPythonReadme(t *testing.T) {
	b, w := newPython(t), newEnv(t)
	edge := w.ingestEdge()
	readme, err := os.ReadFile(filepath.Join(pythonSource, "README.md"))
	w.must(err)
	if n := strings.Count(string(readme), "\n"); n > 80 {
		t.Errorf("the README has %d lines, want at most 80", n)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "TAILRACE_URL="+edge, "PATH="+filepath.Dir(b.python)+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	boxes := strings.Split(string(readme), "```")
	ran := 0
	for i := 1; i < len(boxes); i += 2 {
		mark, box, _ := strings.Cut(boxes[i], "\n")
		language, _, _ := strings.Cut(mark, " ")
		box = anyPort.ReplaceAllString(box, edge)
		want := ""
		switch language {
		case "python":
			want = "It is in Oslo.\n"
			fallthrough
		case "sh":
			name := map[string]string{"python": b.python, "sh": "bash"}[language]
			if got := run(name, map[string]string{"python": "-c", "sh": "-ec"}[language], box); !strings.HasSuffix(got, want) {
				t.Errorf("the box\n%sprints %q", box, got)
			}
			ran++
		default:
			t.Errorf("a box of the language %q is not run", language)
		}
	}
	if ran < 3 {
		t.Errorf("%d boxes, want more", ran)
	}
	example, err := filepath.Abs("../../examples/python/agent.py")
	w.must(err)
	if got := run(b.python, example); !strings.Contains(got, "Oslo") {
		t.Errorf("the example prints %q", got)
	}
}

// TestPythonFollowsAcrossCuts is TestFollowAcrossCuts for the command of the Python package.
func TestPythonFollowsAcrossCuts(t *testing.T) {
	b, w, r := newPython(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.edge(nil, nil), w.edge(nil, nil)}
	random := rand.New(rand.NewPCG(r.Uint64(), 0))
	run := w.start("s")
	_, err := run.Flush(t.Context())
	w.must(err)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		w.end(run)
		w.writeTree("s", random, 1500)
	})
	for i := range 2 {
		proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), 4_000)
		f := b.command(t, "follow", "s", "--url", proxy.url)
		var events []event
		for {
			line, ok := f.next()
			if !ok {
				break
			}
			events = append(events, readEvent(t, line))
		}
		if len(events) == 0 {
			t.Fatal("no event")
		}
		w.checkTree("s", events)
		if proxy.count() < 10 {
			t.Errorf("%d cuts, want more", proxy.count())
		}
	}
}

// TestPythonPublishesAcrossCuts is TestPublishAcrossCuts for the command of the Python package.
func TestPythonPublishesAcrossCuts(t *testing.T) {
	b, w, r := newPython(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.ingestEdge(), w.ingestEdge()}
	proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), 0)), 1_200)
	proxy.cutRequests(30_000)
	p := b.command(t, "publish", "s", "--url", proxy.url, "--message", "question", "--agent", "clerk")
	const notes = 3_000
	for i := range notes {
		_, err := fmt.Fprintf(p.in, `{"type":"custom","eventName":"note","data":%d}`+"\n", i)
		w.must(err)
	}
	w.must(p.in.Close())
	line, ok := p.next()
	if !ok {
		t.Fatal("the program ended without a result")
	}
	var state struct {
		Status string `json:"status"`
	}
	w.must(json.Unmarshal(line, &state))
	if state.Status != "ended" {
		t.Errorf("%s", line)
	}
	w.checkNotes("s", notes)
	chunks := w.Chunks(session("s"))
	if b, ok := chunk.As[chunk.RunStarted](chunks[0]); !ok || b.Input[0].Content != "question" || chunks[1].AgentType != "clerk" {
		t.Errorf("the log begins with %+v", chunks[:2])
	}
	if proxy.count() < 2 {
		t.Errorf("%d cuts, want more", proxy.count())
	}
}

// TestPythonReportsProblems checks what the command prints about mistakes.
func TestPythonReportsProblems(t *testing.T) {
	b, w := newPython(t), newEnv(t)
	edge := w.ingestEdge()
	nats := "http://" + strings.TrimPrefix(w.Server.URL, "nats://")
	for name, tt := range map[string]struct{ args, in, want string }{
		"no session":     {"follow missing --url " + edge, "", "STREAM_NOT_FOUND: "},
		"no input":       {"publish s1 --url " + edge, "\n", "nothing on standard input: no run was opened"},
		"an old cursor":  {"follow s1 --after x --url " + edge, "", "BAD_CURSOR: "},
		"a NATS server":  {"follow s1 --url " + nats, "", strings.TrimPrefix(nats, "http://") + " is a NATS server; the edge is on 4480"},
		"no address":     {"follow s1 --url localhost", "", "'localhost': want the address of an edge, such as http://"},
		"no server":      {"publish s1 --url http://127.0.0.1:1", "{}\n", "127.0.0.1:1 has not answered for 5 s: "},
		"an unknown one": {"publish s2 --url " + edge, `{"type":"text_delta","delta":"a"}` + "\n" + `{"type":"text-delta","delta":"b"}`, `UNKNOWN_TYPE: line 2: there is no chunk type "text-delta"; did you mean "text_delta"?`},
		"a wrong member": {"publish s3 --url " + edge, `{"type":"text_delta","delta":5}`, "INVALID_LINE: line 1: text_delta.delta: want a string"},
	} {
		cmd := exec.CommandContext(t.Context(), b.python, append([]string{"-m", "tailrace"}, strings.Fields(tt.args)...)...)
		cmd.Dir, cmd.Stdin = b.dir, strings.NewReader(tt.in)
		var errs strings.Builder
		cmd.Stderr, cmd.Stdout = &errs, io.Discard
		err := cmd.Run()
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if last := lines[len(lines)-1]; err == nil || !strings.HasPrefix(last, tt.want) {
			t.Errorf("%s: %v\n%s\nwant %q", name, err, errs.String(), tt.want)
		}
	}
	for _, id := range []string{"s2", "s3"} {
		if chunks := w.Chunks(session(id)); chunks[len(chunks)-1].Type() != chunk.TypeStreamFailed {
			t.Errorf("%s ends with %+v, want the failure of the run", id, chunks[len(chunks)-1])
		}
	}
}
