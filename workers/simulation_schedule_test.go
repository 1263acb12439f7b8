package workers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// schedule is one conversation and the sequence of all calls of its processes. One goroutine decides: it
// continues one process at a time, up to its next call of the server.
type schedule struct {
	x           *simulation
	random      *rand.Rand
	scenario    scenario
	root        chunk.Session
	sideEffects sideEffects

	active  []*simProcess // wait before a call
	crashed []*simProcess
	n       int // number of processes so far

	queued    []queuedCommand   // commands on the queue, not acknowledged
	deadlines []control.Command // scheduled Expire commands
	sessions  []control.Command // the first command of each

	crashRequests bool // requests of users crash as well
	stopRequests  bool // users stop runs
	steers        bool // users send messages that steer
	faultsEnabled bool // connections may break
	stopped       bool

	// ownerless: the queue accepts the acknowledgement of an early Resume from worker A, which read the answers before the last one
	// was stored, although it was also delivered to worker B. If worker B resumes the run and crashes, only the sweep finds the run.
	ownerless        bool
	requesterCrashed bool // a request of a user crashed
	messagesSent     int  // user messages sent instead of answers

	mu     sync.Mutex // guards the fields below
	lines  []string
	names  map[string]string
	counts map[string]int
}

// queuedCommand is a command on the queue.
type queuedCommand struct {
	control.Command

	at control.Revision // 0 for a deadline
}

func (t *schedule) logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// name returns the short name of a session or a run in the trace.
func (t *schedule) name(s chunk.Session, run string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	short := func(key, prefix, group string) string {
		if t.names[key] == "" {
			t.names[key] = fmt.Sprint(prefix, t.counts[group])
			t.counts[group]++
		}
		return t.names[key]
	}
	name := short(s.ID, "s", "")
	if run != "" {
		name += "/" + short(s.ID+" "+run, "r", s.ID)
	}
	return name
}

// recordQueued records the command that a request has put on the queue.
func (t *schedule) recordQueued(requested control.Command) {
	ctx := context.Background()
	c, at, err := t.x.w.Queue.Pending(ctx, requested.Session, requested.AgentType)
	if errors.Is(err, control.ErrNoCommand) || slices.ContainsFunc(t.queued, func(p queuedCommand) bool { return p.at == at }) {
		return
	}
	if err != nil {
		t.x.w.t.Errorf("pending command: %v", err)
		return
	}
	t.queued = append(t.queued, queuedCommand{c, at})
	if !slices.ContainsFunc(t.sessions, func(known control.Command) bool { return known.Session == c.Session }) {
		t.sessions = append(t.sessions, c)
	}
}

func (t *schedule) addDeadline(c control.Command) {
	same := func(d control.Command) bool {
		return d.Session == c.Session && d.RunID == c.RunID && d.Deadline.Equal(c.Deadline)
	}
	if !slices.ContainsFunc(t.deadlines, same) {
		t.deadlines = append(t.deadlines, c)
	}
}

// ack removes a command from the queue, for process a.
func (t *schedule) ack(p queuedCommand, a *simProcess) {
	if p.at == 0 {
		t.deadlines = slices.DeleteFunc(t.deadlines, func(d control.Command) bool {
			return d.Session == p.Session && d.RunID == p.RunID && d.Deadline.Equal(p.Deadline)
		})
		return
	}
	at := slices.IndexFunc(t.queued, func(q queuedCommand) bool { return q.at == p.at })
	if at < 0 {
		return // acknowledged by another worker
	}
	if p.Kind == control.Resume {
		snap, err := t.x.w.Reader.Snapshot(context.Background(), p.Session)
		resumed := err == nil && snap.Run.ID == p.RunID && snap.Run.Status == fold.RunRunning
		t.ownerless = t.ownerless || resumed || slices.ContainsFunc(t.active, func(b *simProcess) bool { return b != a && b.delivery == p.at })
	}
	t.queued = slices.Delete(t.queued, at, at+1)
	if err := t.x.stream.DeleteMsg(context.Background(), uint64(p.at)); err != nil {
		t.x.w.t.Errorf("acknowledge: %v", err)
	}
}

// start starts a process and waits for its first call.
func (t *schedule) start(name string, do func(a *simProcess)) *simProcess {
	t.n++
	ctx, stop := context.WithCancel(context.Background())
	a := &simProcess{
		t: t, name: fmt.Sprintf("%s %d", name, t.n), ctx: ctx, stop: stop,
		calls: make(chan serverCall, 8), done: make(chan struct{}), disconnected: make(chan struct{}),
	}
	t.active = append(t.active, a)
	go func() {
		defer close(a.done)
		do(a)
	}()
	t.awaitCall(a)
	return a
}

// awaitCall waits until a process is before its next call or has ended.
func (t *schedule) awaitCall(a *simProcess) {
	select {
	case q := <-a.calls:
		a.at = &q
		return
	case <-a.done:
	case <-time.After(time.Minute):
		t.x.w.t.Errorf("%s does not end\n%s", a.name, t.trace())
	}
	a.stop()
	t.active = slices.DeleteFunc(t.active, func(b *simProcess) bool { return a == b })
}

// step continues a process with its call.
func (t *schedule) step(a *simProcess, v callFault) {
	t.logf("%s: %s%s", a.name, a.at.what, [...]string{"", " (fails)", " (response lost)", ""}[v])
	a.at.reply <- v
	a.at = nil
	t.awaitCall(a)
}

// finish continues a process until it ends.
func (t *schedule) finish(a *simProcess) {
	for slices.Contains(t.active, a) {
		t.step(a, noFault)
	}
}

// until continues a process until its n-th call with the given text.
func (t *schedule) until(a *simProcess, n int, what string) {
	t.x.w.t.Helper()
	for slices.Contains(t.active, a) {
		if a.at.what == what {
			if n--; n == 0 {
				return
			}
		}
		t.step(a, noFault)
	}
	t.x.w.t.Fatalf("%s: no call %s\n%s", a.name, what, t.trace())
}

// kill crashes a process before its current call. Its writes are in the log; its goroutine ends with the
// schedule.
func (t *schedule) kill(a *simProcess) {
	t.logf("%s crashes before: %s", a.name, a.at.what)
	t.requesterCrashed = t.requesterCrashed || a.isRequest
	t.active = slices.DeleteFunc(t.active, func(b *simProcess) bool { return a == b })
	t.crashed = append(t.crashed, a)
}

// deliver delivers a command to a worker.
func (t *schedule) deliver(p queuedCommand) *simProcess {
	how, w, cut := "", t.x.stable, (*faultyConn)(nil)
	if t.withFaults() && t.faultsEnabled && t.chance(6) {
		w, cut = t.x.failingWorkers(1 + t.random.IntN(12))
		how = fmt.Sprintf(", connection closed at record %d", cut.left)
	}
	t.logf("%s of %s at %d delivered to worker %d%s", p.Kind, t.name(p.Session, p.RunID), p.at, t.n+1, how)
	worker := t.start("worker", func(a *simProcess) {
		if cut != nil {
			defer func() {
				cut.nc.Close()
				_ = w.Close()
			}()
			go func() {
				select {
				case <-cut.broken:
					a.disconnect()
				case <-a.done:
				}
			}()
		}
		own := a.controlled(w)
		own.cfg.Agents = t.scenario.agents(&t.sideEffects, func(what string) { a.wait("agent: " + what) })
		a.serve(own, p)
	})
	worker.delivery = p.at
	return worker
}

// serve does what jscontrol.Queue.Serve does with a delivery.
func (a *simProcess) serve(w *Workers, p queuedCommand) {
	err := w.handle(a.ctx, p.Command)
	done, more := errors.AsType[control.AfterAck](err)
	if err != nil && !more {
		a.t.logf("%s: command not acknowledged: %v", a.name, err)
		return
	}
	if err := a.try("acknowledge", func() error { a.t.ack(p, a); return nil }); err != nil || done.Func == nil {
		return
	}
	if err := done.Func(a.ctx); err != nil {
		a.t.logf("%s: after the acknowledgement: %v", a.name, err)
	}
}

func (t *schedule) withFaults() bool { return t.random != nil }

// chance returns true with probability 1/n.
func (t *schedule) chance(n int) bool { return t.random.IntN(n) == 0 }

// pick returns a random element of list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

var messageModes = []string{"", `"mode":"queue",`, `"mode":"steer",`}

// injectFaults runs a random sequence of deliveries, requests and faults.
func (t *schedule) injectFaults() {
	for range 10 + t.random.IntN(60) {
		switch n := t.random.IntN(20); {
		case n < 12 && len(t.active) > 0:
			t.advance(pick(t.random, t.active))
		case n < 16 && len(t.active) < 4 && len(t.queued)+len(t.deadlines) > 0:
			t.deliver(t.anyCommand())
		case n < 19 && len(t.active) < 4:
			if open := t.openQuestions(); len(open) > 0 {
				switch q := pick(t.random, open); {
				case t.chance(12):
					t.resumeEarly(q)
				case t.stopRequests && t.chance(6):
					t.sendMessage(pick(t.random, messageModes))
				default:
					t.answer(q)
				}
			} else if len(t.queued) > 0 {
				t.deliver(t.anyCommand())
			} else if len(t.active) == 0 && len(t.deadlines) == 0 {
				return // everything has ended
			}
		case n == 19 && t.stopRequests && len(t.active) < 4 && t.chance(4):
			t.stop()
		case n == 19 && t.steers && len(t.active) < 4:
			t.sendMessage(messageModes[2])
		case n == 19 && t.chance(4):
			t.inspect()
		}
	}
}

// advance continues a process for some calls, with random faults.
func (t *schedule) advance(a *simProcess) {
	for range 1 + t.random.IntN(12) {
		if !slices.Contains(t.active, a) {
			return
		}
		ack := a.at.what == "acknowledge"
		switch n := t.random.IntN(100); {
		case a.isRequest && (n > 3 || !t.crashRequests), n >= 14 && (!ack || n >= 30):
			t.step(a, noFault)
		case n < 4 || ack && n < 25:
			t.kill(a)
			return
		case a.isRequest:
			t.step(a, noFault)
		case n < 8:
			t.step(a, failCall)
		case n < 12:
			t.step(a, loseResponse)
		default:
			t.logf("%s shuts down", a.name)
			a.stop()
		}
	}
}

// anyCommand returns a random command or deadline.
func (t *schedule) anyCommand() queuedCommand {
	n := t.random.IntN(len(t.queued) + len(t.deadlines))
	if n < len(t.queued) {
		return t.queued[n]
	}
	return queuedCommand{Command: t.deadlines[n-len(t.queued)]}
}

// drain continues without faults until everything has ended.
func (t *schedule) drain() error {
	var frozen []*simProcess // continue after everything has ended
	for _, a := range slices.Clone(t.active) {
		if t.withFaults() && !a.isRequest && t.chance(3) {
			frozen = append(frozen, a)
			continue
		}
		t.finish(a)
	}
	inspected, swept := !t.requesterCrashed, false
	// Some pending calls are left to their deadline.
	late := t.withFaults() && t.chance(2)
	for i := range 400 {
		if t.ownerless && i%20 == 19 {
			t.finish(t.sweep()) // a command may wait for the end of the run without an owner
		}
		if len(t.queued) > 0 {
			at := 0
			if t.withFaults() {
				at = t.random.IntN(len(t.queued))
			}
			t.finish(t.deliver(t.queued[at]))
			continue
		}
		open := t.openQuestions()
		if late {
			open = slices.DeleteFunc(open, func(q question) bool { return q.Deadline > 0 })
		}
		switch {
		case len(open) > 0:
			t.finish(t.answer(open[0]))
		case !inspected:
			t.finish(t.inspect())
			inspected = len(t.queued) == 0
		case t.awaitsMessage():
			t.finish(t.sendMessage("")) // the user whose message was rejected sends it again
		case len(t.deadlines) > 0:
			t.finish(t.deliver(queuedCommand{Command: t.deadlines[0]}))
		case len(frozen) > 0:
			t.logf("-- %s is unfrozen --", frozen[0].name)
			t.finish(frozen[0])
			frozen = frozen[1:]
		case !swept:
			t.finish(t.sweep())
			swept = len(t.queued) == 0
		default:
			return t.checkEnded()
		}
	}
	return errors.New("schedule does not end")
}

// sweep inspects sessions as the hourly sweep does: a worker that crashes after an acknowledgement may have been the last
// process to look at the session.
func (t *schedule) sweep() *simProcess {
	return t.start("sweep", func(a *simProcess) {
		w := a.controlled(t.x.stable)
		for _, c := range slices.Clone(t.sessions) {
			err := w.sweepSuspended(a.ctx, c.Session)
			if err == nil && t.ownerless {
				reaper := &Reaper{cfg: ReaperConfig{RunTimeout: 1}.withDefaults(), open: func() (*Workers, func(), error) { return w, func() {}, nil }}
				_, err = reaper.Abandon(a.ctx, c.Session, false)
			}
			if err != nil {
				t.x.w.t.Errorf("sweep: %v", err)
			}
		}
	})
}

// awaitsMessage reports whether calls were abandoned for a message that was then not accepted.
func (t *schedule) awaitsMessage() bool {
	snap, err := t.x.w.Reader.Snapshot(context.Background(), t.root)
	if err != nil || snap.Run.Status != fold.RunSuspended {
		return false
	}
	answers, err := t.x.w.Inbox.Answers(context.Background(), t.root, snap.Run.ID)
	if err != nil {
		t.x.w.t.Errorf("read answers: %v", err)
	}
	return slices.ContainsFunc(answers, func(a control.Answer) bool { return a.AwaitsMessage(time.Now()) })
}

// question is a pending call of a user.
type question struct {
	fold.PendingCall

	s chunk.Session
}

// openQuestions returns the pending calls without an answer.
func (t *schedule) openQuestions() []question {
	var open []question
	for _, c := range t.sessions {
		snap, err := t.x.w.Reader.Snapshot(context.Background(), c.Session)
		if err != nil || snap.Run.Status != fold.RunSuspended || len(snap.Pending) == 0 {
			continue
		}
		answers, err := t.x.w.Inbox.Answers(context.Background(), c.Session, snap.Run.ID)
		if err != nil {
			t.x.w.t.Errorf("read answers: %v", err)
		}
		for _, p := range snap.Pending {
			if !slices.ContainsFunc(answers, func(a control.Answer) bool { return a.CallID == p.CallID }) {
				open = append(open, question{p, c.Session})
			}
		}
	}
	return open
}

// checkEnded reports sessions that have not ended, failures and faults.
func (t *schedule) checkEnded() error {
	var wrong []error
	for _, c := range t.sessions {
		snap, err := t.x.w.Reader.Snapshot(context.Background(), c.Session)
		if t.stopped && !c.Session.IsRoot() && errors.Is(err, chunk.ErrUnknownSession) {
			continue // its parent was stopped before it began
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		name := t.name(c.Session, snap.Run.ID)
		interrupted := t.stopped && snap.Run.Status == fold.RunInterrupted
		if snap.Status != fold.Ended && snap.Status != fold.Failed && !interrupted || len(snap.OpenCalls()) > 0 {
			wrong = append(wrong, fmt.Errorf("%s is %s, its run is %s, %d calls have no outcome", name, snap.Status, snap.Run.Status, len(snap.OpenCalls())))
		}
		if snap.Status == fold.Failed && !t.stopped && !t.ownerless {
			wrong = append(wrong, fmt.Errorf("%s failed: %s", name, snap.Failure.Message))
		}
		if last, err := t.x.stable.last.Last(context.Background(), c.Session); err != nil || !last.Type.Terminal() {
			wrong = append(wrong, fmt.Errorf("the log of %s ends with %q: %w", name, last.Type, errors.Join(err, errors.New("want a terminal record"))))
		}
		if c.Session.IsRoot() {
			wrong = append(wrong, t.checkMessages(snap))
		}
		if f := snap.Faults; f.Skipped+f.RejectedPatches+f.RejectedPieces+f.Lost > 0 {
			wrong = append(wrong, fmt.Errorf("%s has faults: %+v", name, snap.Faults))
		}
	}
	return errors.Join(wrong...)
}

// checkMessages reports messages that began two runs, and those that still wait. The latter may be of a request that crashed, which the hourly sweep starts.
func (t *schedule) checkMessages(snap fold.Snapshot) error {
	begun := make(map[string]bool)
	for _, in := range snap.Inputs() {
		if begun[in.Message.Content] {
			return fmt.Errorf("%q began two runs", in.Message.Content)
		}
		begun[in.Message.Content] = true
	}
	all, err := t.x.w.Inbox.Queued(context.Background(), t.root)
	for _, q := range all {
		if q.Open() && !t.requesterCrashed {
			return fmt.Errorf("the message %q is %s", q.Command.Input[0].Content, q.State)
		}
	}
	return err
}

// trace returns everything that has happened.
func (t *schedule) trace() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
