package consumers

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// keepNewest sets the limits of the stream so that it keeps n messages, and lets it grow again.
func (w *env) keepNewest(n int64) {
	w.t.Helper()
	for _, limit := range []int64{n, -1} {
		cfg := w.stream().CachedInfo().Config
		cfg.MaxMsgs = limit
		if _, err := w.js.UpdateStream(w.t.Context(), cfg); err != nil {
			w.t.Fatal(err)
		}
	}
}

// gaps collects gaps. Its onGap is called by one goroutine, and the others read after that.
type gaps struct{ list []Gap }

func (g *gaps) onGap(_ context.Context, gap Gap) error {
	g.list = append(g.list, gap)
	return nil
}

func (w *env) sameGaps(g gaps, want ...Gap) {
	w.t.Helper()
	if !slices.Equal(g.list, want) {
		w.t.Errorf("gaps %+v, want %+v", g.list, want)
	}
	if n := w.reader.Stats().Gaps; n != uint64(len(want)) {
		w.t.Errorf("%d gaps in the statistics, want %d", n, len(want))
	}
}

// sameLag checks the number of records of the only partition that are not acknowledged.
func (w *env) sameLag(name string, want uint64) {
	w.t.Helper()
	f, err := w.reader.Firehose(FirehoseConfig{Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	lags, err := f.Lag(w.t.Context())
	if err != nil || len(lags) != 1 || lags[0].Waiting+lags[0].Unacked != want {
		w.t.Errorf("lag %+v, %v; want %d records", lags, err, want)
	}
}

// Retention removes records while no program reads a durable firehose: the next one reports them before it continues. It continued silently before.
func TestFirehoseReportsRecordsExpiredWhileDetached(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	s := w.firehose(w.reader, FirehoseConfig{Name: "audit"})
	w.sinkHas(s, 10)
	w.acked("audit", want[9].Seq)
	_ = s.stop() // context canceled
	want = append(want, w.sayAll(alice, 40)...)
	w.keepNewest(20)
	var got gaps
	w.sameLag("audit", 20)
	s = w.firehose(w.reader, FirehoseConfig{Name: "audit", OnGap: got.onGap})
	same(t, w.sinkHas(s, 20), want[30:])
	w.acked("audit", want[49].Seq)
	w.sameLag("audit", 0)
	_ = s.stop() // context canceled
	w.sameGaps(got, Gap{From: want[9].Seq + 1, To: want[29].Seq, Reason: chunk.TruncatedExpired})
}

// Retention removes records while their reader is busy with an earlier one.
func TestFirehoseReportsRecordsExpiredWhileAttached(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 50)
	reached, expired := make(chan struct{}), make(chan struct{})
	var got gaps
	s := w.firehoseFailing(w.reader, FirehoseConfig{Name: "audit", Batch: 2, OnGap: got.onGap}, func(rec chunk.Record) error {
		if rec.Ordinal == 5 {
			close(reached)
			<-expired
		}
		return nil
	})
	<-reached
	w.keepNewest(20)
	close(expired)
	w.eventually("the last record", func() bool {
		recs := s.got()
		return len(recs) > 0 && recs[len(recs)-1].Seq == want[49].Seq
	})
	_ = s.stop() // context canceled
	// The server has sent some of the expired records ahead, and while it removed them.
	delivered := make(map[chunk.Seq]bool)
	for _, rec := range s.got() {
		delivered[rec.Seq] = true
	}
	for _, g := range got.list {
		if g.Reason != chunk.TruncatedExpired || g.To > want[29].Seq {
			t.Errorf("gap %+v, want an expired range up to %d", g, want[29].Seq)
		}
		for seq := g.From; seq <= g.To; seq++ {
			if delivered[seq] {
				t.Errorf("sequence %d was delivered and is in the gap %+v", seq, g)
			}
			delivered[seq] = true
		}
	}
	for _, rec := range want {
		if !delivered[rec.Seq] {
			t.Errorf("sequence %d was neither delivered nor reported", rec.Seq)
		}
	}
	if len(got.list) == 0 {
		t.Error("no gap")
	}
}

// A durable firehose that is used for the first time has lost nothing, and neither has one that has read everything before it expired.
func TestFirehoseReportsNoGapWithoutLoss(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	w.keepNewest(5)
	var got gaps
	s := w.firehose(w.reader, FirehoseConfig{Name: "audit", OnGap: got.onGap})
	w.sinkHas(s, 5)
	w.acked("audit", want[9].Seq)
	_ = s.stop() // context canceled
	w.keepNewest(1)
	want = append(want, w.sayAll(alice, 5)...)
	w.cleanUp(alice, want[11], want[12])
	s = w.firehose(w.reader, FirehoseConfig{Name: "audit", OnGap: got.onGap})
	w.sinkHas(s, 4)
	w.sameGaps(got)
}

// Messages vanish from the middle of the log, as those of a damaged block: the ordinals of their sessions show it.
func TestFirehoseReportsMissingRecords(t *testing.T) {
	for _, name := range []string{"", "audit"} {
		t.Run("durable="+name, func(t *testing.T) {
			w := newEnv(t, Config{})
			want := w.sayAll(alice, 10)
			bob := chunk.RootSession("acme", "bob")
			bobs := w.sayAll(bob, 10)
			w.remove(want[4])
			w.remove(want[5])
			w.purgeSession(bob) // deleted, and started again
			again := w.putAt(bob, 1, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
			var got gaps
			s := w.firehose(w.reader, FirehoseConfig{Name: name, OnGap: got.onGap})
			recs := w.sinkHas(s, 9)
			_ = s.stop() // context canceled
			if last := recs[8]; last.Seq != again.Seq {
				t.Errorf("last record %d, want %d after %d", last.Seq, again.Seq, bobs[9].Seq)
			}
			w.sameGaps(got, Gap{
				From: want[3].Seq + 1, To: want[6].Seq - 1, Reason: chunk.TruncatedGap, Session: alice,
				FirstOrdinal: want[4].Ordinal, LastOrdinal: want[5].Ordinal,
			})
		})
	}
}

// A record that cannot be handled becomes a dead letter, and the records after it are handled. The records of other partitions do not wait for it.
func TestFirehoseDeadLetter(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	poisoned := errors.New("no such column")
	var attempts int
	var letters []chunk.Record
	s := w.firehoseFailing(w.reader, FirehoseConfig{
		Name: "audit", MaxAttempts: 3,
		DeadLetter: func(_ context.Context, rec chunk.Record, cause error) error {
			if !errors.Is(cause, poisoned) {
				t.Errorf("cause %v, want that of the handler", cause)
			}
			letters = append(letters, rec)
			return nil
		},
	}, func(rec chunk.Record) error {
		if rec.Ordinal == 5 {
			attempts++
			return poisoned
		}
		return nil
	})
	recs := w.sinkHas(s, 9)
	w.acked("audit", want[9].Seq)
	_ = s.stop() // context canceled
	same(t, recs, slices.Concat(want[:4], want[5:]))
	same(t, letters, want[4:5])
	if attempts != 3 || w.reader.Stats().DeadLetters != 1 {
		t.Errorf("%d attempts and %d dead letters, want 3 and 1", attempts, w.reader.Stats().DeadLetters)
	}
}

// An unavailable sink fails every record: Run ends, and the records are not dead letters.
func TestFirehoseEndsIfAllRecordsFail(t *testing.T) {
	w := newEnv(t, Config{})
	w.sayAll(alice, 10)
	unavailable := errors.New("connection refused")
	letters := 0
	s := w.firehoseFailing(w.reader, FirehoseConfig{
		Name: "audit", MaxAttempts: 2, DeadLetter: func(context.Context, chunk.Record, error) error { letters++; return nil },
	}, func(chunk.Record) error { return unavailable })
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		t.Fatal("Run has not ended")
	}
	if !errors.Is(s.err, unavailable) || letters != maxDeadLettersInRow-1 {
		t.Errorf("err = %v after %d dead letters, want that of the handler after %d", s.err, letters, maxDeadLettersInRow-1)
	}
}
