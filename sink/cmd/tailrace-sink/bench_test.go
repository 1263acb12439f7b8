package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

// eight is the layout of the benchmarks: that of a deployment of medium size.
var eight = subjects.Layout{Partitions: 8}

// log is a log with eight partitions, to which a benchmark writes.
type log struct {
	b    *testing.B
	url  string
	js   jetstream.JetStream
	last map[chunk.Session]chunk.Ordinal
	sent int
}

func startLog(b *testing.B) *log {
	b.Helper()
	srv := natstest.Start(b)
	streamtest.Ensure(b, srv.JetStream(b), topology.Config{Layout: eight})
	return &log{b: b, url: srv.URL, js: srv.JetStream(b), last: map[chunk.Session]chunk.Ordinal{}}
}

// put writes records of a session, and does not wait for the server to store them.
func (l *log) put(s chunk.Session, bodies ...chunk.Body) {
	l.b.Helper()
	for _, body := range bodies {
		l.last[s]++
		msg := streamtest.Message(l.b, eight, codec.Envelope{Session: s, Epoch: 1, Ordinal: l.last[s]}, body)
		if _, err := l.js.PublishMsgAsync(msg); err != nil {
			l.b.Fatal(err)
		}
		if l.sent++; l.sent%2000 == 0 {
			l.wait()
		}
	}
}

func (l *log) wait() { <-l.js.PublishAsyncComplete() }

// open writes the beginning of a turn: two finished calls, one that runs, and text, about 3 KB of content.
func (l *log) open(s chunk.Session) {
	l.b.Helper()
	l.put(s, chunk.RunStarted{RunID: "r-" + s.ID, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "What is the weather in Rome?"}}}, chunk.StepStart{})
	for n := range 3 {
		l.put(s, chunk.ToolStart{ToolCallID: fmt.Sprint("c", n), ToolName: "search", Arguments: chunk.Value(`{"query":"weather in Rome"}`)})
		if n < 2 {
			l.put(s, chunk.ToolEnd{ToolCallID: fmt.Sprint("c", n), ToolName: "search", Result: chunk.Value(`{"page":"` + string(make1K) + `"}`)})
		}
	}
	for range 5 {
		l.put(s, chunk.TextDelta{Delta: "a few words of the answer "})
	}
}

var make1K = slices.Repeat([]byte("text"), 256)

// suspend writes a turn that waits for an approval.
func (l *log) suspend(s chunk.Session) {
	l.b.Helper()
	l.put(s, chunk.RunStarted{RunID: "r-" + s.ID, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Delete it"}}}, chunk.StepStart{},
		chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "delete", ApprovalID: "c", Input: chunk.Value(`{"path":"a"}`)}, chunk.StepEnd{}, chunk.StreamPaused{})
}

func session(n int) chunk.Session { return chunk.RootSession("acme", fmt.Sprint("s", n)) }

// launch starts the program.
func launch(b *testing.B, args ...string) *exec.Cmd {
	b.Helper()
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--ops-listen=", "--log-level=warn"}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

// await waits until a process that copies to the end of the log has ended, and returns the most memory that it had, in MiB.
func await(b *testing.B, cmd *exec.Cmd) float64 {
	b.Helper()
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		b.Fatal("the system does not know the memory of a process")
	}
	return float64(usage.Maxrss) / 1024
}

// targets returns the settings of each kind of store.
func targets(b *testing.B) map[string][]string {
	b.Helper()
	return map[string][]string{"Parquet": {"--to", b.TempDir()}, "Postgres": {"--to", database(b)}}
}

func database(b *testing.B) string {
	b.Helper()
	server, err := pgtest.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return server.Database(b)
}

// BenchmarkMemory copies a log in which 100,000 turns wait for an approval and 10,000 turns are open, and then continue. The metric is the most memory that the process
// has: at most 300 MiB are promised.
func BenchmarkMemory(b *testing.B) {
	l := startLog(b)
	const open, suspended = 10_000, 100_000
	for n := range suspended {
		l.suspend(session(open + n))
	}
	for n := range open {
		l.open(session(n))
	}
	for range 3 {
		for n := range open {
			l.put(session(n), chunk.TextDelta{Delta: "and more words "})
		}
	}
	l.wait()
	for name, to := range targets(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(await(b, launch(b, append(to, "--nats-url", l.url, "--no-follow")...)), "MiB")
			}
			b.ReportMetric(float64(l.sent)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkRestart ends a process with SIGKILL while 1,000 turns are open, and each of them continues. It measures the time from the start of the next process until its first
// commit, and until all is stored, which needs the earlier records of each turn.
func BenchmarkRestart(b *testing.B) {
	const open = 1000
	l := startLog(b)
	url := database(b)
	args := []string{"--to", url, "--nats-url", l.url}
	for n := range open {
		l.open(session(n))
		for range 100 {
			l.put(session(n), chunk.TextDelta{Delta: "words of the answer "})
		}
	}
	l.wait()
	positions := watch(b, url)
	cmd := launch(b, args...)
	positions.await(b, func(stored int) bool { return stored == l.sent })
	var first, all time.Duration
	for b.Loop() {
		b.StopTimer()
		end(cmd)
		before := l.sent
		for n := range open {
			l.put(session(n), chunk.ToolEnd{ToolCallID: "c2", ToolName: "search", Result: chunk.Value(`1`)})
		}
		l.wait()
		b.StartTimer()
		began := time.Now()
		cmd = launch(b, args...)
		positions.await(b, func(stored int) bool { return stored > before })
		first += time.Since(began)
		positions.await(b, func(stored int) bool { return stored == l.sent })
		all += time.Since(began)
	}
	b.ReportMetric(first.Seconds()/float64(b.N), "s-to-first-commit")
	b.ReportMetric(all.Seconds()/float64(b.N), "s-to-all")
}

// watched is the position in a database.
type watched struct{ conn *pgx.Conn }

func watch(b *testing.B, url string) watched {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	return watched{conn}
}

// await waits until the number of stored records is as wanted.
func (w watched) await(b *testing.B, enough func(stored int) bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var stored int
		err := w.conn.QueryRow(b.Context(), `SELECT coalesce(sum(seq), 0) FROM tailrace.positions`).Scan(&stored)
		if err == nil && enough(stored) {
			return
		}
		if b.Context().Err() != nil {
			b.Fatal("the records are not stored")
		}
	}
}

// BenchmarkVisible measures the time from the storage of a record in the log until its row is visible in Postgres, while 200 records are written each second.
func BenchmarkVisible(b *testing.B) {
	l := startLog(b)
	url := database(b)
	launch(b, "--to", url, "--nats-url", l.url)
	conn := watch(b, url).conn
	v := visible{}
	n := 0
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for b.Loop() {
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); n++ {
			<-pace.C
			l.call(n)
			if n%4 == 0 {
				v.look(b, conn)
			}
		}
		l.wait()
		for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
			<-pace.C
			v.look(b, conn)
		}
	}
	v.report(b, n)
}

// call writes a record that is a row.
func (l *log) call(n int) {
	l.b.Helper()
	l.put(session(n%50), chunk.ToolStart{ToolCallID: fmt.Sprint("c", n), ToolName: "search", Arguments: chunk.Value(`{}`)})
}

// visible has how long each row took.
type visible map[[2]int64]time.Duration

func (v visible) add(partition, seq int64, stored, now time.Time) {
	if at := [2]int64{partition, seq}; v[at] == 0 {
		v[at] = now.Sub(stored)
	}
}

func (v visible) look(b *testing.B, conn *pgx.Conn) {
	b.Helper()
	rows, err := conn.Query(b.Context(), `SELECT partition, seq, stored_at FROM tailrace.events WHERE stored_at > now() - interval '10 seconds'`)
	if err != nil {
		return // the tables do not exist yet
	}
	now := time.Now()
	var partition, seq int64
	var stored time.Time
	_, err = pgx.ForEachRow(rows, []any{&partition, &seq, &stored}, func() error {
		v.add(partition, seq, stored, now)
		return nil
	})
	if err != nil && len(v) > 0 {
		b.Error(err)
	}
}

func (v visible) report(b *testing.B, written int) {
	b.Helper()
	if len(v) != written {
		b.Errorf("%d of %d records are visible", len(v), written)
	}
	delays := slices.Sorted(maps.Values(v))
	b.ReportMetric(delays[len(delays)/2].Seconds(), "p50-s")
	b.ReportMetric(delays[len(delays)*99/100].Seconds(), "p99-s")
	b.ReportMetric(delays[len(delays)-1].Seconds(), "max-s")
}

// BenchmarkVisibleFiles does the same for files in a directory, for two and a half minutes: a file of a partition is stored every minute.
func BenchmarkVisibleFiles(b *testing.B) {
	l := startLog(b)
	dir := b.TempDir()
	launch(b, "--to", dir, "--nats-url", l.url)
	v, read := visible{}, map[string]bool{}
	look := func() {
		files, err := filepath.Glob(filepath.Join(dir, "events", "*", "p*.parquet"))
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for _, name := range files {
			if read[name] {
				continue
			}
			read[name] = true
			rows, err := parquet.ReadFile[row.Event](name)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range rows {
				v.add(int64(e.Partition), e.Seq, e.StoredAt, now)
			}
		}
	}
	n := 0
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for b.Loop() {
		for until := time.Now().Add(90 * time.Second); time.Now().Before(until); n++ {
			<-pace.C
			l.call(n)
			look()
		}
		l.wait()
		for until := time.Now().Add(65 * time.Second); time.Now().Before(until); {
			<-pace.C
			look()
		}
	}
	v.report(b, n)
}

// BenchmarkWriters compares the rate of a writer beside a sink that catches up with its rate without, in turns.
func BenchmarkWriters(b *testing.B) {
	l := startLog(b)
	for n := range 20_000 {
		l.open(session(n))
	}
	l.wait()
	rate := func(n int) float64 {
		before, began := l.sent, time.Now()
		for time.Since(began) < 3*time.Second {
			l.open(session(1_000_000 + n*100_000 + l.sent))
		}
		l.wait()
		return float64(l.sent-before) / time.Since(began).Seconds()
	}
	for name, to := range targets(b) {
		b.Run(name, func(b *testing.B) {
			var alone, beside float64
			for n := range b.N {
				alone += rate(2 * n)
				ctx, cancel := context.WithCancel(b.Context())
				var copying sync.WaitGroup
				copying.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						args := to
						if name == "Parquet" {
							args = []string{"--to", fmt.Sprint(to[1], "/", n, "-", i)}
						}
						cmd := launch(b, append(args, "--nats-url", l.url, "--no-follow", fmt.Sprint("--name=s", n, "-", i))...)
						stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
						_ = cmd.Wait()
						stop()
					}
				})
				beside += rate(2*n + 1)
				cancel()
				copying.Wait()
			}
			b.ReportMetric(alone/float64(b.N), "records/s-alone")
			b.ReportMetric(beside/alone, "beside/alone")
		})
	}
}
