//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/workers"
)

// workerVariable holds the job of a test binary that is to be a worker, so that
// it can be killed and frozen like one.
const workerVariable = "TAILRACE_E2E_WORKER"

type workerJob struct {
	URL  string        `json:"url"`
	Pace time.Duration `json:"pace"` // between two words
}

const lease = time.Second // AckWait of the workers

var workerSeed = flag.Uint64("worker-seed", 0, "seed of the test that kills workers; 0 draws one")

// The agent of these tests says three steps of numbered words, asks a browser
// once, and has a sub-agent do a part. It reads from the turn how far it is.
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
	go func() { // ends with the process, at the latest
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error is an end as well
	}()
	if err := serveAgents(ctx, job); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func serveAgents(ctx context.Context, job workerJob) error {
	nc, err := nats.Connect(job.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	w, err := workers.New(js, workers.Config{
		Agents: map[string]workers.Agent{"teller": teller(job.Pace), "helper": helper()},
		Queue:  commands.Config{AckWait: lease, Concurrency: 16, RetryDelay: 50 * time.Millisecond},
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	fmt.Println("serving") // the line that the parent of this process waits for
	return w.Run(ctx)
}

func teller(pace time.Duration) workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		for n := t.Steps() + 1; n <= lastStep; n++ {
			if err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return tell(ctx, s, n, pace) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func tell(ctx context.Context, s *workers.Step, n int, pace time.Duration) error {
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
	s.Final()
	return nil
}

func helper() workers.Agent {
	return workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error { return s.Output(ctx, t.Input()[0].Content) })
	})
}

// whole is what every run says, however often its worker died.
func whole() string {
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

// tellerWorker is a worker in a process of its own.
type tellerWorker struct{ cmd *exec.Cmd }

func startTeller(t *testing.T, job workerJob) *tellerWorker {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil {
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
		t.Fatalf("a worker did not start: %q, %v", line, err)
	}
	return &tellerWorker{cmd}
}

func (w *tellerWorker) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (w *tellerWorker) kill() {
	_ = w.cmd.Process.Kill() // it may be gone
	_ = w.cmd.Wait()         // the exit of a killed process is no news
}

// office is what surrounds workers: a server, those who ask, those who answer.
type office struct {
	srv    *natstest.Process
	log    *consumers.Reader
	reader *projector.Reader
	queue  *commands.Queue
	inbox  *inbox.Box
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{srv: natstest.StartProcess(t)}
	js := o.srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	o.log = newReader(t, js.Conn(), consumers.Config{})
	store, err := kvstore.New(js, kvstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	o.reader = projector.NewReader(store, natssource.Log{Reader: o.log})
	if o.queue, err = commands.New(js, commands.Config{}); err != nil {
		t.Fatal(err)
	}
	if o.inbox, err = inbox.New(js, inbox.Config{}); err != nil {
		t.Fatal(err)
	}
	return o
}

func tellerSession(i int) chunk.Session { return chunk.RootSession("acme", fmt.Sprint("run", i)) }

func (o *office) ask(ctx context.Context, i int) error {
	return o.queue.Request(ctx, commands.Command{
		Kind: commands.Execute, Session: tellerSession(i), AgentType: "teller", RunID: fmt.Sprint("r", i),
		Input: []chunk.InputMessage{{Content: "Tell!"}},
	}, 0)
}

// attend follows a session to its end and answers what it asks, as a browser
// does. It returns how often the stream ended.
func (o *office) attend(ctx context.Context, i int) error {
	s := tellerSession(i)
	for ctx.Err() == nil {
		for rec, err := range o.log.Follow(ctx, s, chunk.Position{}) {
			if err != nil {
				break // not begun, or a clean-up under the reader: from the start again
			}
			if rec.Type.Terminal() {
				return nil
			}
			if rec.Type == chunk.TypeStreamPaused {
				if err := o.answer(ctx, s); err != nil {
					return err
				}
			}
		}
	}
	return fmt.Errorf("run %d has no end: %w", i, ctx.Err())
}

func (o *office) answer(ctx context.Context, s chunk.Session) error {
	snap, err := o.reader.Snapshot(ctx, s)
	if err != nil || snap.Run.Status != fold.RunSuspended || len(snap.Pending) == 0 {
		return nil //nolint:nilerr // it has gone on; the next pause is looked at again
	}
	run := snap.Run.ID
	a := inbox.Answer{Session: s, RunID: run, CallID: snap.Pending[0].CallID, Kind: inbox.ClientResult, Result: chunk.Value(`"here"`)}
	if err := o.inbox.Answer(ctx, a); err != nil && !errors.Is(err, inbox.ErrAnswered) {
		return err
	}
	c := commands.Command{Kind: commands.Resume, Session: s, AgentType: "teller", RunID: commands.ResumeRunID(run), Resumes: run}
	err = o.queue.Request(ctx, c, 0)
	if busy, ok := errors.AsType[*commands.BusyError](err); ok && busy.Command.RunID == run {
		err = o.queue.Request(ctx, c, busy.Revision)
	}
	if errors.Is(err, commands.ErrBusy) {
		return nil // somebody resumes it
	}
	return err
}

// check holds what a session says against what it must say: all of it, once.
func (o *office) check(t *testing.T, i int) {
	t.Helper()
	s := tellerSession(i)
	snap, err := o.reader.Snapshot(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range snap.Transcript(0) {
		if m.Role != fold.Assistant {
			continue
		}
		for _, raw := range m.Parts {
			var p struct {
				Text     string          `json:"text"`
				ToolName string          `json:"toolName"`
				Output   json.RawMessage `json:"output"`
			}
			if err := json.Unmarshal(raw, &p); err != nil {
				t.Fatal(err)
			}
			b.WriteString(p.Text)
			if p.ToolName != "" {
				fmt.Fprintf(&b, "[%s %s]", p.ToolName, p.Output)
			}
		}
	}
	if b.String() != whole() {
		t.Errorf("run %d says\n%s\nwant\n%s", i, b.String(), whole())
	}
	ends := 0
	for rec, err := range o.log.Replay(t.Context(), s, chunk.Position{}) {
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

// A thousand runs, eight workers, and somebody who kills one of them at random
// all the time (kill -9) and starts another. Each run ends once, and says all of
// what it has to say, once.
func TestWorkersAreKilled(t *testing.T) {
	const runs, crew = 1000, 8
	seed := *workerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-worker-seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	o := newOffice(t)
	job := workerJob{URL: o.srv.URL}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var team []*tellerWorker
	for range crew {
		team = append(team, startTeller(t, job))
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
				errs <- errors.Join(o.ask(ctx, i), o.attend(ctx, i))
			})
		}
		all.Wait()
	}()
	done, kills := 0, 0
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
		if done++; done%25 == 0 && done < runs {
			victim := random.IntN(crew)
			team[victim].kill()
			team[victim] = startTeller(t, job)
			kills++
		}
	}
	t.Logf("%d runs, %d kills, %s", done, kills, time.Since(begin).Round(time.Millisecond))
	if done != runs || kills < crew {
		t.Errorf("%d runs ended and %d workers were killed", done, kills)
	}
	for i := range runs {
		o.check(t, i)
	}
}

// A worker is frozen in the middle of a run for longer than its lease. Another
// one takes over and finishes; the first goes on, and nothing of it counts.
func TestAFrozenWorkerIsFenced(t *testing.T) {
	o := newOffice(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	job := workerJob{URL: o.srv.URL, Pace: 30 * time.Millisecond}
	first := startTeller(t, job)
	defer first.kill()
	if err := o.ask(ctx, 0); err != nil {
		t.Fatal(err)
	}
	s := tellerSession(0)
	words := 0
	for rec, err := range o.log.Follow(ctx, s, chunk.Position{}, consumers.KeepOpen()) {
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
	second := startTeller(t, job)
	defer second.kill()
	if err := o.attend(ctx, 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("finished by the other one after %s, the lease is %s", time.Since(frozen).Round(time.Millisecond), lease)
	before, err := o.log.Last(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	first.signal(t, syscall.SIGCONT)
	// The first is awake and well when it does another run; by then it has tried
	// to go on with the first one.
	second.kill()
	if err := o.ask(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := o.attend(ctx, 1); err != nil {
		t.Fatal(err)
	}
	after, err := o.log.Last(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	if after.Ordinal != before.Ordinal {
		t.Errorf("the session went from record %d to %d after its end", before.Ordinal, after.Ordinal)
	}
	highest := chunk.Epoch(0)
	for rec, err := range o.log.Replay(ctx, s, chunk.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Epoch < highest {
			t.Errorf("record %d of epoch %d stands behind epoch %d", rec.Ordinal, rec.Epoch, highest)
		}
		highest = max(highest, rec.Epoch)
	}
	o.check(t, 0)
	o.check(t, 1)
}
