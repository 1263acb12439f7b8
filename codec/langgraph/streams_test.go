package langgraph

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

var (
	update                    = flag.Bool("update", false, "rewrite the golden file")
	_      dialect.Translator = (*Translator)(nil)
	root                      = chunk.RootSession("acme", "s1")
)

// streams returns the streams of testdata/streams.txt by name, in their order: the events of one or more responses, "-" at the end of each.
func streams(tb testing.TB) (names []string, lines map[string][]string) {
	tb.Helper()
	lines = map[string][]string{}
	name := ""
	for line := range strings.Lines(file(tb, "streams.txt")) {
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
	return names, lines
}

func file(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// translate translates lines, "-" is the end of a response, and checks each chunk. A line that is not an event has no chunks.
func translate(tb testing.TB, lines []string) (all [][]chunk.Chunk) {
	tb.Helper()
	tr := New(Config{Session: "s1", AgentType: "clerk", RunID: "run-1"})
	for _, line := range lines {
		if line == "-" {
			all = append(all, tr.End())
			continue
		}
		chunks, _ := tr.Translate([]byte(line))
		all = append(all, chunks)
	}
	for _, chunks := range all {
		for _, c := range chunks {
			spell(tb, c)
		}
	}
	return all
}

func spell(tb testing.TB, c chunk.Chunk) string {
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

// folded returns the snapshot of each session of a log with the chunks, and fails the test if a chunk is a fault, or is outside of its sub-agent.
func folded(tb testing.TB, steps [][]chunk.Chunk) map[string]fold.Snapshot {
	tb.Helper()
	folds, ordinals, running := map[string]*fold.Folder{}, map[string]chunk.Ordinal{}, map[string]bool{"s1": true}
	seq := chunk.Seq(0)
	apply := func(c chunk.Chunk) {
		s := c.AgentID
		if folds[s] == nil {
			folds[s] = fold.New(root.Child(s))
		}
		seq++
		ordinals[s]++
		rec := chunk.Record{Seq: seq, Session: root.Child(s), Epoch: 1, Ordinal: ordinals[s], Type: c.Type(), Data: []byte(spell(tb, c))}
		if err := folds[s].Apply(rec); err != nil {
			tb.Fatalf("%s: %v", rec.Data, err)
		}
	}
	start := func(session string) {
		apply(chunk.Chunk{AgentID: session, AgentType: "clerk", Body: chunk.RunStarted{
			RunID: fmt.Sprintf("run-%d", seq), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}},
		}})
	}
	start("s1")
	for _, chunks := range steps {
		for _, c := range chunks {
			if !running[c.AgentID] {
				tb.Fatalf("a chunk outside of its sub-agent: %s", spell(tb, c))
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

// TestStreams compares the chunks for each event of the streams with the golden file.
func TestStreams(t *testing.T) {
	const golden = "testdata/chunks.txt"
	names, lines := streams(t)
	var got bytes.Buffer
	fmt.Fprintln(&got, "Each event of streams.txt, and what it becomes. Written by go test -update.")
	for _, name := range names {
		fmt.Fprintf(&got, "\n# %s\n", name)
		steps := translate(t, lines[name])
		for i, chunks := range steps {
			fmt.Fprintf(&got, "%.120s\n", lines[name][i])
			for _, c := range chunks {
				_, members, _ := strings.Cut(spell(t, c), `"timestamp":0,`)
				session := strings.TrimPrefix(c.AgentID+": ", "s1: ")
				fmt.Fprintf(&got, "  %s%s {%s\n", session, c.Type(), members)
			}
		}
		for session, s := range folded(t, steps) {
			if s.Status == "active" {
				t.Errorf("%s: %s is still running at the end", name, session)
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := file(t, "chunks.txt"); got.String() != want {
		t.Errorf("%s differs; look at the difference after -update. Now:\n%s", golden, got.Bytes())
	}
}

// TestEachMember wants an event in the streams for each member of the unions in the types of @langchain/protocol.
func TestEachMember(t *testing.T) {
	seen := map[string]bool{}
	_, lines := streams(t)
	for _, all := range lines {
		for _, line := range all {
			get := func(path ...string) string {
				return text(rawjson.Get([]byte(line), append([]string{"params", "data"}, path...)...))
			}
			method := text(rawjson.Get([]byte(line), "method"))
			seen["method "+method] = true
			seen[method+" "+get("event")] = true
			seen["delta "+get("delta", "type")] = true
			for _, member := range []string{"content", "contentBlock"} {
				seen["block "+get(member, "type")] = true
			}
		}
	}
	for line := range strings.Lines(file(t, "unions.txt")) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "//") && !seen[line] {
			t.Errorf("no stream has %s", line)
		}
	}
}

// TestInputMessages wants no chunk for the messages of users and systems: the run has the first, and the second are prompts.
func TestInputMessages(t *testing.T) {
	event := func(data string) string {
		return `{"type":"event","method":"messages","params":{"namespace":[],"data":` + data + `}}`
	}
	for _, role := range []string{"human", "system"} {
		steps := translate(t, []string{
			event(`{"event":"message-start","role":"` + role + `","id":"m1"}`), event(`{"event":"content-block-start","index":0,"content":{"type":"text","text":"secret"}}`),
			event(`{"event":"content-block-finish","index":0,"content":{"type":"text","text":"secret"}}`), event(`{"event":"message-finish"}`),
		})
		for _, chunks := range steps {
			if len(chunks) > 0 {
				t.Errorf("%s: %s", role, spell(t, chunks[0]))
			}
		}
	}
}

// TestRefused wants an error for what is not an event.
func TestRefused(t *testing.T) {
	for _, line := range []string{``, `1`, `{}`, `{"type":"event"}`, `{"method":1}`} {
		if chunks, err := New(Config{Session: "s1"}).Translate([]byte(line)); !errors.Is(err, chunk.ErrInvalid) || chunks != nil {
			t.Errorf("%s: %v, %v", line, chunks, err)
		}
	}
}
