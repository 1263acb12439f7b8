package producers

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// BenchmarkPublish compares a loop of Write, with chunks that never merge, with the baseline: a loop of the client's synchronous PublishMsg with the same
// headers, including the expected sequence, and the same encoded body. Both run alternately on the same server, so that other load of the machine affects both.
func BenchmarkPublish(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			srv := natstest.Start(b)
			p := newEnv(b, natstest.Connect(b, srv.URL), 1)
			own, baseline := newProducerRounds(b, p, sessions), newBaseline(b, p, sessions)
			b.ReportAllocs()
			var tProducer, tBaseline time.Duration
			var n atomic.Int64
			for b.Loop() {
				tProducer += own.round(b)
				tBaseline += baseline.round(b)
				n.Add(int64(sessions * roundSize))
			}
			b.ReportMetric(float64(tProducer.Microseconds())/float64(n.Load()), "producer-µs/chunk")
			b.ReportMetric(float64(tBaseline.Microseconds())/float64(n.Load()), "baseline-µs/chunk")
			b.ReportMetric(tBaseline.Seconds()/tProducer.Seconds(), "ratio")
		})
	}
}

const roundSize = 100 // chunks of each session before the other side runs

func benchChunk() chunk.Chunk {
	return chunk.Chunk{AgentType: "bench", Timestamp: 1_770_000_000_000, Step: 1, Body: chunk.Custom{EventName: "token", Data: chunk.Value(`"` + fmt.Sprintf("%0150d", 7) + `"`)}}
}

type rounds struct {
	sessions int
	write    func(ctx context.Context, session int) error
}

// round returns the time in which all sessions write roundSize chunks each.
func (r rounds) round(b *testing.B) time.Duration {
	b.Helper()
	begin := time.Now()
	var all sync.WaitGroup
	for i := range r.sessions {
		all.Go(func() {
			for range roundSize {
				if err := r.write(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

func newProducerRounds(b *testing.B, p env, sessions int) rounds {
	b.Helper()
	producer := p.producer(b, Config{})
	runs := make([]*Run, sessions)
	for i := range runs {
		runs[i] = mustStart(b, producer, chunk.RootSession("producer", "s"+strconv.Itoa(i)))
	}
	c := benchChunk()
	return rounds{sessions: sessions, write: func(ctx context.Context, i int) error {
		_, err := runs[i].Write(ctx, c)
		return err
	}}
}

func newBaseline(b *testing.B, p env, sessions int) rounds {
	b.Helper()
	type writer struct {
		msg  *nats.Msg
		last uint64
		n    int
	}
	writers := make([]writer, sessions)
	for i := range writers {
		s := chunk.RootSession("baseline", "s"+strconv.Itoa(i))
		c := benchChunk()
		c.AgentID = s.ID
		body, err := c.AppendJSON(nil)
		if err != nil {
			b.Fatal(err)
		}
		writers[i].msg = &nats.Msg{
			Subject: "tr.chunks.0.baseline." + s.ID + "." + s.ID,
			Data:    body,
			Header: nats.Header{
				"ce-specversion": {"1.0"}, "ce-id": {"1-1"}, "ce-source": {s.String()}, "ce-type": {"custom"},
				"ce-time": {"2026-02-02T02:40:00.000Z"}, "ce-datacontenttype": {"application/json"},
			},
		}
	}
	return rounds{sessions: sessions, write: func(ctx context.Context, i int) error {
		w := &writers[i]
		w.n++
		w.msg.Header["ce-id"][0] = "1-" + strconv.Itoa(w.n)
		ack, err := p.js.PublishMsg(ctx, w.msg, jetstream.WithExpectLastSequencePerSubject(w.last))
		if err == nil {
			w.last = ack.Sequence
		}
		return err
	}}
}

// BenchmarkTokens simulates a model at maximum speed: each session emits tokens of a few bytes one by one and flushes at the end. Merged tokens are one
// message.
func BenchmarkTokens(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			srv := natstest.Start(b)
			p := newEnv(b, natstest.Connect(b, srv.URL), 1)
			producer := p.producer(b, Config{})
			runs := make([]*Run, sessions)
			for i := range runs {
				runs[i] = mustStart(b, producer, chunk.RootSession("t", "s"+strconv.Itoa(i)))
			}
			b.ReportAllocs()
			tokens := 0
			for b.Loop() {
				var all sync.WaitGroup
				for _, r := range runs {
					all.Go(func() {
						for range 1000 {
							if err := r.EmitBody(b.Context(), chunk.TextDelta{Delta: "token "}); err != nil {
								b.Error(err)
								return
							}
						}
						if _, err := r.Flush(b.Context()); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
				tokens += 1000 * sessions
			}
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkIdleRun measures a run that writes nothing.
func BenchmarkIdleRun(b *testing.B) {
	p := local(b)
	producer := p.producer(b, Config{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var runs []*Run
	for b.Loop() {
		s := chunk.RootSession("t", "s"+strconv.Itoa(len(runs)))
		log, err := producer.newNATSLog(s)
		if err != nil {
			b.Fatal(err)
		}
		runs = append(runs, newRun(producer.cfg, s, log, startOptions{agentType: "a"}))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(runs)), "B/run")
	b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
	for _, r := range runs {
		_ = r.Close()
	}
}
