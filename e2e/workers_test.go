//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// workerVariable holds the job of a test binary that runs a worker, so that the worker can be
// killed and stopped.
const workerVariable = "TRTEST_E2E_WORKER"

type workerJob struct {
	URL  string        `json:"url"`
	Pace time.Duration `json:"pace"` // delay between two words
}

const lease = time.Second // AckWait of the workers

// The agent of these tests writes three steps of numbered words, calls one browser tool and delegates once to a sub-agent. It continues after the steps that
// the turn already has.
const (
	wordsEach = 5
	lastStep  = 3
)

func runWorker(jobJSON string, in io.Reader) int {
	var job workerJob
	if err := json.Unmarshal([]byte(jobJSON), &job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error means the end, too
	}()
	if err := serveAgents(ctx, job); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func serveAgents(ctx context.Context, job workerJob) error {
	user, err := nats.NkeyOptionFromSeed(os.Getenv("TAILRACE_NATS_NKEY"))
	if err != nil {
		return err
	}
	nc, err := nats.Connect(job.URL, nats.Name("tailrace-worker-test"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreAuthErrorAbort(),
		user, nats.CustomInboxPrefix(natsauth.InboxPrefix(natsauth.Worker)))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	w, err := workers.New(js, workers.Config{
		MaxTakeovers: workers.Off, // the workers are killed whatever their runs do
		Agents:       map[string]workers.Agent{"teller": wordAgent(job.Pace), "helper": helper()},
		Lease:        lease, Concurrency: 16, RetryDelay: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	fmt.Println("serving") // the line that the parent of this process waits for
	return w.Run(ctx)
}

func wordAgent(pace time.Duration) workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		for n := t.Steps() + 1; n <= lastStep; n++ {
			if err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return writeWords(ctx, s, n, pace) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeWords(ctx context.Context, s *workers.Step, n int, pace time.Duration) error {
	for i := range wordsEach {
		if err := s.Text(ctx, fmt.Sprintf("%d.%d ", n, i)); err != nil {
			return err
		}
		select {
		case <-time.After(pace):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch n {
	case 1:
		return s.Tool("where", "location").AskClient(ctx, map[string]any{}, time.Time{})
	case 2:
		return s.Tool("help", workers.SubagentTool("helper")).Delegate(ctx, map[string]any{"message": "and so on"})
	}
	s.MarkFinal()
	return nil
}

func helper() workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return s.Output(ctx, t.Input()[0].Content) })
	})
}

// expectedContent returns the expected content of every run, regardless of how often its worker was killed.
func expectedContent() string {
	var b strings.Builder
	for n := 1; n <= lastStep; n++ {
		for i := range wordsEach {
			fmt.Fprintf(&b, "%d.%d ", n, i)
		}
		switch n {
		case 1:
			b.WriteString(`[location "here"]`)
		case 2:
			b.WriteString(`[subagent__helper "and so on"]`)
		}
	}
	return b.String()
}

// workerProcess is a worker in a separate process.
type workerProcess struct {
	cmd   *exec.Cmd
	input io.Closer // its end terminates the worker
}

func startWorkerProcess(t *testing.T, job workerJob) *workerProcess {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = slices.Concat(os.Environ(), roletest.Shared().Env(natsauth.Worker), []string{workerVariable + "=" + string(text)})
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("start worker: output %q, %v", line, err)
	}
	return &workerProcess{cmd, input}
}

func (w *workerProcess) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// terminate shuts the worker down and waits for its exit.
func (w *workerProcess) terminate(t *testing.T) {
	t.Helper()
	_ = w.input.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("exit of a worker: %v", err)
	}
}

func (w *workerProcess) kill() {
	_ = w.cmd.Process.Kill() // it may have exited
	_ = w.cmd.Wait()         // the process was killed
}

// workerEnv is the environment of workers: a server, commands and clients.
type workerEnv struct {
	*stack.Stack

	srv *natstest.Process
}

func newWorkerEnv(t *testing.T) *workerEnv {
	t.Helper()
	srv := natstest.StartProcess(t)
	return &workerEnv{stack.Start(t, stack.Options{On: srv}), srv}
}

func workerSession(i int) chunk.Session { return chunk.RootSession("acme", fmt.Sprint("run", i)) }

func (o *workerEnv) ask(ctx context.Context, i int) error {
	c := control.Command{
		Kind: control.Execute, Session: workerSession(i), AgentType: "teller", RunID: fmt.Sprint("r", i),
		Input: []chunk.InputMessage{{Content: "Tell!"}},
	}
	for {
		err := o.Queue.Request(ctx, c, 0)
		if ctx.Err() != nil || !errors.Is(err, chunk.ErrUnknownOutcome) {
			return err
		}
	}
}

// attend follows a session to its end and answers its calls, as a browser does: after an error it starts again. With the race detector the server
// may need more than ten seconds for a response.
func (o *workerEnv) attend(ctx context.Context, i int) error {
	var last error
	for ctx.Err() == nil {
		for rec, err := range o.Log.Follow(ctx, chunk.Range{Session: workerSession(i)}) {
			if err == nil && rec.Type.Terminal() {
				return nil
			}
			if err == nil && rec.Type == chunk.TypeStreamPaused {
				err = o.answer(ctx, rec)
			}
			if err != nil { // also if the session has not started
				last = err
				break
			}
		}
	}
	return fmt.Errorf("run %d has not ended: %w; last error: %w", i, ctx.Err(), last)
}

// answer answers the call that a session waits for since the record paused, unless the session has continued.
func (o *workerEnv) answer(ctx context.Context, paused chunk.Record) error {
	s := paused.Session
	snap, err := o.Reader.Snapshot(ctx, s)
	if err != nil {
		return err
	}
	if snap.Position.Seq < paused.Seq {
		return fmt.Errorf("the snapshot ends at sequence %d, before the pause at %d", snap.Position.Seq, paused.Seq)
	}
	if snap.Run.Status != fold.RunSuspended || len(snap.Pending) == 0 {
		return nil // the session has continued; the next pause is checked later
	}
	run := snap.Run.ID
	a := control.Answer{Session: s, RunID: run, CallID: snap.Pending[0].CallID, Kind: control.ClientResult, Result: chunk.Value(`"here"`)}
	if err := o.Inbox.Answer(ctx, a); err != nil && !errors.Is(err, control.ErrAnswered) {
		return err
	}
	c := control.Command{Kind: control.Resume, Session: s, AgentType: "teller", RunID: control.ResumeRunID(run), Resumes: run}
	err = o.Queue.Request(ctx, c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == run {
		err = o.Queue.Request(ctx, c, busy.Revision)
	}
	if errors.Is(err, control.ErrBusy) {
		return nil // already resumed
	}
	return err
}

// check compares the content of a session with the expected content, which must occur once.
func (o *workerEnv) check(t *testing.T, i int) {
	t.Helper()
	s := workerSession(i)
	snap, err := o.Reader.Snapshot(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range snap.Messages(0) {
		if m.Role != fold.Assistant {
			continue
		}
		for _, p := range m.Parts {
			b.WriteString(p.Text)
			if p.Call != nil {
				fmt.Fprintf(&b, "[%s %s]", p.Call.Name, []byte(p.Call.Output))
			}
		}
	}
	if b.String() != expectedContent() {
		t.Errorf("run %d has\n%s\nwant\n%s", i, b.String(), expectedContent())
	}
	ends := 0
	for rec, err := range o.Log.Replay(t.Context(), chunk.Range{Session: s}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type.Terminal() {
			ends++
		}
	}
	if ends != 1 || snap.Status != fold.Ended {
		t.Errorf("run %d is %s and has %d ends, want 1", i, snap.Status, ends)
	}
}

// A thousand runs with eight workers, of which one at random is continuously killed with SIGKILL and replaced. Each run ends once and has its content once.
func TestWorkersAreKilled(t *testing.T) {
	const runs, crew = 1000, 8
	random := seedtest.Rand(t)
	o := newWorkerEnv(t)
	job := workerJob{URL: o.srv.URL}
	// One run of the hundred at a time takes half a minute on a busy machine; only one that never ends takes five.
	const runTimeout = 5 * time.Minute
	var team []*workerProcess
	for range crew {
		team = append(team, startWorkerProcess(t, job))
	}
	t.Cleanup(func() {
		for _, w := range team {
			w.kill()
		}
	})

	begin := time.Now()
	errs, slots := make(chan error, runs), make(chan struct{}, 100)
	var all sync.WaitGroup
	go func() {
		defer close(errs)
		for i := range runs {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
				defer cancel()
				errs <- errors.Join(o.ask(ctx, i), o.attend(ctx, i))
			})
		}
		all.Wait()
	}()
	done, kills := 0, 0
	for err := range errs {
		if err != nil {
			t.Fatalf("after %d runs and %d kills in %s: %v", done, kills, time.Since(begin).Round(time.Second), err)
		}
		if done++; done%25 == 0 && done < runs {
			victim := random.IntN(crew)
			team[victim].kill()
			team[victim] = startWorkerProcess(t, job)
			kills++
		}
	}
	t.Logf("%d runs, %d kills, %s", done, kills, time.Since(begin).Round(time.Millisecond))
	if done != runs || kills < crew {
		t.Errorf("%d runs ended, %d workers were killed", done, kills)
	}
	for i := range runs {
		o.check(t, i)
	}
}

// A worker is stopped during a run for longer than its lease. Another worker takes over and finishes; the first continues, and none of its writes is stored.
func TestAFrozenWorkerIsFenced(t *testing.T) {
	o := newWorkerEnv(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	job := workerJob{URL: o.srv.URL, Pace: 30 * time.Millisecond}
	first := startWorkerProcess(t, job)
	defer first.kill()
	if err := o.ask(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s := workerSession(0)
	words := 0
	for rec, err := range o.Log.Follow(ctx, chunk.Range{Session: s, KeepOpen: true}) {
		if err != nil && words == 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Type == chunk.TypeTextDelta {
			if words++; words == 3 {
				break
			}
		}
	}
	first.signal(t, syscall.SIGSTOP)
	frozen := time.Now()
	second := startWorkerProcess(t, job)
	defer second.kill()
	if err := o.attend(ctx, 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("finished by the other worker after %s, the lease is %s", time.Since(frozen).Round(time.Millisecond), lease)
	before, err := o.Log.Last(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	first.signal(t, syscall.SIGCONT)
	// When the first worker has completed another run, it has also tried to continue the first run.
	second.kill()
	if err := o.ask(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := o.attend(ctx, 1); err != nil {
		t.Fatal(err)
	}
	after, err := o.Log.Last(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if after.Ordinal != before.Ordinal {
		t.Errorf("the session grew from record %d to %d after its end", before.Ordinal, after.Ordinal)
	}
	highest := chunk.Epoch(0)
	for rec, err := range o.Log.Replay(ctx, chunk.Range{Session: s}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Epoch < highest {
			t.Errorf("record %d of epoch %d follows epoch %d", rec.Ordinal, rec.Epoch, highest)
		}
		highest = max(highest, rec.Epoch)
	}
	o.check(t, 0)
	o.check(t, 1)
}
