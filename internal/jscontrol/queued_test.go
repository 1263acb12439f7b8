package jscontrol

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

func queuedMessage(run, text string) control.Queued {
	return control.Queued{State: control.QueuedWaiting, Command: control.Command{
		Kind: control.Execute, Mode: control.ModeQueued, Session: chunk.RootSession("acme", "s1"), AgentType: "support", RunID: run,
		Input: []chunk.InputMessage{{Content: text}}, Issued: time.UnixMilli(1700000000123),
	}}
}

// Two processes accept messages of one session at the same time: as many are stored as may wait, and their bytes are bounded as well.
func TestQueueIsBoundedAcrossProcesses(t *testing.T) {
	for name, row := range map[string]struct{ bytes, want int }{
		"their number": {1, control.MaxQueued},
		"their bytes":  {control.MaxQueuedBytes/4 + 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := streamtest.Start(t)
			boxes := []*Inbox{newInbox(t, server.JetStream(t), InboxConfig{}), newInbox(t, server.JetStream(t), InboxConfig{})}
			text := strings.Repeat("x", row.bytes)
			var stored atomic.Int64
			var all sync.WaitGroup
			for n := range 2*row.want + 2 {
				all.Go(func() {
					switch err := boxes[n%2].Enqueue(t.Context(), queuedMessage(fmt.Sprint("r", n), text)); {
					case err == nil:
						stored.Add(1)
					case !errors.Is(err, control.ErrQueueFull):
						t.Error(err)
					}
				})
			}
			all.Wait()
			got, err := boxes[0].Queued(t.Context(), chunk.RootSession("acme", "s1"))
			if err != nil || len(got) != row.want || int(stored.Load()) != row.want {
				t.Errorf("%d are stored and %d acknowledged, want %d; %v", len(got), stored.Load(), row.want, err)
			}
		})
	}
}

// Two processes store the same message: it waits once, also after it has started.
func TestQueuedOnce(t *testing.T) {
	server := streamtest.Start(t)
	boxes := []*Inbox{newInbox(t, server.JetStream(t), InboxConfig{}), newInbox(t, server.JetStream(t), InboxConfig{})}
	s := chunk.RootSession("acme", "s1")
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			if err := boxes[n%2].Enqueue(t.Context(), queuedMessage("r1", "again")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := boxes[0].SetQueued(t.Context(), s, "r1", control.QueuedStarted); err != nil {
		t.Fatal(err)
	}
	if err := boxes[1].Enqueue(t.Context(), queuedMessage("r1", "again")); err != nil {
		t.Fatal(err)
	}
	if got, err := boxes[0].Queued(t.Context(), s); err != nil || len(got) != 1 || got[0].State != control.QueuedStarted {
		t.Errorf("stored: %+v, %v", got, err)
	}
}

// Of a start and a withdrawal at the same time exactly one happens, and each process learns which. After the deletion of the session neither does.
func TestStartRacesWithdrawal(t *testing.T) {
	server := streamtest.Start(t)
	b, other := newInbox(t, server.JetStream(t), InboxConfig{}), newInbox(t, server.JetStream(t), InboxConfig{})
	for n := range 16 {
		m := queuedMessage("r1", "hello")
		m.Command.Session = chunk.RootSession("acme", fmt.Sprint("s", n))
		s := m.Command.Session
		if err := b.Enqueue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var started, withdrawn error
		var both sync.WaitGroup
		both.Go(func() { started = b.SetQueued(t.Context(), s, "r1", control.QueuedTaken) })
		both.Go(func() { withdrawn = other.SetQueued(t.Context(), s, "r1", control.QueuedWithdrawn) })
		both.Wait()
		if (started == nil) == (withdrawn == nil) || started != nil && !errors.Is(started, control.ErrNotQueued) || withdrawn != nil && !errors.Is(withdrawn, control.ErrNotQueued) {
			t.Errorf("started: %v, withdrawn: %v", started, withdrawn)
		}
		want := control.QueuedTaken
		if withdrawn == nil {
			want = control.QueuedWithdrawn
		}
		if got, err := b.Queued(t.Context(), s); err != nil || len(got) != 1 || got[0].State != want {
			t.Errorf("stored: %+v, %v, want %s", got, err, want)
		}
		if err := b.DeleteQueued(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := b.SetQueued(t.Context(), s, "r1", control.QueuedStarted); !errors.Is(err, control.ErrNotQueued) {
			t.Errorf("started after the deletion: %v", err)
		}
	}
}

// A client that sends and withdraws messages in a loop fills a bounded place: each request of the chat, and each end of a run, reads all of them.
func TestWithdrawnMessagesAreBounded(t *testing.T) {
	server := streamtest.Start(t)
	b := newInbox(t, server.JetStream(t), InboxConfig{})
	s := chunk.RootSession("acme", "s1")
	var err error
	n := 0
	for ; err == nil && n < 2*control.MaxWithdrawn; n++ {
		if err = b.Enqueue(t.Context(), queuedMessage(fmt.Sprint("r", n), "again")); err == nil {
			err = b.SetQueued(t.Context(), s, fmt.Sprint("r", n), control.QueuedWithdrawn)
		}
	}
	if !errors.Is(err, control.ErrQueueFull) || n != control.MaxWithdrawn+1 {
		t.Fatalf("%d messages, %v", n, err)
	}
	for _, later := range []struct {
		by   time.Duration
		left int
	}{{time.Hour, control.MaxWithdrawn}, {25 * time.Hour, 0}} {
		if _, err := b.QueuedBefore(t.Context(), time.Now().Add(later.by)); err != nil {
			t.Fatal(err)
		}
		if all, err := b.Queued(t.Context(), s); err != nil || len(all) != later.left {
			t.Errorf("after %s there are %d messages, want %d; %v", later.by, len(all), later.left, err)
		}
	}
	if err := b.Enqueue(t.Context(), queuedMessage("r0", "again")); err != nil {
		t.Error(err)
	}
}
