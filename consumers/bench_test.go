package consumers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// fill writes n records of s, with as many of others between them.
func (w *env) fill(s chunk.Session, n, between int) {
	w.t.Helper()
	for i := range n {
		w.enqueue(s)
		for j := range between {
			w.enqueue(chunk.RootSession("acme", fmt.Sprint("other", (i*between+j)%100)))
		}
	}
	w.awaitIdle()
}

func (w *env) enqueue(s chunk.Session) {
	w.t.Helper()
	w.next[s]++
	msg := w.encode(s, 1, w.next[s], chunk.TextDelta{Delta: "Some words of an answer, as a model says them, one delta after the other."})
	if _, err := w.js.PublishMsgAsync(msg); err != nil {
		w.t.Fatal(err)
	}
	if w.next[s]%1000 == 0 {
		w.awaitIdle()
	}
}

func (w *env) awaitIdle() {
	w.t.Helper()
	select {
	case <-w.js.PublishAsyncComplete():
	case <-w.t.Context().Done():
	}
}

// rawOrdered reads n messages with the ordered consumer of the library: the baseline.
func rawOrdered(ctx context.Context, b *testing.B, js jetstream.JetStream, filter string, n int, started func()) {
	b.Helper()
	cfg := jetstream.OrderedConsumerConfig{}
	if filter != "" {
		cfg.FilterSubjects = []string{filter}
	}
	c, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		b.Fatal(err)
	}
	it, err := c.Messages()
	if err != nil {
		b.Fatal(err)
	}
	started()
	for range n {
		m, err := it.Next()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Metadata(); err != nil {
			b.Fatal(err)
		}
	}
	it.Stop()
	if err := js.DeleteConsumer(ctx, stream, c.CachedInfo().Name); err != nil {
		b.Fatal(err)
	}
}

// Replay of one session that is one message in ten of the stream.
func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		w := newEnv(b, Config{})
		w.fill(alice, n, 9)
		subject, err := w.layout.Subject(alice)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("records=%d/ours", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				for _, err := range w.reader.Replay(b.Context(), chunk.Range{Session: alice}) {
					if err != nil {
						b.Fatal(err)
					}
					got++
				}
				if got != n {
					b.Fatalf("%d records, want %d", got, n)
				}
			}
		})
		b.Run(fmt.Sprintf("records=%d/raw", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rawOrdered(b.Context(), b, w.js, subject, n, func() {})
			}
		})
	}
}

// BenchmarkFollow measures how many records per second one live reader reads while a writer publishes as fast as it can.
func BenchmarkFollow(b *testing.B) {
	read := map[string]func(b *testing.B, w *env, n int, started func()){
		"ours": func(b *testing.B, w *env, n int, started func()) {
			b.Helper()
			got := 0
			for _, err := range w.reader.Follow(b.Context(), chunk.Range{Session: alice, KeepOpen: true}) {
				if err != nil {
					b.Fatal(err)
				}
				if got == 0 {
					started()
				}
				if got++; got == n+1 {
					return
				}
			}
		},
		"feed": func(b *testing.B, w *env, n int, started func()) {
			b.Helper()
			got := 0
			for m, err := range w.reader.Feed(b.Context(), 0, 0) {
				if err != nil {
					b.Fatal(err)
				}
				if _, err := codec.Decode(m); err != nil {
					b.Fatal(err)
				}
				if got == 0 {
					started()
				}
				if got++; got == n+1 {
					return
				}
			}
		},
		"raw": func(b *testing.B, w *env, n int, started func()) {
			b.Helper()
			subject, err := w.layout.Subject(alice)
			if err != nil {
				b.Fatal(err)
			}
			rawOrdered(b.Context(), b, w.js, subject, n+1, started)
		},
	}
	for _, name := range []string{"ours", "feed", "raw"} {
		b.Run(name, func(b *testing.B) {
			w := newEnv(b, Config{})
			w.reader = w.newReader(Config{}, w.srv.Conn(b))
			w.say(alice, "first")
			b.ReportAllocs()
			ready, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				read[name](b, w, b.N, func() { close(ready) })
			}()
			<-ready
			b.ResetTimer()
			w.fill(alice, b.N, 0)
			<-done
		})
	}
}

// BenchmarkCatchUp measures the cost of a record in a reader that reads a long history.
func BenchmarkCatchUp(b *testing.B) {
	const n = 20_000
	w := newEnv(b, Config{})
	w.fill(alice, n, 0)
	reader := w.newReader(Config{}, w.srv.Conn(b))
	raw := w.srv.JetStream(b)
	subject, err := w.layout.Subject(alice)
	if err != nil {
		b.Fatal(err)
	}
	follow := func(b *testing.B) {
		b.Helper()
		got, err := 0, errors.New("ended early")
		for _, e := range reader.Follow(b.Context(), chunk.Range{Session: alice}) {
			if got++; e != nil || got == n {
				err = e
				break
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("follow", func(b *testing.B) {
		for b.Loop() {
			follow(b)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	})
	// The speed of this reader as a share of the baseline. Both run alternately, so that other load of the machine affects both.
	b.Run("follow to raw", func(b *testing.B) {
		var measured, baseline time.Duration
		for b.Loop() {
			began := time.Now()
			rawOrdered(b.Context(), b, raw, subject, n, func() {})
			between := time.Now()
			follow(b)
			baseline, measured = baseline+between.Sub(began), measured+time.Since(between)
		}
		b.ReportMetric(baseline.Seconds()/measured.Seconds(), "of-raw")
	})
	b.Run("feed without looking", func(b *testing.B) {
		for b.Loop() {
			got := 0
			for _, err := range reader.Feed(b.Context(), 0, 0) {
				if err != nil {
					b.Fatal(err)
				}
				if got++; got == n {
					break
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	})
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			rawOrdered(b.Context(), b, raw, subject, n, func() {})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
	})
}

// BenchmarkTree reads a tree from its start in a stream of 200,000 messages, and compares this with one consumer with a wildcard. The tree "dense" was written
// in one run, among ten thousand messages of other sessions; "sparse" has the same size and was written in four runs, hours apart.
func BenchmarkTree(b *testing.B) {
	const others, perSession, window = 200_000, 40, 10_000
	w := newEnv(b, Config{})
	type at struct {
		place int
		of    chunk.Session
	}
	var plan []at
	for _, kids := range []int{0, 3, 50} {
		for _, name := range []string{"dense", "sparse"} {
			root := chunk.RootSession("acme", fmt.Sprint(name, kids))
			for kid := range kids + 1 {
				for i := range perSession {
					place := others/3 + (i*(kids+1)+kid)*window/(perSession*(kids+1))
					of, run := root, i%4
					if kid > 0 { // of one run
						of, run = root.Child(fmt.Sprint("kid", kid)), kid%4
					}
					if name == "sparse" {
						place = run*others/4 + i*7 + kid
					}
					plan = append(plan, at{place, of})
				}
			}
		}
	}
	slices.SortStableFunc(plan, func(a, b at) int { return cmp.Compare(a.place, b.place) })
	for i := range others {
		for len(plan) > 0 && plan[0].place <= i {
			w.enqueue(plan[0].of)
			plan = plan[1:]
		}
		w.enqueue(chunk.RootSession("acme", fmt.Sprint("other", i*7919%10_000)))
		if i%1000 == 0 {
			w.awaitIdle()
		}
	}
	w.awaitIdle()
	for _, kids := range []int{0, 3, 50} {
		for _, name := range []string{"dense", "sparse"} {
			root := chunk.RootSession("acme", fmt.Sprint(name, kids))
			filter, err := w.layout.Tree(root)
			if err != nil {
				b.Fatal(err)
			}
			for way, read := range map[string]func(ctx context.Context) (int, error){
				"ours": func(ctx context.Context) (int, error) {
					recs, err := collect(w.reader.Replay(ctx, chunk.Range{Session: root, Tree: true}))
					return len(recs), err
				},
				"wildcard": func(ctx context.Context) (n int, err error) {
					t := w.reader.newOrdered(jsreader.OrderedConfig{Stream: stream, Filter: filter})
					defer t.Close()
					for err = t.Open(ctx); err == nil; n++ {
						_, err = t.Next(ctx)
					}
					if errors.Is(err, jsreader.ErrEnd) {
						return n - 1, nil
					}
					return n, err
				},
			} {
				b.Run(fmt.Sprintf("sub-agents=%d/%s/%s", kids, name, way), func(b *testing.B) {
					b.SetParallelism(4)
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if n, err := read(b.Context()); err != nil || n != (kids+1)*perSession {
								b.Errorf("%d records, %v", n, err)
							}
						}
					})
				})
			}
		}
	}
}
