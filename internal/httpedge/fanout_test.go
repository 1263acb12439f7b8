package httpedge_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// A thousand clients watch one session. Whenever the log is idle, each of them has every record. In a bubble this needs no waiting time, because synctest.Wait
// returns when all goroutines in it are blocked.
func TestAllClientsHaveEveryRecordWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 1000
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		var (
			group sync.WaitGroup
			last  [clients]atomic.Int64
		)
		for i := range clients {
			group.Go(func() {
				f := newFollower(w, "/v1/sessions/s1/events")
				f.onEvent = func(e event) {
					var seq int64
					fmt.Sscan(e.id, &seq)
					if !last[i].CompareAndSwap(seq-1, seq) {
						t.Errorf("client %d has %d and got %d", i, last[i].Load(), seq)
					}
				}
				if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil {
					t.Errorf("client %d: ended %d, %v", i, how, err)
				}
			})
		}
		written := int64(1)
		for range 30 {
			for range rand.IntN(8) {
				w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
				written++
			}
			synctest.Wait()
			for i := range clients {
				if got := last[i].Load(); got != written {
					t.Fatalf("after record %d client %d has %d", written, i, got)
				}
			}
		}
		if s := w.hub.Stats(); s.Cursors != clients || s.Topics != 1 || s.Reads > 2 {
			t.Errorf("%+v", s)
		}
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		group.Wait()
	})
}

// Three hundred clients reconnect at once, at different positions of a long history: the log is read a few times, not three hundred times.
func TestReconnectsShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, records, seen = 300, 3000, 2800
		w := newEnv(t, envConfig{})
		for range records {
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"some text"`)
		}
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				start := seen + rand.IntN(records-seen)
				f := newFollower(w, "/v1/sessions/s1/events")
				f.lastEventID = fmt.Sprint(start)
				how, _, err := f.connect(t.Context(), -1)
				if how != whole || err != nil || len(f.events) != records+1-start {
					t.Errorf("from %d: %d events, ended %d, %v", start, len(f.events), how, err)
				}
			})
		}
		group.Wait()
		if reads := w.hub.Stats().Reads; reads > 25 {
			t.Errorf("%d clients made %d reads", clients, reads)
		}
	})
}

// With many sessions of one client each the hub stays within MaxMemory, and each client receives all records.
func TestManySessionsInLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, records, memory = 60, 30, 60 << 10
		w := newEnv(t, envConfig{hub: hub.Config{MaxMemory: memory, MaxReads: 1}}) // a page, here up to 10 KiB, is beside the limit
		var group sync.WaitGroup
		for i := range sessions {
			s := chunk.RootSession("default", fmt.Sprintf("session-%d", i))
			w.log.Append(s, chunk.TypeRunStarted, "")
			group.Go(func() {
				f := newFollower(w, "/v1/sessions/"+s.ID+"/events")
				how, _, err := f.connect(t.Context(), -1)
				if how != whole || err != nil || len(f.events) != records+2 {
					t.Errorf("%s: %d events, ended %d, %v", s, len(f.events), how, err)
				}
			})
		}
		time.Sleep(time.Second)
		peak := int64(0)
		for range records {
			for i := range sessions {
				w.log.Append(chunk.RootSession("default", fmt.Sprintf("session-%d", i)), chunk.TypeTextDelta, `"delta":"some text"`)
			}
			peak = max(peak, w.hub.Stats().Bytes)
		}
		for i := range sessions {
			w.log.Append(chunk.RootSession("default", fmt.Sprintf("session-%d", i)), chunk.TypeStreamEnd, "")
		}
		group.Wait()
		if peak > memory+memory/4 {
			t.Errorf("%d bytes, want about %d", peak, memory)
		}
	})
}
