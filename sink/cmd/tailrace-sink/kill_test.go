package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var kills = flag.Int("kills", 12, "how often the tests end a process with SIGKILL")

// binary builds the program.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tailrace-sink")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tailrace-sink")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// start starts the program.
func start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--ops-listen=", "--log-level=warn"}, args...)...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// The rows are those of the log, each once, although processes are ended at random times, two of them at once, and the server is.
func TestKilled(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { testKilled(t, kind(t)) })
	}
}

func testKilled(t *testing.T, lake stored) {
	srv := streamtest.Start(t)
	args := append([]string{"--nats-url", srv.URL, "--every=50ms", "--bytes=20000", "--memory=1048576", "--view=all"}, lake.args...)
	w := newWriter(t, srv.JetStream(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() { w.write(ctx) })
	for range *kills {
		first, second := start(t, args...), start(t, args...)
		time.Sleep(time.Duration(50+rand.IntN(500)) * time.Millisecond) // the time of the kill is random, no result depends on it
		for _, cmd := range []*exec.Cmd{first, second} {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	cancel()
	writing.Wait()
	last := start(t, append(args, "--no-follow")...)
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	want := foldOf(t, srv.JetStream(t))
	compare(t, want, lake.rows(t))
	t.Logf("%d processes ended, %d events and %d observations stored once", 2**kills, len(want.Events), len(want.Observations))
}

// stored is a store of a test.
type stored struct {
	args []string
	rows func(*testing.T) row.Batch
}

var kinds = map[string]func(*testing.T) stored{
	"directory": func(t *testing.T) stored {
		dir := filepath.Join(t.TempDir(), "lake")
		return stored{args: []string{"--to", dir}, rows: func(t *testing.T) (b row.Batch) {
			t.Helper()
			b.Events, b.Observations, b.Gaps = readTable[row.Event](t, dir, "events"), readTable[row.Observation](t, dir, "observations"), readTable[row.Gap](t, dir, "gaps")
			return b
		}}
	},
}

// readTable reads the files of a table.
func readTable[T any](t *testing.T, dir, table string) (rows []T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, table), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		part, err := parquet.Read[T](bytes.NewReader(data), int64(len(data)))
		rows = append(rows, part...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// compare fails if the rows are not those that are wanted, each once.
func compare(t *testing.T, want, got row.Batch) {
	t.Helper()
	for _, b := range []*row.Batch{&want, &got} {
		slices.SortFunc(b.Events, func(a, b row.Event) int { return cmp.Compare(a.Seq, b.Seq) })
		slices.SortFunc(b.Observations, func(a, b row.Observation) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID)) })
		slices.SortFunc(b.Gaps, func(a, b row.Gap) int {
			return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.FromOrdinal, b.FromOrdinal))
		})
	}
	byMicrosecond := gocmp.Transformer("microseconds", func(at time.Time) int64 { return at.UnixMicro() })
	if diff := gocmp.Diff(want, got, byMicrosecond); diff != "" {
		t.Fatalf("rows differ (- log, + store):\n%.4000s", diff)
	}
}

// foldOf folds the whole log. The records that a cleanup has removed are not in it, so the tests clean up nothing.
func foldOf(t *testing.T, js jetstream.JetStream) (b row.Batch) {
	t.Helper()
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tip, err := reader.Tip(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f := observe.New(observe.Config{Position: row.Position{Generation: 1, History: tip.StreamEpoch}})
	for m, err := range reader.Feed(t.Context(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := codec.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		f.Append(&b, rec)
		if m.Seq == tip.Seq {
			break
		}
	}
	return b
}

// writer writes runs of many sessions, as workers do.
type writer struct {
	t    *testing.T
	js   jetstream.JetStream
	last map[chunk.Session]chunk.Ordinal
}

func newWriter(t *testing.T, js jetstream.JetStream) *writer {
	return &writer{t: t, js: js, last: map[chunk.Session]chunk.Ordinal{}}
}

func (w *writer) put(s chunk.Session, body chunk.Body) {
	w.last[s]++
	msg := streamtest.Message(w.t, subjects.Layout{}, codec.Envelope{Session: s, Epoch: 1, Ordinal: w.last[s]}, body)
	if _, err := w.js.PublishMsgAsync(msg); err != nil {
		w.t.Error(err)
	}
}

// write writes until ctx ends: turns of five sessions at a time, with approvals and sub-agents.
func (w *writer) write(ctx context.Context) {
	for turn := 0; ctx.Err() == nil; turn++ {
		var turns [][]func()
		for i := range 5 {
			turns = append(turns, w.turn(chunk.RootSession("acme", fmt.Sprintf("s%d", (turn*3+i)%17)), fmt.Sprintf("r%d-%d", turn, i)))
		}
		for len(turns) > 0 {
			i := rand.IntN(len(turns))
			turns[i][0]()
			if turns[i] = turns[i][1:]; len(turns[i]) == 0 {
				turns = slices.Delete(turns, i, i+1)
			}
		}
		<-w.js.PublishAsyncComplete()
	}
}

// turn returns what a turn writes.
func (w *writer) turn(s chunk.Session, run string) []func() {
	id := func(name string) string { return run + "-" + name }
	child := s.Child(s.ID + "-child")
	var out []func()
	add := func(s chunk.Session, bodies ...chunk.Body) {
		for _, body := range bodies {
			out = append(out, func() { w.put(s, body) })
		}
	}
	add(s, chunk.RunStarted{RunID: run, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Hello"}}}, chunk.StepStart{})
	for range 10 {
		add(s, chunk.TextDelta{Delta: "a piece of text "})
	}
	add(s, chunk.ToolStart{ToolCallID: id("sub"), ToolName: "subagent__x", Arguments: chunk.Value(`{}`)}, chunk.SubagentStart{SubAgentType: "x", SubSessionID: child.ID, CallID: id("sub")})
	add(child, chunk.RunStarted{RunID: id("child"), Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: s.ID, CallID: id("sub")}}, chunk.StepStart{}, chunk.TextDelta{Delta: "x"}, chunk.StepEnd{}, chunk.StreamEnd{StreamID: child.ID})
	add(s, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: child.ID, CallID: id("sub"), Result: chunk.Value(`{"a":1}`)},
		chunk.ToolApprovalRequest{ToolCallID: id("ask"), ToolName: "delete", ApprovalID: id("ask"), Input: chunk.Value(`{"q":1}`)},
		chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "20"}}, chunk.StreamPaused{},
		chunk.RunStarted{RunID: id("again"), Epoch: 1, Mode: "with_confirmation"},
		chunk.ToolApprovalResponse{ToolCallID: id("ask"), ToolName: "delete", ApprovalID: id("ask"), Approved: true},
		chunk.ToolEnd{ToolCallID: id("ask"), ToolName: "delete", Result: chunk.Value(`true`)}, chunk.StreamEnd{StreamID: s.ID})
	return out
}
