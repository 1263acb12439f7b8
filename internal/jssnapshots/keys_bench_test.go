package jssnapshots

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// conversation returns the fold of turns of one question and one answer of about the given number of bytes.
func conversation(tb testing.TB, turns, size int) fold.Snapshot {
	tb.Helper()
	log, random := storetest.NewLog(), rand.New(rand.NewPCG(1, 2))
	f := fold.New(s1)
	text := func() string {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(strconv.Itoa(random.IntN(1000)) + " ")
		}
		return b.String()
	}
	for n := range turns {
		for _, body := range []chunk.Body{
			chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n) + 1, Mode: "execute", Input: []chunk.InputMessage{{Content: text()}}},
			chunk.TextDelta{Delta: text()}, chunk.StreamEnd{StreamID: "s1"},
		} {
			if err := f.Apply(log.Append(tb, s1, 1, body)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return f.Snapshot()
}

// BenchmarkKeys saves a session of 20 messages per iteration and reports the keys of a session and the heap that the server uses for it.
func BenchmarkKeys(b *testing.B) {
	for _, size := range []int{100, 500, 2000} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			js := natstest.Start(b).JetStream(b)
			st := openFor(b, js, subjects.Layout{})
			snap := conversation(b, 10, size)
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := heap()
			b.ResetTimer()
			var group errgroup.Group
			group.SetLimit(64)
			for n := range b.N {
				group.Go(func() error {
					of := snap
					of.Session = chunk.RootSession("acme", strconv.Itoa(n))
					_, err := st.Save(b.Context(), of, 0)
					return err
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			used := heap()
			stream, err := js.Stream(b.Context(), "KV_TR_SNAPSHOTS")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(stream.CachedInfo().State.NumSubjects)/float64(b.N), "keys/session")
			b.ReportMetric(float64(int64(used)-int64(before))/float64(b.N), "heap-B/session")
			b.ReportMetric(float64(stream.CachedInfo().State.Bytes)/float64(b.N), "stored-B/session")
		})
	}
}

// BenchmarkLongSession saves and reads a session of 2,000 messages.
func BenchmarkLongSession(b *testing.B) {
	snap := conversation(b, 1000, 500)
	b.Run("write", func(b *testing.B) {
		st := openFor(b, natstest.Start(b).JetStream(b), subjects.Layout{})
		for n := 0; b.Loop(); n++ {
			of := snap
			of.Session = chunk.RootSession("acme", strconv.Itoa(n))
			if _, err := st.Save(b.Context(), of, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	st := openFor(b, natstest.Start(b).JetStream(b), subjects.Layout{})
	if _, err := st.Save(b.Context(), snap, 0); err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			head, _, err := st.Load(b.Context(), s1)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := st.Messages(b.Context(), head); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			head, revision, err := st.Load(b.Context(), s1)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := st.Range(b.Context(), head, revision, 900, 950); err != nil {
				b.Fatal(err)
			}
		}
	})
}
