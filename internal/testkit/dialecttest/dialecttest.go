// Package dialecttest tests translators of dialects with streams in files: what each event becomes, and that the chunks are those of a log.
//
//	var suite = dialecttest.Suite{New: func() codec.Translator { return New(dialecttest.Run) }, Files: []string{"testdata/streams.txt"}}
//
//	func TestStreams(t *testing.T)   { suite.Golden(t, "testdata/chunks.txt") }
//	func FuzzTranslate(f *testing.F) { suite.Fuzz(f) }
package dialecttest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// Run is the run of the streams. Its session is the root of the sessions of Fold.
var Run = codec.Run{Session: "s1", AgentType: "clerk", RunID: "run-1"}

// end is the line that ends a response.
const end = "-"

// Suite is a translator with streams.
type Suite struct {
	New   func() codec.Translator
	Files []string // of the streams: "# name", and then an event a line, "-" at the end of each response
}

// Streams returns the streams by name, in their order.
func (s Suite) Streams(tb testing.TB) (names []string, lines map[string][]string) {
	tb.Helper()
	lines = map[string][]string{}
	name := ""
	for _, file := range s.Files {
		for line := range strings.Lines(Read(tb, file)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case line == "" || strings.HasPrefix(line, "//"):
			case strings.HasPrefix(line, "# "):
				name = line[2:]
				names = append(names, name)
			default:
				lines[name] = append(lines[name], line)
			}
		}
	}
	return names, lines
}

// Read returns the text of a file.
func Read(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // of testdata
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// Translate returns the chunks of each line, which are valid. A line that is not an event has none.
func (s Suite) Translate(tb testing.TB, lines []string) (steps [][]chunk.Chunk) {
	tb.Helper()
	tr := s.New()
	for _, line := range lines {
		var chunks []chunk.Chunk
		if line == end {
			chunks = tr.End()
		} else {
			chunks, _ = tr.Translate([]byte(line))
		}
		for _, c := range chunks {
			Spell(tb, c)
		}
		steps = append(steps, chunks)
	}
	return steps
}

// Spell returns the JSON of a chunk, which is valid.
func Spell(tb testing.TB, c chunk.Chunk) string {
	tb.Helper()
	line, err := c.AppendJSON(nil)
	if err == nil {
		_, err = chunk.Decode(line)
	}
	if err != nil {
		tb.Fatalf("%+v: %v", c, err)
	}
	return string(line)
}

// Fold returns the snapshot of each session of a log with the chunks, and fails the test if a chunk is a fault, or is outside of its sub-agent.
func Fold(tb testing.TB, steps [][]chunk.Chunk) map[string]fold.Snapshot {
	tb.Helper()
	root := chunk.RootSession("acme", Run.Session)
	folds, ordinals, running := map[string]*fold.Folder{}, map[string]chunk.Ordinal{}, map[string]bool{Run.Session: true}
	seq := chunk.Seq(0)
	apply := func(c chunk.Chunk) {
		s := c.AgentID
		if folds[s] == nil {
			folds[s] = fold.New(root.Child(s))
		}
		seq++
		ordinals[s]++
		rec := chunk.Record{Seq: seq, Session: root.Child(s), Epoch: 1, Ordinal: ordinals[s], Type: c.Type(), Data: []byte(Spell(tb, c))}
		if err := folds[s].Apply(rec); err != nil {
			tb.Fatalf("%s: %v", rec.Data, err)
		}
	}
	start := func(session string) {
		apply(chunk.Chunk{AgentID: session, AgentType: Run.AgentType, Body: chunk.RunStarted{
			RunID: fmt.Sprintf("run-%d", seq), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}},
		}})
	}
	start(Run.Session)
	for _, chunks := range steps {
		for _, c := range chunks {
			if !running[c.AgentID] {
				tb.Fatalf("a chunk outside of its sub-agent: %s", Spell(tb, c))
			}
			apply(c)
			switch b := c.Body.(type) {
			case chunk.SubagentStart:
				running[b.SubSessionID] = true
				start(b.SubSessionID)
			case chunk.SubagentEnd:
				running[b.SubSessionID] = false
			}
		}
	}
	all := map[string]fold.Snapshot{}
	for s, f := range folds {
		all[s] = f.Snapshot()
		if faults := all[s].Faults; faults.Skipped+faults.RejectedPatches+faults.RejectedPieces+faults.Lost > 0 {
			tb.Fatalf("faults of %s: %+v", s, faults)
		}
	}
	return all
}

// Golden compares the chunks for each event of the streams with a file. No chunk contains one of secrets, and no session is still running at the end of a stream.
func (s Suite) Golden(t *testing.T, golden string, secrets ...string) {
	t.Helper()
	names, lines := s.Streams(t)
	var got bytes.Buffer
	var files []string
	for _, file := range s.Files {
		files = append(files, filepath.Base(file))
	}
	fmt.Fprintf(&got, "Each event of %s, and what it becomes. Written by go test -update.\n", strings.Join(files, " and "))
	for _, name := range names {
		fmt.Fprintf(&got, "\n# %s\n", name)
		steps := s.Translate(t, lines[name])
		for i, chunks := range steps {
			fmt.Fprintf(&got, "%.120s\n", lines[name][i])
			for _, c := range chunks {
				whole := Spell(t, c)
				if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(whole, s) }) {
					t.Errorf("%s: a chunk has what must not be stored: %s", name, whole)
				}
				_, members, _ := strings.Cut(whole, `"timestamp":0,`)
				session := strings.TrimPrefix(c.AgentID+": ", Run.Session+": ")
				fmt.Fprintf(&got, "  %s%s {%s\n", session, c.Type(), members)
			}
		}
		for session, snap := range Fold(t, steps) {
			if snap.Status == fold.Active {
				t.Errorf("%s: %s is still running at the end", name, session)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := Read(t, golden); got.String() != want {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

// AnyOrder gives translators the events of all streams in any order, some of them twice: the chunks are those of a log, and each sub-agent is inside its start and end.
func (s Suite) AnyOrder(t *testing.T) {
	t.Helper()
	r := seedtest.Rand(t)
	names, lines := s.Streams(t)
	var all []string
	for _, name := range names {
		all = append(all, lines[name]...)
	}
	for range 300 {
		some := make([]string, 1+r.IntN(60))
		at := r.IntN(len(all))
		for i := range some {
			if some[i] = all[(at+i)%len(all)]; r.IntN(3) == 0 {
				some[i] = all[r.IntN(len(all))]
			}
		}
		Fold(t, s.Translate(t, slices.Concat(some, []string{end})))
	}
}

// Fuzz checks for any lines that Translate and End return valid chunks that fold without a fault, that a sub-agent starts before its first chunk and ends after its last
// one, that the run has an end, and that the same lines give the same chunks.
func (s Suite) Fuzz(f *testing.F) {
	f.Helper()
	names, lines := s.Streams(f)
	for _, name := range names {
		f.Add(strings.Join(lines[name], "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		events := append(strings.Split(text, "\n"), end)
		steps := s.Translate(t, events)
		if snap := Fold(t, steps)[Run.Session]; snap.Status == fold.Active {
			t.Fatal("the run is still running at the end of its response")
		}
		if again := s.Translate(t, events); !reflect.DeepEqual(steps, again) {
			t.Fatalf("once %v\nthen %v", steps, again)
		}
	})
}
