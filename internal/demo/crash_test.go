package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
)

// Workers are killed again and again, each after a random number of messages to
// the log: in the middle of a text, between checkpoint and commit, during a
// clean-up, while sub-agents are at work. Whoever comes last finishes, and the
// log then says, word for word, what an uninterrupted run says.
func TestKilledAnywhere(t *testing.T) {
	tests := map[string]struct{ rounds, most int }{
		"subagents": {16, 250},
		"lifecycle": {8, 90},
		"tour":      {3, 1500},
	}
	for scenario, test := range tests {
		t.Run(scenario, func(t *testing.T) {
			whole, h := newHouse(t), newHouse(t)
			for round := range test.rounds {
				seed := rand.Uint64()
				h.maxDelta = round % 2 // merged, and one by one
				c := command(scenario, fmt.Sprint("s", round), "r1")
				if err := whole.worker(t, instantly).Handle(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				kills := h.killUntilDone(t, c, rand.New(rand.NewPCG(seed, 0)), test.most)
				h.sameStory(t, agentOf(t, c, scenario), whole)
				t.Logf("round %d: %d kills, %d records", round, kills, len(h.records(t, c.Session)))
				if t.Failed() {
					t.Fatalf("round %d, seed %d, %d kills", round, seed, kills)
				}
			}
		})
	}
}

// killUntilDone has workers handle c, kills up to five of them, and lets the
// next one finish.
func (h *house) killUntilDone(t *testing.T, c commands.Command, rng *rand.Rand, most int) (kills int) {
	t.Helper()
	for ; kills < 5; kills++ {
		w := h.worker(t, instantly)
		watch := h.srv.Conn(t)
		left := 1 + rng.IntN(most)
		sub, err := watch.Subscribe("tr.chunks.>", func(*nats.Msg) {
			if left--; left == 0 {
				w.kill()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.Flush(); err != nil {
			t.Fatal(err)
		}
		err = w.Handle(background(t), c)
		if stop := sub.Unsubscribe(); stop != nil {
			t.Fatal(stop)
		}
		if err == nil {
			return kills
		}
		if !w.nc.IsClosed() {
			t.Fatalf("a worker that was not killed: %v", err)
		}
	}
	if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
		t.Fatalf("the last worker: %v", err)
	}
	return kills
}

// A worker that was only asleep wakes up beside its successor: it is fenced, its
// sub-agents too, and nothing of it lands.
func TestSleeperIsFenced(t *testing.T) {
	h := newHouse(t)
	c := command("subagents", "s1", "r1")
	for _, asleepAfter := range []int{3, 40, 90, 140} {
		c.Session = chunk.RootSession("acme", fmt.Sprint("s", asleepAfter))
		asleep, wake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var mu sync.Mutex
		acts := 0
		sleeper := h.worker(t, func(ctx context.Context, _ time.Duration) error {
			mu.Lock()
			acts++
			sleep := acts >= asleepAfter
			mu.Unlock()
			if sleep {
				once.Do(func() { close(asleep) })
				<-wake
			}
			return ctx.Err()
		})
		woken := make(chan error, 1)
		go func() { woken <- sleeper.Handle(background(t), c) }()
		<-asleep
		if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatalf("the successor: %v", err)
		}
		before := len(h.records(t, c.Session))
		close(wake)
		if err := <-woken; !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("the sleeper: %v, want ErrFenced", err)
		}
		if after := len(h.records(t, c.Session)); after != before {
			t.Errorf("the session grew from %d to %d records", before, after)
		}
		whole := newHouse(t)
		if err := whole.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		h.sameStory(t, agentOf(t, c, "subagents"), whole)
	}
}

// Several workers get the same command at the same time. Each finishes it or
// finds that another one has it; whoever tries again in the end, the story is told once.
func TestAllAtOnce(t *testing.T) {
	h, whole := newHouse(t), newHouse(t)
	for round := range 6 {
		c := command("subagents", fmt.Sprint("s", round), "r1")
		var all sync.WaitGroup
		for range 4 {
			w := h.worker(t, instantly)
			all.Go(func() {
				if err := w.Handle(background(t), c); err != nil && !errors.Is(err, chunk.ErrFenced) && !errors.Is(err, chunk.ErrTruncated) {
					t.Errorf("err = %v", err)
				}
			})
		}
		all.Wait()
		if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := whole.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		h.sameStory(t, agentOf(t, c, "subagents"), whole)
	}
}

// Readers are told what was taken back: the mark of a clean-up, and a
// stream_resync that names the checkpoint, when there was one to go back to.
func TestResyncAfterTakeover(t *testing.T) {
	h := newHouse(t)
	for died, wantResyncs := range []int{0, 1} { // in step 1, in step 2
		c := command("thinking", fmt.Sprint("s", died), "r1")
		if err := h.worker(t, h.dieInStep(t, c.Session, int64(died+1))).Handle(t.Context(), c); !errors.Is(err, errDied) {
			t.Fatalf("err = %v", err)
		}
		if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		marks, resyncs := 0, 0
		committed := chunk.Seq(0)
		for _, rec := range h.records(t, c.Session) {
			ch, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			switch b := ch.Body.(type) {
			case chunk.Truncated:
				marks++
			case chunk.StepCommitted:
				if resyncs == 0 {
					committed = rec.Seq
				}
			case chunk.StreamResync:
				resyncs++
				agent := agentOf(t, c, "thinking")
				want := chunk.StreamResync{CheckpointID: agent.CheckpointID(1), StepCount: 1, MessageCount: 2, FromSequence: int64(committed), Reason: "crash_recovery"}
				if b != want {
					t.Errorf("resync %+v, want %+v", b, want)
				}
			}
		}
		if marks != 1 || resyncs != wantResyncs {
			t.Errorf("died in step %d: %d marks, %d resyncs, want 1 and %d", died+1, marks, resyncs, wantResyncs)
		}
	}
}

// dieInStep is a Pace under which a worker stops once the log has something of
// the step that is no frame around it.
func (h *house) dieInStep(t *testing.T, s chunk.Session, step int64) Pace {
	t.Helper()
	return func(ctx context.Context, _ time.Duration) error {
		rec, err := h.log.Last(ctx, s)
		if err != nil {
			return err
		}
		c, err := rec.Decode()
		if err != nil {
			return err
		}
		if c.Step == step && (rec.Type == chunk.TypeThinking || rec.Type == chunk.TypeTextDelta) {
			return errDied
		}
		return nil
	}
}
