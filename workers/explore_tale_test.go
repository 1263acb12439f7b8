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
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// A tale is one conversation, and all that happens to those who work on it. One
// goroutine decides: it lets one actor go on at a time, up to its next word with
// the server.
type tale struct {
	x      *explorer
	random *rand.Rand
	plot   plot
	root   chunk.Session
	deeds  deeds

	live []*actor // stand before a word
	dead []*actor
	n    int // actors so far

	waiting   []placed           // on the queue, not acknowledged
	deadlines []commands.Command // that the clock will send
	sessions  []commands.Command // the first command of each

	deaths  bool // people die as well
	stops   bool // people stop runs
	brave   bool // what may break, breaks
	stopped bool
	died    bool // somebody did who had said something
	spoken  int  // how often people have said something else

	mu     sync.Mutex // guards the fields below
	lines  []string
	names  map[string]string
	counts map[string]int
}

// placed is a command on the queue.
type placed struct {
	commands.Command

	at commands.Revision // 0 for a deadline
}

func (t *tale) sayf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// name is what the account of a tale calls a run, or a session.
func (t *tale) name(s chunk.Session, run string) string {
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

// note finds out what a request has left on the queue.
func (t *tale) note(asked commands.Command) {
	ctx := context.Background()
	c, at, err := t.x.w.queue.Pending(ctx, asked.Session, asked.AgentType)
	if errors.Is(err, commands.ErrNone) || slices.ContainsFunc(t.waiting, func(p placed) bool { return p.at == at }) {
		return
	}
	if err != nil {
		t.x.w.t.Errorf("what is on the queue: %v", err)
		return
	}
	t.waiting = append(t.waiting, placed{c, at})
	if !slices.ContainsFunc(t.sessions, func(known commands.Command) bool { return known.Session == c.Session }) {
		t.sessions = append(t.sessions, c)
	}
}

func (t *tale) due(c commands.Command) {
	same := func(d commands.Command) bool {
		return d.Session == c.Session && d.RunID == c.RunID && d.Deadline.Equal(c.Deadline)
	}
	if !slices.ContainsFunc(t.deadlines, same) {
		t.deadlines = append(t.deadlines, c)
	}
}

// done takes a command off the queue.
func (t *tale) done(p placed) {
	if p.at == 0 {
		t.deadlines = slices.DeleteFunc(t.deadlines, func(d commands.Command) bool {
			return d.Session == p.Session && d.RunID == p.RunID && d.Deadline.Equal(p.Deadline)
		})
		return
	}
	at := slices.IndexFunc(t.waiting, func(q placed) bool { return q.at == p.at })
	if at < 0 {
		return // another worker has
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	if err := t.x.stream.DeleteMsg(context.Background(), uint64(p.at)); err != nil {
		t.x.w.t.Errorf("acknowledge: %v", err)
	}
}

// actor starts somebody, and brings him to his first word.
func (t *tale) actor(name string, do func(a *actor)) *actor {
	t.n++
	ctx, stop := context.WithCancel(context.Background())
	a := &actor{
		t: t, name: fmt.Sprintf("%s %d", name, t.n), ctx: ctx, stop: stop,
		asks: make(chan ask, 8), over: make(chan struct{}), gone: make(chan struct{}),
	}
	t.live = append(t.live, a)
	go func() {
		defer close(a.over)
		do(a)
	}()
	t.settle(a)
	return a
}

// settle waits until an actor stands before its next word, or is done.
func (t *tale) settle(a *actor) {
	select {
	case q := <-a.asks:
		a.at = &q
		return
	case <-a.over:
	case <-time.After(time.Minute):
		t.x.w.t.Errorf("%s does not come to an end\n%s", a.name, t.account())
	}
	a.stop()
	t.live = slices.DeleteFunc(t.live, func(b *actor) bool { return a == b })
}

// step lets an actor have its word.
func (t *tale) step(a *actor, v verdict) {
	t.sayf("%s: %s%s", a.name, a.at.what, [...]string{"", " (fails)", " (is done, and fails)", ""}[v])
	a.at.reply <- v
	a.at = nil
	t.settle(a)
}

// finish lets an actor come to its end.
func (t *tale) finish(a *actor) {
	for slices.Contains(t.live, a) {
		t.step(a, pass)
	}
}

// until lets an actor go on until it is about to do something, for the n-th time.
func (t *tale) until(a *actor, n int, what string) {
	t.x.w.t.Helper()
	for slices.Contains(t.live, a) {
		if a.at.what == what {
			if n--; n == 0 {
				return
			}
		}
		t.step(a, pass)
	}
	t.x.w.t.Fatalf("%s never came to: %s\n%s", a.name, what, t.account())
}

// kill ends an actor where it stands. What it has written is in the log; it is
// released when the tale is over.
func (t *tale) kill(a *actor) {
	t.sayf("%s dies before it can: %s", a.name, a.at.what)
	t.died = t.died || a.person
	t.live = slices.DeleteFunc(t.live, func(b *actor) bool { return a == b })
	t.dead = append(t.dead, a)
}

// deliver gives a command to a worker.
func (t *tale) deliver(p placed) *actor {
	how, w, cut := "", t.x.steady, (*cutter)(nil)
	if t.hostile() && t.brave && t.chance(6) {
		w, cut = t.x.frail(1 + t.random.IntN(12))
		how = fmt.Sprintf(", which is cut off at record %d", cut.left)
	}
	t.sayf("%s of %s at %d is given to worker %d%s", p.Kind, t.name(p.Session, p.RunID), p.at, t.n+1, how)
	return t.actor("worker", func(a *actor) {
		if cut != nil {
			defer func() {
				cut.nc.Close()
				_ = w.Close()
			}()
			go func() {
				select {
				case <-cut.over:
					a.leave()
				case <-a.over:
				}
			}()
		}
		own := a.servant(w)
		own.cfg.Agents = t.plot.agents(&t.deeds, func(what string) { a.wait("agent: " + what) })
		a.serve(own, p)
	})
}

// serve does what commands.Queue.Serve does with a delivery.
func (a *actor) serve(w *Workers, p placed) {
	err := w.Handle(a.ctx, p.Command)
	done, more := errors.AsType[commands.Done](err)
	if err != nil && !more {
		a.t.sayf("%s: the command stays: %v", a.name, err)
		return
	}
	if err := a.try("acknowledge", func() error { a.t.done(p); return nil }); err != nil || done.After == nil {
		return
	}
	if err := done.After(a.ctx); err != nil {
		a.t.sayf("%s: what was to follow: %v", a.name, err)
	}
}

func (t *tale) hostile() bool { return t.random != nil }

// chance is true once in n times.
func (t *tale) chance(n int) bool { return t.random.IntN(n) == 0 }

// pick is any of a list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// trouble is some time in which everything may happen to everybody.
func (t *tale) trouble() {
	for range 10 + t.random.IntN(60) {
		switch n := t.random.IntN(20); {
		case n < 12 && len(t.live) > 0:
			t.goOn(pick(t.random, t.live))
		case n < 16 && len(t.live) < 4 && len(t.waiting)+len(t.deadlines) > 0:
			t.deliver(t.any())
		case n < 19 && len(t.live) < 4:
			if open := t.open(); len(open) > 0 {
				switch q := pick(t.random, open); {
				case t.chance(12):
					t.hurry(q)
				case t.stops && t.chance(6):
					t.speak()
				default:
					t.answer(q)
				}
			} else if len(t.waiting) > 0 {
				t.deliver(t.any())
			} else if len(t.live) == 0 && len(t.deadlines) == 0 {
				return // all is over
			}
		case n == 19 && t.stops && len(t.live) < 4 && t.chance(4):
			t.stop()
		case n == 19 && t.chance(4):
			t.look()
		}
	}
}

// goOn lets somebody have some words, or meet with trouble.
func (t *tale) goOn(a *actor) {
	for range 1 + t.random.IntN(12) {
		if !slices.Contains(t.live, a) {
			return
		}
		ack := a.at.what == "acknowledge"
		switch n := t.random.IntN(100); {
		case a.person && (n > 3 || !t.deaths), n >= 14 && (!ack || n >= 30):
			t.step(a, pass)
		case n < 4 || ack && n < 25:
			t.kill(a)
			return
		case a.person:
			t.step(a, pass)
		case n < 8:
			t.step(a, fail)
		case n < 12:
			t.step(a, lose)
		default:
			t.sayf("%s is told to stop", a.name)
			a.stop()
		}
	}
}

// any is any command that may be given to somebody.
func (t *tale) any() placed {
	n := t.random.IntN(len(t.waiting) + len(t.deadlines))
	if n < len(t.waiting) {
		return t.waiting[n]
	}
	return placed{Command: t.deadlines[n-len(t.waiting)]}
}

// calm is what follows when nobody dies any more, and all comes to an end.
func (t *tale) calm() error {
	var asleep []*actor // until all is over
	for _, a := range slices.Clone(t.live) {
		if t.hostile() && !a.person && t.chance(3) {
			asleep = append(asleep, a)
			continue
		}
		t.finish(a)
	}
	looked := !t.died
	// Somebody may leave it to the clock to answer.
	late := t.hostile() && t.chance(2)
	for range 400 {
		if len(t.waiting) > 0 {
			at := 0
			if t.hostile() {
				at = t.random.IntN(len(t.waiting))
			}
			t.finish(t.deliver(t.waiting[at]))
			continue
		}
		open := t.open()
		if late {
			open = slices.DeleteFunc(open, func(q question) bool { return q.Deadline > 0 })
		}
		switch {
		case len(open) > 0:
			t.finish(t.answer(open[0]))
		case !looked:
			t.finish(t.look())
			looked = len(t.waiting) == 0
		case len(t.deadlines) > 0:
			t.finish(t.deliver(placed{Command: t.deadlines[0]}))
		case len(asleep) > 0:
			t.sayf("-- and now %s wakes up --", asleep[0].name)
			t.finish(asleep[0])
			asleep = asleep[1:]
		default:
			return t.over()
		}
	}
	return errors.New("it does not come to an end")
}

// question is what a session asks a person.
type question struct {
	fold.Pending

	s chunk.Session
}

// open are the questions that nobody has answered.
func (t *tale) open() []question {
	var open []question
	for _, c := range t.sessions {
		snap, err := t.x.w.reader.Snapshot(context.Background(), c.Session)
		if err != nil || snap.Run.Status != fold.RunSuspended || len(snap.Pending) == 0 {
			continue
		}
		answers, err := t.x.w.inbox.Answers(context.Background(), c.Session, snap.Run.ID)
		if err != nil {
			t.x.w.t.Errorf("read answers: %v", err)
		}
		for _, p := range snap.Pending {
			if !slices.ContainsFunc(answers, func(a inbox.Answer) bool { return a.CallID == p.CallID }) {
				open = append(open, question{p, c.Session})
			}
		}
	}
	return open
}

// over reports what is not over.
func (t *tale) over() error {
	var wrong []error
	for _, c := range t.sessions {
		snap, err := t.x.w.reader.Snapshot(context.Background(), c.Session)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		name := t.name(c.Session, snap.Run.ID)
		interrupted := t.stopped && snap.Run.Status == fold.RunInterrupted
		if snap.Status != fold.Ended && snap.Status != fold.Failed && !interrupted || len(snap.Unsettled()) > 0 {
			wrong = append(wrong, fmt.Errorf("%s is %s, its run is %s, %d calls have no outcome", name, snap.Status, snap.Run.Status, len(snap.Unsettled())))
		}
		if snap.Status == fold.Failed && !t.stopped {
			wrong = append(wrong, fmt.Errorf("%s failed: %s", name, snap.Failure.Message))
		}
		if last, err := t.x.steady.last.Last(context.Background(), c.Session); err != nil || !last.Type.Terminal() {
			wrong = append(wrong, fmt.Errorf("the log of %s ends with %q: %w", name, last.Type, errors.Join(err, errors.New("want an end"))))
		}
		if f := snap.Faults; f.Skipped+f.Patches+f.Streams+f.Lost > 0 {
			wrong = append(wrong, fmt.Errorf("%s has faults: %+v", name, snap.Faults))
		}
	}
	return errors.Join(wrong...)
}

// account is all that has happened.
func (t *tale) account() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
