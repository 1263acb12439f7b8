package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var kills = flag.Int("kills", 8, "how often the tests end a process with SIGKILL")

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

func pause() { <-time.After(time.Duration(100+rand.IntN(700)) * time.Millisecond) }

func send(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end ends a process with SIGKILL.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// The rows are those of the log, each once, although two processes copy at once, and are stopped for a while or ended at random times, as the NATS server is.
func TestKilled(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { testKilled(t, kind(t)) })
	}
}

func testKilled(t *testing.T, lake stored) {
	t.Helper()
	srv := streamtest.Start(t)
	args := append([]string{"--nats-url", srv.URL, "--every=50ms", "--bytes=20000", "--memory=1048576", "--view=all"}, lake.args...)
	w := newWriter(t, srv.JetStream(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() { w.write(ctx) })
	pair := []*exec.Cmd{start(t, args...), start(t, args...)}
	for n := range *kills {
		if n%3 == 2 {
			w.idle.Lock()
			srv.Process.Restart(t) // with SIGKILL
			w.idle.Unlock()
		}
		i := rand.IntN(len(pair))
		pause() // no result depends on when they are ended or stopped
		if rand.IntN(2) == 0 {
			send(t, pair[i], syscall.SIGSTOP)
			pause()
			send(t, pair[i], syscall.SIGCONT)
			pause()
		}
		end(pair[i])
		pair[i] = start(t, args...)
	}
	cancel()
	writing.Wait()
	for _, cmd := range pair {
		end(cmd)
	}
	before := lake.rows(t)
	if len(before.Events) == 0 {
		t.Error("the processes have stored nothing before they were ended")
	}
	last := start(t, append(args, "--no-follow")...)
	if err := last.Wait(); err != nil {
		t.Fatal(err)
	}
	want := foldOf(t, srv.JetStream(t))
	if lake.visible != nil {
		want = lake.visible(want)
	}
	compare(t, want, lake.rows(t))
	t.Logf("%d processes ended, %d events and %d observations stored once, %d of the events by the last process", *kills+2, len(want.Events), len(want.Observations),
		len(want.Events)-len(before.Events))
}

// stored is a store of a test.
type stored struct {
	args    []string
	rows    func(*testing.T) row.Batch
	visible func(row.Batch) row.Batch // what the store shows of the rows of the log; nil: all
}

var kinds = map[string]func(*testing.T) stored{"directory": inDirectory, "S3": inS3, "Postgres": inPostgres}

func inDirectory(t *testing.T) stored {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lake")
	return stored{args: []string{"--to", dir}, rows: func(t *testing.T) row.Batch {
		t.Helper()
		files := map[string][]byte{}
		root := os.DirFS(dir)
		err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				files[name], err = fs.ReadFile(root, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return readRows(t, files)
	}}
}

func inS3(t *testing.T) stored {
	t.Helper()
	const bucket = "lakes"
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return stored{args: []string{"--to", "s3://" + bucket + "/lake?region=eu&endpoint=" + server.URL}, rows: func(t *testing.T) row.Batch {
		t.Helper()
		list, err := backend.ListBucket(bucket, &gofakes3.Prefix{HasPrefix: true, Prefix: "lake/"}, gofakes3.ListBucketPage{})
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, o := range list.Contents {
			object, err := backend.GetObject(bucket, o.Key, nil)
			if err != nil {
				t.Fatal(err)
			}
			if files[strings.TrimPrefix(o.Key, "lake/")], err = io.ReadAll(object.Contents); err != nil {
				t.Fatal(err)
			}
		}
		return readRows(t, files)
	}}
}

func inPostgres(t *testing.T) stored {
	t.Helper()
	server, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url := server.Database(t)
	return stored{args: []string{"--to", url}, visible: latest, rows: func(t *testing.T) (b row.Batch) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		var tables int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'tailrace' AND tablename = 'observations'`).Scan(&tables); err != nil || tables == 0 {
			return b
		}
		found, err := conn.Query(t.Context(), `SELECT seq, ordinal, type FROM tailrace.events`)
		if err == nil {
			b.Events, err = pgx.CollectRows(found, func(r pgx.CollectableRow) (e row.Event, err error) {
				return e, r.Scan(&e.Seq, &e.Ordinal, &e.Type)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err = conn.Query(t.Context(), `SELECT seq, id, coalesce(parent_id, ''), trace_id, kind, status, first_ordinal, last_ordinal FROM tailrace.observations`)
		if err == nil {
			b.Observations, err = pgx.CollectRows(found, func(r pgx.CollectableRow) (o row.Observation, err error) {
				return o, r.Scan(&o.Seq, &o.ID, &o.ParentID, &o.TraceID, &o.Kind, &o.Status, &o.FirstOrdinal, &o.LastOrdinal)
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}}
}

// latest returns what Postgres shows of rows: of several with one id the last one. The columns are those that the test reads.
func latest(of row.Batch) (b row.Batch) {
	for _, e := range of.Events {
		b.Events = append(b.Events, row.Event{Place: row.Place{Seq: e.Seq}, Ordinal: e.Ordinal, Type: e.Type})
	}
	rows := map[string]row.Observation{}
	for _, o := range of.Observations {
		rows[o.ID] = row.Observation{
			Place: row.Place{Seq: o.Seq}, ID: o.ID, ParentID: o.ParentID, TraceID: o.TraceID, Kind: o.Kind, Status: o.Status, FirstOrdinal: o.FirstOrdinal, LastOrdinal: o.LastOrdinal,
		}
	}
	b.Observations = slices.Collect(maps.Values(rows))
	return b
}

// readRows reads the rows of a lake. The names of its files begin with their table.
func readRows(t *testing.T, files map[string][]byte) (b row.Batch) {
	t.Helper()
	for name, data := range files {
		if path.Ext(name) != ".parquet" {
			continue
		}
		switch table, _, _ := strings.Cut(name, "/"); table {
		case "events":
			b.Events = append(b.Events, readFile[row.Event](t, data)...)
		case "observations":
			b.Observations = append(b.Observations, readFile[row.Observation](t, data)...)
		case "gaps":
			b.Gaps = append(b.Gaps, readFile[row.Gap](t, data)...)
		default:
			t.Fatalf("file %s is of no table", name)
		}
	}
	return b
}

func readFile[T any](t *testing.T, data []byte) []T {
	t.Helper()
	rows, err := parquet.Read[T](bytes.NewReader(data), int64(len(data)))
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
	idle sync.Mutex // locked while responses of the server are awaited
}

func newWriter(t *testing.T, js jetstream.JetStream) *writer {
	t.Helper()
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
	pace := time.NewTicker(30 * time.Millisecond)
	defer pace.Stop()
	for turn := 0; ctx.Err() == nil; turn++ {
		<-pace.C
		w.idle.Lock()
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
		w.idle.Unlock()
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
