package jssnapshots

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// fill writes records of sessions, interleaved, and returns the last record of each.
func (w *env) fill(b *testing.B, sessions, each int) map[chunk.Session]chunk.Position {
	b.Helper()
	last := make(map[chunk.Session]chunk.Position)
	draft := storetest.NewLog()
	var lines [][]chunk.Record
	for i := range sessions {
		a := storetest.NewSessionGenerator(draft, chunk.RootSession("acme", fmt.Sprintf("s%d", i)), uint64(i))
		a.WithCleanups = false
		lines = append(lines, a.Write(b, each)[:each])
	}
	var acks []jetstream.PubAckFuture
	for n := range each {
		for _, line := range lines {
			rec := line[n]
			subject, err := w.layout.Subject(rec.Session)
			if err != nil {
				b.Fatal(err)
			}
			m := codec.EncodeJSON(codec.Envelope{Session: rec.Session, Epoch: rec.Epoch, Ordinal: rec.Ordinal},
				codec.Header{Type: rec.Type, Timestamp: rec.StoredAt.UnixMilli()}, rec.Data)
			ack, err := w.js.PublishMsgAsync(natsMsg(subject, m))
			if err != nil {
				b.Fatal(err)
			}
			acks = append(acks, ack)
		}
	}
	<-w.js.PublishAsyncComplete()
	for i, ack := range acks {
		select {
		case pub := <-ack.Ok():
			rec := lines[i%sessions][i/sessions]
			last[rec.Session] = chunk.Position{Seq: chunk.Seq(pub.Sequence), Ordinal: rec.Ordinal}
		case err := <-ack.Err():
			b.Fatal(err)
		}
	}
	return last
}

// A backlog is projected: every record is read, folded, saved and acknowledged; for comparison the same messages are only pulled and acknowledged.
func BenchmarkBacklog(b *testing.B) {
	const sessions, each = 64, 400
	b.Run(fmt.Sprintf("projector/sessions=%d", sessions), func(b *testing.B) {
		w := newEnv(b)
		last := w.fill(b, sessions, each)
		for n := 0; b.Loop(); n++ {
			p := w.project(SourceConfig{Name: fmt.Sprint("p", n)})
			natstest.Eventually(b, "everything", func(context.Context) error {
				if done := p.runner.Stats().Delivered; done < sessions*each {
					return fmt.Errorf("%d delivered", done)
				}
				return nil
			})
			for s := range last {
				natstest.Eventually(b, s.String(), func(ctx context.Context) error {
					pos, _, _, err := w.reader.StoredPosition(ctx, s)
					if err == nil && pos.Ordinal != last[s].Ordinal {
						err = fmt.Errorf("at %d", pos.Ordinal)
					}
					return err
				})
			}
			p.stop()
			b.StopTimer()
			if err := w.js.DeleteKeyValue(b.Context(), names.Layout(w.layout).Snapshots()); err != nil {
				b.Fatal(err)
			}
			w.ensure()
			b.StartTimer()
		}
		b.ReportMetric(float64(b.N*sessions*each)/b.Elapsed().Seconds(), "chunks/s")
	})
	b.Run("pull-and-ack", func(b *testing.B) {
		w := newEnv(b)
		w.fill(b, sessions, each)
		for n := 0; b.Loop(); n++ {
			src, err := NewSource(w.js, SourceConfig{Name: fmt.Sprint("p", n)})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			seen := 0
			_ = src.Run(ctx, func(_ context.Context, batch []projector.Delivery) error {
				for _, d := range batch {
					if err := d.Acker.Ack(); err != nil {
						return err
					}
				}
				if seen += len(batch); seen >= sessions*each {
					return context.Canceled
				}
				return nil
			})
			cancel()
		}
		b.ReportMetric(float64(b.N*sessions*each)/b.Elapsed().Seconds(), "chunks/s")
	})
}

// A session is opened whose last records are not saved: none, those of five seconds at two a second, and the most that a save
// leaves. The reader folds them onto the stored head.
func BenchmarkOpen(b *testing.B) {
	for _, unsaved := range []int{0, 10, 199} {
		b.Run(fmt.Sprintf("unsaved=%d", unsaved), func(b *testing.B) {
			w := newEnv(b)
			draft := storetest.NewLog()
			w.copy([]chunk.Record{draft.Append(b, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
			w.copy([]chunk.Record{draft.Append(b, s1, 0, chunk.StreamPaused{})})
			p := w.project(SourceConfig{})
			w.caughtUp(s1)
			p.stop()
			for i := range unsaved {
				w.copy([]chunk.Record{draft.Append(b, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)})})
			}
			for b.Loop() {
				snap, err := w.reader.Snapshot(b.Context(), s1)
				if err != nil {
					b.Fatal(err)
				}
				if want := chunk.Ordinal(2 + unsaved); snap.Position.Ordinal != want {
					b.Fatalf("snapshot of %d records, want %d", snap.Position.Ordinal, want)
				}
			}
		})
	}
}
