package workers

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

var (
	treesFlag = flag.Int("trees", 50, "number of trees of TestDeletionReachesEverything")
	treeFlag  = flag.Int("tree", -1, "run only this tree of -seed")
)

// treesOfABatch is the number of trees that share a sweep.
const treesOfABatch = 200

// Random conversations with sub-agents and with messages that wait are deleted in every phase. A process of each is stalled at any of its writes: a worker, a projector, or one that stores an
// answer or a dead letter. It continues after the deletion, perhaps after the session has started again, or dies. The deletion is done by one process or two
// at a time, or by one that dies and then by another. After the sweeps of an hour later no byte of the deleted content is in any stream, and what has started
// again is complete.
//
//	go test ./workers -run TestDeletionReachesEverything -trees 10000
//	go test ./workers -run TestDeletionReachesEverything -seed 5 -tree 31 # repeat one of them
func TestDeletionReachesEverything(t *testing.T) {
	x := newDeletions(t)
	first, end := 0, *treesFlag
	if *treeFlag >= 0 {
		first, end = *treeFlag, *treeFlag+1
	}
	for ; first < end && !t.Failed(); first += treesOfABatch {
		x.batch(first, min(first+treesOfABatch, end))
	}
	t.Logf("%d trees, stalled at a write: %d, messages of deleted content that a sweep has removed: %d", end, x.stalled, x.removed)
}

// deletions is the environment of the trees.
type deletions struct {
	*component

	w       *env
	seed    uint64
	eraser  *retention.Eraser
	reaper  *Reaper
	streams []string

	mu      sync.Mutex // guards everything below
	trees   map[string]*tree
	stalled int
	removed int
}

func newDeletions(t *testing.T) *deletions {
	t.Helper()
	x := &deletions{w: &env{Stack: stack.Start(t, stack.Options{Topology: topology.Config{Storage: jetstream.MemoryStorage, MaxSnapshot: 64 << 10}}), t: t}, seed: seedtest.Seed(t), trees: make(map[string]*tree)}
	js := x.w.Server.JetStream(t)
	x.component = x.open(js)
	t.Cleanup(func() { _ = x.workers.Close() })
	var err error
	if x.eraser, err = retention.NewEraser(js, x.store, retention.EraserConfig{}); err != nil {
		t.Fatal(err)
	}
	if x.reaper, err = NewReaper(js, ReaperConfig{}); err != nil {
		t.Fatal(err)
	}
	open := x.reaper.open
	x.reaper.open = func() (*Workers, func(), error) {
		w, release, err := open()
		if err == nil {
			w.queue = hourLater{w.queue}
		}
		return w, release, err
	}
	for info := range js.ListStreams(t.Context()).Info() {
		x.streams = append(x.streams, info.Config.Name)
	}
	return x
}

// hourLater is a queue whose time for sweeps is an hour later.
type hourLater struct{ queue }

func (q hourLater) SweepTime(ctx context.Context, host func() time.Time) (time.Time, error) {
	now, err := q.queue.SweepTime(ctx, host)
	return now.Add(time.Hour), err
}

// component is everything that a process may be.
type component struct {
	js      jetstream.JetStream
	workers *Workers
	store   *jssnapshots.Store
	log     *consumers.Reader
	dead    *retention.DeadLetters
	reader  *projector.Reader
}

func (x *deletions) open(js jetstream.JetStream) *component {
	c := &component{js: js}
	var errs [4]error
	agent := AgentFunc(x.answer)
	c.workers, errs[0] = New(js, Config{
		Agents: map[string]Agent{"a0": agent, "a1": agent, "a2": agent}, ShutdownTimeout: time.Minute, MaxTakeovers: Off, Pace: Off,
	})
	c.store, errs[1] = jssnapshots.New(js, jssnapshots.Config{})
	c.log, errs[2] = consumers.New(js, consumers.Config{})
	c.dead, errs[3] = retention.NewDeadLetters(js, retention.DeadLetterConfig{})
	if err := errors.Join(errs[:]...); err != nil {
		x.w.t.Error(err)
	}
	c.reader = projector.NewReader(c.store, c.log)
	return c
}

func (x *deletions) batch(first, end int) {
	var group errgroup.Group
	group.SetLimit(32)
	var all []*tree
	for n := first; n < end; n++ {
		tr := x.newTree(n)
		all = append(all, tr)
		group.Go(tr.run)
	}
	if err := group.Wait(); err != nil {
		x.w.t.Error(err)
	}
	before := len(x.found())
	ctx := x.w.t.Context()
	if _, err := x.eraser.SweepAt(ctx, time.Now().Add(time.Hour)); err != nil {
		x.w.t.Error(err)
	}
	if err := x.reaper.Sweep(ctx, x.store); err != nil {
		x.w.t.Error(err)
	}
	left := x.found()
	x.removed += before - len(left)
	for _, text := range left {
		x.w.t.Errorf("left an hour later: %s; seed %d", text, x.seed)
	}
	for _, tr := range all {
		tr.check()
	}
	for _, name := range x.streams {
		stream, err := x.js.Stream(ctx, name)
		if err == nil && !stream.CachedInfo().Config.DenyPurge {
			err = stream.Purge(ctx)
		}
		if err != nil {
			x.w.t.Error(err)
		}
	}
}

// found returns the messages with deleted content.
func (x *deletions) found() (all []string) {
	api := jsclient.New(x.js)
	for _, stream := range x.streams {
		for from := uint64(1); ; {
			m, err := api.Next(x.w.t.Context(), stream, ">", from)
			if err != nil {
				if !errors.Is(err, jsclient.ErrNotFound) {
					x.w.t.Error(err)
				}
				break
			}
			from = m.Seq + 1
			if text := slices.Concat(m.Block, m.Data); bytes.Contains(text, []byte("secret-")) {
				all = append(all, fmt.Sprintf("%s %s: %.300q", stream, m.Subject, text[max(0, bytes.Index(text, []byte("secret-"))-100):]))
			}
		}
	}
	return all
}

// tree is a conversation with its sub-agents. It has a tenant of its own.
type tree struct {
	*deletions

	n      int
	random *rand.Rand // of run
	root   chunk.Session
	calls  [3]int  // sub-agents that an agent of each level calls
	asks   [3]bool // an agent of each level asks a browser
	long   [3]bool // a text of each level is too large for a message of the store, and the data of an event for one of the log
	again  bool    // the session starts again
}

func (x *deletions) newTree(n int) *tree {
	r := rand.New(rand.NewPCG(x.seed, uint64(n)))
	tr := &tree{deletions: x, n: n, random: r, root: chunk.RootSession(fmt.Sprint("t", n), "s"), again: r.IntN(2) == 0}
	tr.calls = [3]int{r.IntN(3), r.IntN(2), 0}
	for i := range tr.asks {
		tr.asks[i], tr.long[i] = r.IntN(4) == 0, r.IntN(12) == 0
	}
	x.mu.Lock()
	x.trees[tr.root.Tenant] = tr
	x.mu.Unlock()
	return tr
}

// answer is the agent of all levels.
func (x *deletions) answer(ctx context.Context, turn *Turn) error {
	x.mu.Lock()
	tr := x.trees[turn.cmd.Session.Tenant]
	x.mu.Unlock()
	level := int(turn.cmd.AgentType[1] - '0')
	if in := turn.Input(); len(in) > 0 && strings.HasPrefix(in[0].Content, "fresh-") {
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			return s.Text(ctx, "Answer to "+in[0].Content)
		})
	}
	return turn.Step(ctx, func(ctx context.Context, s *Step) error {
		text := tr.secret("text")
		if tr.long[level] {
			text += strings.Repeat("long ", 14_000)
			if err := s.Custom(ctx, "rows", tr.secret("rows")+strings.Repeat("large ", 100_000)); err != nil {
				return err
			}
		}
		if err := s.Text(ctx, text); err != nil {
			return err
		}
		if turn.cmd.RunID == "r0" || turn.Steps() > 0 || tr.calls[level] == 0 && !tr.asks[level] {
			s.MarkFinal()
			return nil
		}
		var errs []error
		for i := range tr.calls[level] {
			errs = append(errs, s.Tool(fmt.Sprint("c", i), SubagentTool(fmt.Sprint("a", level+1))).Delegate(ctx, map[string]any{"message": tr.secret("input")}))
		}
		if tr.asks[level] {
			errs = append(errs, s.Tool("q", "ask").AskClient(ctx, map[string]any{"question": tr.secret("question")}, time.Time{}))
		}
		return errors.Join(errs...)
	})
}

func (tr *tree) secret(what string) string { return fmt.Sprintf("secret-%d-%s", tr.n, what) }

func (tr *tree) run() error {
	ctx := context.Background()
	c := control.Command{
		Kind: control.Execute, Session: tr.root, AgentType: "a0", RunID: "r1", Input: []chunk.InputMessage{{Content: tr.secret("question")}},
		Params: chunk.Value(fmt.Sprintf("%q", tr.secret("params"))),
	}
	for range tr.random.IntN(2) { // an earlier turn
		earlier := c
		earlier.RunID = "r0"
		if err := errors.Join(tr.workers.queue.Request(ctx, earlier, 0), tr.handleAll(ctx)); err != nil {
			return err
		}
	}
	if err := tr.workers.queue.Request(ctx, c, 0); err != nil {
		return err
	}
	if tr.random.IntN(2) == 0 { // a message waits
		next := c
		next.RunID, next.Mode, next.Issued = "q1", control.ModeQueued, time.Now()
		if err := tr.workers.inbox.Enqueue(ctx, control.Queued{Command: next, State: control.QueuedWaiting}); err != nil {
			return err
		}
	}
	for range tr.random.IntN(9) {
		if err := tr.act(ctx, tr.component, tr.random); err != nil {
			return fmt.Errorf("tree %d: %w", tr.n, err)
		}
	}
	p := tr.stallingProcess()
	acted, own := make(chan struct{}), rand.New(rand.NewPCG(tr.random.Uint64(), 0))
	go func() {
		defer close(acted)
		for range 6 {
			if tr.act(ctx, p.component, own) != nil { // a deleted session is an error
				return
			}
		}
	}()
	select {
	case <-p.conn.stalled:
		tr.mu.Lock()
		tr.stalled++
		tr.mu.Unlock()
	case <-acted:
	}
	err := tr.delete(ctx)
	if err == nil && tr.again {
		err = tr.startAgain(ctx)
	}
	p.conn.release()
	<-acted
	_ = p.workers.Close()
	p.js.Conn().Close()
	if err == nil && tr.random.IntN(2) == 0 { // workers are free
		err = tr.handleAll(ctx)
	}
	if err != nil {
		return fmt.Errorf("tree %d: %w", tr.n, err)
	}
	return nil
}

// act does what a process of some kind does next.
func (tr *tree) act(ctx context.Context, c *component, random *rand.Rand) error {
	switch random.IntN(6) {
	case 0, 1, 2:
		return tr.handle(ctx, c, random)
	case 3, 4:
		s, err := tr.session(ctx, random)
		if err != nil || s == (chunk.Session{}) {
			return err
		}
		if random.IntN(4) == 0 {
			last, err := c.log.Last(ctx, s)
			if err != nil {
				return err
			}
			return c.dead.Add(ctx, last, "cannot be folded")
		}
		_, err = projector.Rebuild(ctx, c.store, c.log, s)
		return err
	default:
		return tr.answerCalls(ctx, c, random)
	}
}

// handle handles one of the commands of the tree.
func (tr *tree) handle(ctx context.Context, c *component, random *rand.Rand) error {
	all := tr.commands(ctx)
	if len(all) == 0 {
		return nil
	}
	one := all[random.IntN(len(all))]
	err := c.workers.handle(ctx, one.Command)
	more, done := errors.AsType[control.AfterAck](err)
	if err != nil && !done {
		return err
	}
	if err := jsclient.New(c.js).Delete(ctx, "TR_COMMANDS", one.seq); err != nil && !errors.Is(err, jsclient.ErrNotFound) {
		return err
	}
	if more.Func != nil {
		return more.Func(ctx)
	}
	return nil
}

type queued struct {
	control.Command

	seq uint64
}

func (tr *tree) commands(ctx context.Context) (all []queued) {
	filter := strings.Replace(names.Layout{}.AllCommands(), "*", tr.root.Tenant, 1)
	for from := uint64(1); ; {
		m, err := jsclient.New(tr.js).Next(ctx, "TR_COMMANDS", filter, from)
		if err != nil {
			return all
		}
		from = m.Seq + 1
		if c, err := control.DecodeCommand(subjects.Layout{}, m.Subject, m.Data); err == nil {
			all = append(all, queued{c, m.Seq})
		}
	}
}

// session returns one of the sessions in the log.
func (tr *tree) session(ctx context.Context, random *rand.Rand) (s chunk.Session, err error) {
	filter, err := subjects.Layout{}.Tree(tr.root)
	if err != nil {
		return s, err
	}
	all, _, err := jsclient.New(tr.js).Subjects(ctx, "TR_CHUNKS_0", filter, 0)
	if err != nil || len(all) == 0 {
		return s, err
	}
	return subjects.Layout{}.Parse(all[random.IntN(len(all))])
}

// answerCalls answers the calls of a session and resumes its run, as an edge does.
func (tr *tree) answerCalls(ctx context.Context, c *component, random *rand.Rand) error {
	s, err := tr.session(ctx, random)
	if err != nil || s == (chunk.Session{}) {
		return err
	}
	snap, err := c.reader.Snapshot(ctx, s)
	if err != nil {
		return err
	}
	for _, call := range conversation.PendingCalls(snap, snap.Run.ID) {
		if call.Kind != control.ClientResult {
			continue
		}
		err := c.workers.inbox.Answer(ctx, control.Answer{
			Session: s, RunID: snap.Run.ID, CallID: call.CallID, Kind: call.Kind, ToolName: call.ToolName, Result: chunk.Value(fmt.Sprintf("%q", tr.secret("answer"))),
		})
		if err != nil && !errors.Is(err, control.ErrAnswered) {
			return err
		}
	}
	return c.workers.continueSuspended(ctx, snap)
}

// delete deletes the tree, perhaps a sub-agent before, perhaps by two processes at a time, or by one that dies and then by another.
func (tr *tree) delete(ctx context.Context) error {
	how := tr.random.IntN(5)
	if s, err := tr.session(ctx, tr.random); how == 0 && err == nil && s != (chunk.Session{}) {
		if err := unlessUnknown(tr.eraser.Delete(ctx, s)); err != nil {
			return err
		}
	}
	var others sync.WaitGroup
	switch how {
	case 1:
		others.Go(func() {
			if err := unlessUnknown(tr.eraser.Delete(ctx, tr.root)); err != nil {
				tr.w.t.Error(err)
			}
		})
	case 2:
		p := tr.stallingProcess()
		eraser, err := retention.NewEraser(p.js, p.store, retention.EraserConfig{})
		if err != nil {
			return err
		}
		dying, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); _ = eraser.Delete(dying, tr.root) }()
		select {
		case <-p.conn.stalled:
		case <-done:
		}
		cancel()
		p.conn.die()
		<-done
		_ = p.workers.Close()
		p.js.Conn().Close()
	}
	err := unlessUnknown(tr.eraser.Delete(ctx, tr.root))
	others.Wait()
	return err
}

func unlessUnknown(err error) error {
	if errors.Is(err, chunk.ErrUnknownSession) {
		return nil
	}
	return err
}

func (tr *tree) fresh() string { return fmt.Sprintf("fresh-%d", tr.n) }

// startAgain starts a run in the deleted session, and perhaps saves it.
func (tr *tree) startAgain(ctx context.Context) error {
	c := control.Command{Kind: control.Execute, Session: tr.root, AgentType: "a0", RunID: "r2", Input: []chunk.InputMessage{{Content: tr.fresh()}}, Issued: time.Now()}
	if err := errors.Join(tr.workers.queue.Request(ctx, c, 0), tr.handleAll(ctx)); err != nil {
		return err
	}
	if tr.random.IntN(2) == 0 {
		return nil
	}
	_, r, err := tr.store.Load(ctx, tr.root)
	if err != nil {
		return err
	}
	snap, err := tr.reader.Snapshot(ctx, tr.root)
	if err == nil {
		_, err = tr.store.Save(ctx, snap, r)
	}
	return err
}

// handleAll handles all commands of the tree.
func (tr *tree) handleAll(ctx context.Context) error {
	for range 10 {
		if len(tr.commands(ctx)) == 0 {
			return nil
		}
		if err := tr.handle(ctx, tr.component, tr.random); err != nil {
			return err
		}
	}
	return fmt.Errorf("commands remain: %v", tr.commands(ctx))
}

// check checks what has started again, and that nothing else exists.
func (tr *tree) check() {
	snap, err := tr.reader.Snapshot(tr.w.t.Context(), tr.root)
	switch {
	case !tr.again && errors.Is(err, chunk.ErrUnknownSession):
	case !tr.again || err != nil || snap.Status != fold.Ended || snap.Faults.Lost > 0 || transcript(snap) != "user: "+tr.fresh()+"\nassistant: Answer to "+tr.fresh():
		tr.w.t.Errorf("tree %d, again %t: %s, %d lost, %v\n%s", tr.n, tr.again, snap.Status, snap.Faults.Lost, err, transcript(snap))
	}
}
