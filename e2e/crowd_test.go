//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge/native"
)

// chatter is sessions in which agents talk all the time, until hush.
type chatter struct {
	reader   *consumers.Reader
	producer *producers.Producer
	voices   []*voice
	quiet    chan struct{} // closed by hush
	hushing  sync.Once
	talking  errgroup.Group
}

// voice is one of the sessions.
type voice struct {
	root chunk.Session
	run  *producers.Run
	more string        // said each time
	at   atomic.Uint64 // sequence of the last thing said that is stored
}

// startChatter opens sessions on the server at url, in each of which something
// is said at every pace. All of them exist when it returns.
func startChatter(t *testing.T, url string, sessions int, pace time.Duration) *chatter {
	t.Helper()
	return startLongChatter(t, url, sessions, pace, 0)
}

// startLongChatter says so many bytes more each time.
func startLongChatter(t *testing.T, url string, sessions int, pace time.Duration, more int) *chatter {
	t.Helper()
	nc := natstest.Connect(t, url)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	c := &chatter{quiet: make(chan struct{})}
	if c.producer, err = producers.New(nc, js, producers.Config{}); err != nil {
		t.Fatal(err)
	}
	if c.reader, err = consumers.New(nc, js, consumers.Config{}); err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		root := chunk.RootSession("default", fmt.Sprintf("s%d", i))
		run, err := c.producer.Start(t.Context(), root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("chatter"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.voices = append(c.voices, &voice{root: root, run: run, more: strings.Repeat(".", more)})
	}
	ctx := context.WithoutCancel(t.Context()) // hush ends it, in the worst case at clean-up
	for i, v := range c.voices {
		c.talking.Go(func() error { return v.talk(ctx, pace, pace*time.Duration(i)/time.Duration(sessions), c.quiet) })
	}
	t.Cleanup(func() { c.hush(t) })
	return c
}

// hush ends all sessions and waits until their ends are stored.
func (c *chatter) hush(t *testing.T) {
	t.Helper()
	c.hushing.Do(func() {
		close(c.quiet)
		if err := errors.Join(c.talking.Wait(), c.producer.Close()); err != nil {
			t.Error(err)
		}
	})
}

// awaitMore waits until something more was said in every session.
func (c *chatter) awaitMore(t *testing.T) {
	t.Helper()
	for _, v := range c.voices {
		now := v.at.Load()
		natstest.Await(t, "more in "+v.root.ID, func(context.Context) error {
			if v.at.Load() == now {
				return errors.New("nothing new")
			}
			return nil
		})
	}
}

// talk says something at every pace, a phase later than others do, and lets a
// sub-agent speak now and then.
func (v *voice) talk(ctx context.Context, pace, phase time.Duration, quiet <-chan struct{}) error {
	tick := time.NewTimer(pace + phase)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			tick.Reset(pace)
		case <-quiet:
			return errors.Join(v.run.End(ctx, chunk.Value(`"done"`)), v.run.Close())
		}
		if err := v.say(ctx, n); err != nil {
			return fmt.Errorf("%s, %d: %w", v.root.ID, n, err)
		}
		pos, err := v.run.Flush(ctx)
		if err != nil {
			return fmt.Errorf("%s, %d: %w", v.root.ID, n, err)
		}
		v.at.Store(uint64(pos.Seq))
	}
}

func (v *voice) say(ctx context.Context, n int) error {
	if n%20 != 0 {
		return v.run.Say(ctx, chunk.TextDelta{Delta: fmt.Sprintf("line %d é\n%s", n, v.more)})
	}
	child, err := v.run.Child(ctx, chunk.SubagentStart{SubAgentType: "helper", CallID: fmt.Sprint(n)}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	return errors.Join(child.Say(ctx, chunk.TextDelta{Delta: "aside"}), v.run.EndChild(ctx, child, chunk.Value(`1`)), child.Close())
}

// log is what a page must have got of a session: what ReplayTree reads, encoded
// one by one, without what only moves the cursor.
func (c *chatter) log(t *testing.T, root chunk.Session) []heard {
	t.Helper()
	var log []heard
	for rec, err := range c.reader.ReplayTree(t.Context(), root, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, data, found := strings.Cut(string(native.Encode(nil, rec, chunk.ScopeTree)), "data: "); found {
			log = append(log, heard{seq: rec.Seq, data: strings.TrimSpace(data)})
		}
	}
	return log
}

// crowd is followers of the sessions of a chatter.
type crowd struct {
	chatter   *chatter
	followers []*follower
	following errgroup.Group
	kept      func(heard) heard // what they keep of an event, nil for all
}

// startCrowd lets n followers come, evenly over the sessions; shape may say more
// about each.
func (c *chatter) startCrowd(t *testing.T, addr string, n int, shape func(i int, f *follower)) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	crowd := &crowd{chatter: c}
	for i := range n {
		f := &follower{addr: addr, root: c.voices[i%len(c.voices)].root}
		if shape != nil {
			shape(i, f)
		}
		crowd.followers = append(crowd.followers, f)
		crowd.following.Go(func() error { return f.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		_ = crowd.following.Wait() // judge told, if the test came that far
	})
	return crowd
}

// awaitAll waits until every follower is where its session is now.
func (c *crowd) awaitAll(t *testing.T) {
	t.Helper()
	tips := make(map[chunk.Session]uint64)
	for _, v := range c.chatter.voices {
		tips[v.root] = v.at.Load()
	}
	natstest.Await(t, "all followers to be where their sessions are", func(context.Context) error {
		for i, f := range c.followers {
			if at := f.at.Load(); at == 0 || at < tips[f.root] {
				return fmt.Errorf("follower %d of %s is at %d, which is at %d", i, f.root.ID, at, tips[f.root])
			}
		}
		return nil
	})
}

// judge ends the sessions, waits until every follower was told that there is
// nothing more, and compares what each got with the log.
func (c *crowd) judge(t *testing.T) {
	t.Helper()
	c.chatter.hush(t)
	done := make(chan error, 1)
	go func() { done <- c.following.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a minute after the end there are followers that were not told")
	}
	logs := make(map[chunk.Session][]heard)
	for _, v := range c.chatter.voices {
		log := c.chatter.log(t, v.root)
		for i := range log {
			if c.kept != nil {
				log[i] = c.kept(log[i])
			}
		}
		logs[v.root] = log
	}
	wrong := 0
	for i, f := range c.followers {
		err := verdict(f.got, logs[f.root])
		if statuses := len(f.statuses); err == nil && (statuses != 2 || f.statuses[http.StatusNoContent] != 1) {
			err = fmt.Errorf("statuses %v, want 200 and one 204", f.statuses)
		}
		if err == nil {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Errorf("follower %d of %s, %v: %v", i, f.root.ID, f.statuses, err)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d followers are wrong", wrong, len(c.followers))
	}
}

// checkSilence wants that no follower for which of is true was without a word
// for longer than most.
func (c *crowd) checkSilence(t *testing.T, most time.Duration, of func(*follower) bool) {
	t.Helper()
	var worst *follower
	for _, f := range c.followers {
		if of(f) && (worst == nil || f.silence > worst.silence) {
			worst = f
		}
	}
	if worst == nil {
		t.Error("there is nobody whose silence could be long")
		return
	}
	t.Logf("the longest silence of %d pages was %s (%s)", c.count(of), worst.silence, worst.quiet)
	if worst.silence > most {
		t.Errorf("a page heard nothing for %s, want %s at most", worst.silence, most)
	}
}

// count is how many followers of is true for.
func (c *crowd) count(of func(*follower) bool) int {
	n := 0
	for _, f := range c.followers {
		if of(f) {
			n++
		}
	}
	return n
}
