package run

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/parquet"
	"github.com/tailrace/tailrace/sink/postgres"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

// discard stores nothing but positions.
type discard struct{ memory }

func (d *discard) Commit(ctx context.Context, after row.Position, b *row.Batch) error {
	return d.memory.Commit(ctx, after, &row.Batch{Through: b.Through})
}

// BenchmarkCatchUp copies a log of which nine in ten records are pieces of text, in turns with a consumer that discards the messages. The metric of-bare is the ratio of
// the rates.
func BenchmarkCatchUp(b *testing.B) {
	const records = 200_000
	js := streamtest.Start(b).JetStream(b)
	fill(b, js, records)
	pg, err := pgtest.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := pg.Close(); err != nil {
			b.Error(err)
		}
	})
	for name, open := range map[string]func() (row.Store, error){
		"discard":  func() (row.Store, error) { return &discard{}, nil },
		"Parquet":  func() (row.Store, error) { return parquet.OpenDirectory(b.TempDir()) },
		"Postgres": func() (row.Store, error) { return postgres.Open(postgres.Config{URL: pg.Database(b), Name: "sink"}) },
	} {
		b.Run(name, func(b *testing.B) { catchUp(b, js, records, open) })
	}
}

func catchUp(b *testing.B, js jetstream.JetStream, records int, open func() (row.Store, error)) {
	b.Helper()
	var bare, copied time.Duration
	for b.Loop() {
		bare += readAll(b, js, records)
		store, err := open()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		sink, err := New(js, Config{Store: store, NoFollow: true, Bytes: 64 << 20, Every: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		if err := sink.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		copied += time.Since(began)
	}
	n := float64(b.N * records)
	b.ReportMetric(n/copied.Seconds(), "records/s")
	b.ReportMetric(n/bare.Seconds(), "bare-records/s")
	b.ReportMetric(bare.Seconds()/copied.Seconds(), "of-bare")
}

// fill writes runs of 100 records.
func fill(b *testing.B, js jetstream.JetStream, records int) {
	b.Helper()
	for i := range records / 100 {
		s := chunk.RootSession("acme", fmt.Sprint("s", i))
		bodies := []chunk.Body{
			chunk.RunStarted{RunID: fmt.Sprint("r", i), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "What is the weather?"}}},
			chunk.StepStart{},
		}
		for j := range 3 {
			id := fmt.Sprint("c", j)
			bodies = append(bodies,
				chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"query":"weather"}`)},
				chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"temperature":21}`)})
		}
		for range 90 {
			bodies = append(bodies, chunk.TextDelta{Delta: "a few words of "})
		}
		bodies = append(bodies, chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "100", OutputTokens: "90"}}, chunk.StreamEnd{StreamID: s.ID})
		for o, body := range bodies {
			msg := streamtest.Message(b, subjects.Layout{}, codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(o + 1)}, body)
			if _, err := js.PublishMsgAsync(msg); err != nil {
				b.Fatal(err)
			}
		}
		if i%20 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
}

// readAll discards the messages of the log, and returns the time that it takes.
func readAll(b *testing.B, js jetstream.JetStream, records int) time.Duration {
	b.Helper()
	began := time.Now()
	consumer, err := js.OrderedConsumer(b.Context(), subjects.Layout{}.Stream(0), jetstream.OrderedConsumerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(5000))
	if err != nil {
		b.Fatal(err)
	}
	defer messages.Stop()
	for range records {
		if _, err := messages.Next(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(began)
}
