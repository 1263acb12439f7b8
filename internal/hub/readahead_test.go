package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

const (
	longHistory = 1000
	pageBytes   = 4 << 10
	timeOfPage  = time.Second // a read of counting
)

// startLong starts a hub whose log has a history of many pages, each of which takes a second to read.
func startLong(t *testing.T, cfg hub.Config) (*memlog.Log, *hub.Hub) {
	t.Helper()
	log := memlog.New()
	fillLong(log, aRoot)
	cfg.PageBytes = pageBytes
	h := start(t, counting{log, func(int) {}}, log, cfg)
	synctest.Wait()
	return log, h
}

func fillLong(log *memlog.Log, s chunk.Session) {
	log.Append(s, chunk.TypeRunStarted, "")
	for n := range longHistory - 2 {
		log.Append(s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%040d"`, n))
	}
	log.Append(s, chunk.TypeStreamEnd, "")
}

func open(t *testing.T, h *hub.Hub, req hub.Request) *hub.Cursor {
	t.Helper()
	cur, err := h.Subscribe(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cur.Close)
	return cur
}

// readAll reads to the end of a session, with a pause after each batch, and returns the number of batches. It checks that it gets all records after the first ones.
//
//tailrace:bubble
func readAll(t *testing.T, cur *hub.Cursor, has int, pause time.Duration) (batches int) {
	t.Helper()
	for {
		batch, err := cur.Next(t.Context(), nil)
		if errors.Is(err, io.EOF) && has == longHistory {
			return batches
		}
		if err != nil {
			t.Errorf("after %d records: %v", has, err)
			return batches
		}
		has += batch.Records
		batches++
		time.Sleep(pause)
	}
}

// take returns the number of records of the next batch.
func take(t *testing.T, cur *hub.Cursor) int {
	t.Helper()
	batch, err := cur.Next(t.Context(), nil)
	if err != nil || batch.Records == 0 {
		t.Fatalf("%d records, err = %v", batch.Records, err)
	}
	synctest.Wait()
	return batch.Records
}

// TestPageIsReadAhead checks that the next page is read while a client takes one: each client waits for the first page and finds the others in memory, and two
// clients cause no more reads than one.
func TestPageIsReadAhead(t *testing.T) {
	for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
		t.Run(fmt.Sprintf("scope=%d", scope), func(t *testing.T) {
			var reads []int64
			for clients := 1; clients <= 2; clients++ {
				synctest.Test(t, func(t *testing.T) {
					_, h := startLong(t, hub.Config{})
					began := time.Now()
					var readers sync.WaitGroup
					for range clients {
						readers.Go(func() {
							batches := readAll(t, open(t, h, hub.Request{Session: aRoot, Scope: scope}), 0, timeOfPage)
							if took := time.Since(began); took > timeOfPage*time.Duration(batches+1) {
								t.Errorf("it took %s to read the first page and to write %d batches", took, batches)
							}
						})
					}
					readers.Wait()
					reads = append(reads, h.Stats().Reads)
				})
			}
			if reads[0] < 10 || reads[1] != reads[0] {
				t.Errorf("%d reads by one client and two, want as many, and more than 10", reads)
			}
		})
	}
}

// TestLiveRecordOfLaterRun checks that a record of the feed is no gap while the clients have read no further than the run before.
func TestLiveRecordOfLaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		fillLong(log, aRoot)
		log.Takeover(aRoot)
		log.Append(aRoot, chunk.TypeRunStarted, "")
		h := start(t, log, log, hub.Config{PageBytes: pageBytes})
		cur := open(t, h, hub.Request{Session: aRoot})
		first := take(t, cur)
		log.Append(aRoot, chunk.TypeTextDelta, "")
		synctest.Wait()
		if n := h.Stats().Gaps; n != 0 {
			t.Errorf("%d gaps", n)
		}
		if n := readFollowed(t, cur); n != longHistory+2-first {
			t.Errorf("%d records after the first %d, want all %d", n, first, longHistory+2)
		}
	})
}

// TestReadAheadEndsWithItsClients checks a client that leaves while the next page is read: the read continues for another client of the session, which takes its
// page from memory, and ends when the last one leaves.
func TestReadAheadEndsWithItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading atomic.Int32
		log := memlog.New()
		fillLong(log, aRoot)
		h := start(t, counting{log, func(d int) { reading.Add(int32(d)) }}, log, hub.Config{PageBytes: pageBytes})
		synctest.Wait()
		expect := func(reads int64, running int32) {
			t.Helper()
			synctest.Wait()
			if s := h.Stats(); s.Reads != reads || reading.Load() != running {
				t.Fatalf("%d reads, %d of them run; want %d, %d", s.Reads, reading.Load(), reads, running)
			}
		}
		first, second := open(t, h, hub.Request{Session: aRoot}), open(t, h, hub.Request{Session: aRoot})
		take(t, first)
		expect(2, 1)
		first.Close()
		expect(2, 1)
		time.Sleep(2 * timeOfPage)
		expect(2, 0)
		take(t, second)
		expect(2, 0)
		for h.Stats().Reads == 2 {
			take(t, second)
		}
		expect(3, 1)
		second.Close()
		expect(3, 0)
		readAll(t, open(t, h, hub.Request{Session: aRoot}), 0, 0)
	})
}

// TestDeletionDuringReadAhead checks a client that has a page while the next one is read, before and after records of both are removed: it reads on without the
// removed records of the next page, and gets the truncation record. A client that connects later gets no removed record.
func TestDeletionDuringReadAhead(t *testing.T) {
	for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
		for readBefore := range 4 { // records of the next page that were read before
			t.Run(fmt.Sprintf("scope=%d/read=%d", scope, readBefore), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := memlog.New()
					log.Append(aRoot, chunk.TypeRunStarted, "")
					for n := range 200 {
						step := int64(1)
						if n < 40 {
							step = 2 // is removed
						}
						log.AppendAt(aRoot, chunk.TypeTextDelta, step, fmt.Sprintf(`"delta":"%040d"`, n))
					}
					h := start(t, counting{log, func(int) {}}, log, hub.Config{PageBytes: pageBytes})
					synctest.Wait()
					follow := func() *hub.Cursor {
						return open(t, h, hub.Request{Session: aRoot, Scope: scope, KeepOpen: true})
					}
					cur := follow()
					first := take(t, cur)
					if s := h.Stats(); s.Reads != 2 || first < 10 || first > 30 {
						t.Fatalf("%d reads and %d records, so this tests nothing", s.Reads, first)
					}
					reads := 0
					log.OnRead(func(_ context.Context, what string) {
						if what != "read" {
							return
						}
						if reads++; reads == readBefore+1 {
							log.Cleanup(aRoot, 1, 5)
							time.Sleep(time.Millisecond) // the feed delivers it
						}
					})
					time.Sleep(2 * timeOfPage)
					there := log.Session(aRoot)
					if n := readFollowed(t, cur); n != len(there)-5 {
						t.Errorf("%d records after the first %d, want %d", n, first, len(there)-5)
					}
					if n := readFollowed(t, follow()); n != len(there) {
						t.Errorf("a client that connects later gets %d records, want %d", n, len(there))
					}
				})
			})
		}
	}
}

// readFollowed returns the number of records until none comes for a minute.
func readFollowed(t *testing.T, cur *hub.Cursor) (n int) {
	t.Helper()
	for {
		batch, err := cur.Next(t.Context(), time.After(time.Minute))
		if err != nil {
			t.Fatalf("after %d records: %v", n, err)
		}
		if batch.Records == 0 {
			return n
		}
		n += batch.Records
	}
}

// TestNoReadAheadWithoutMemoryOrReads checks that a page is read when a client needs it, and not before, while memory is above 80 % or all reads run.
func TestNoReadAheadWithoutMemoryOrReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := startLong(t, hub.Config{MaxMemory: 2 * pageBytes})
		take(t, open(t, h, hub.Request{Session: aRoot}))
		limit := h.Stats().Bytes * 5 / 4 // of which the first page is 80 %
		for _, row := range []struct{ memory, reads int64 }{{limit * 9 / 10, 1}, {limit * 11 / 10, 2}} {
			_, h := startLong(t, hub.Config{MaxMemory: row.memory})
			cur := open(t, h, hub.Request{Session: aRoot})
			n := take(t, cur)
			if s := h.Stats(); s.Reads != row.reads {
				t.Errorf("%d reads with %d of %d bytes in memory, want %d", s.Reads, s.Bytes, row.memory, row.reads)
			}
			readAll(t, cur, n, 0)
		}

		// The read of another client takes the only one that may run.
		log, h := startLong(t, hub.Config{MaxReads: 1})
		other := chunk.RootSession("t", "other")
		log.Append(other, chunk.TypeRunStarted, "")
		synctest.Wait()
		cur, waiting := open(t, h, hub.Request{Session: aRoot}), open(t, h, hub.Request{Session: other})
		var readers sync.WaitGroup
		readers.Go(func() {
			time.Sleep(timeOfPage / 2)
			if _, err := waiting.Next(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
		n := take(t, cur)
		time.Sleep(2 * timeOfPage)
		if s := h.Stats(); s.Reads != 2 {
			t.Errorf("%d reads, want that of each client", s.Reads)
		}
		readers.Wait()
		readAll(t, cur, n, 0)
	})
}

// TestReadAheadWaitsForOtherPage checks that a client that needs another page of the same session gets it after the read that runs, and not after all reads ahead
// of the first client.
func TestReadAheadWaitsForOtherPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := startLong(t, hub.Config{})
		var readers sync.WaitGroup
		readers.Go(func() { readAll(t, open(t, h, hub.Request{Session: aRoot}), 0, timeOfPage/10) })
		time.Sleep(timeOfPage * 3 / 2)
		began := time.Now()
		cur := open(t, h, hub.Request{Session: aRoot, After: chunk.Position{Seq: longHistory / 2}})
		take(t, cur)
		if took := time.Since(began); took > 2*timeOfPage {
			t.Errorf("it took %s, want the rest of the read that runs, and its own", took)
		}
		readers.Wait()
	})
}
