package hub_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// Follow returns the records of the log with all of their fields, those of a sub-agent too, beyond the end of a run; without one, it returns at each tick.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		records, err := h.Follow(t.Context(), aRoot, chunk.Position{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		if got, err := nextRecords(t, records, tick.C); err != nil || len(got) > 0 {
			t.Fatalf("%v, %v: want none at the tick", got, err)
		}
		child := aRoot.Child("kid")
		for _, s := range []chunk.Session{aRoot, child, aRoot, aRoot} {
			log.Append(s, chunk.TypeTextDelta, `"delta":"a\n\u0000b"`)
			log.Append(s, chunk.TypeStreamEnd, `"streamId":"x"`)
		}
		want := append(log.Session(aRoot), log.Session(child)...)
		bySeq := map[chunk.Seq]chunk.Record{}
		for _, rec := range want {
			bySeq[rec.Seq] = rec
		}
		for last := chunk.Seq(0); len(bySeq) > 0; {
			got, err := nextRecords(t, records, tick.C)
			if err != nil || len(got) == 0 {
				t.Fatalf("%v, %v; want %d records more", got, err, len(bySeq))
			}
			for _, rec := range got {
				w := bySeq[rec.Seq]
				if rec.Seq <= last || rec.Session != w.Session || rec.Epoch != w.Epoch || rec.Ordinal != w.Ordinal || rec.Type != w.Type ||
					!bytes.Equal(rec.Data, w.Data) || rec.StoredAt.UnixMilli() != w.StoredAt.UnixMilli() {
					t.Errorf("got %+v, want %+v", rec, w)
				}
				last = rec.Seq
				delete(bySeq, rec.Seq)
			}
		}
	})
}

// nextRecords returns the next records, none at a tick.
func nextRecords(t *testing.T, cur *hub.Cursor, tick <-chan time.Time) (all []chunk.Record, err error) {
	t.Helper()
	batch, err := cur.Next(t.Context(), tick)
	reader := hub.ReadRecords(batch.Frames, aRoot)
	for reader.Next() {
		all = append(all, reader.Record)
	}
	return all, errors.Join(err, reader.Err)
}

// All records of a session have expired, and its next run begins while the log is read for the position of a snapshot: between the request for the last record of
// the root, which there is none of, and that for the records of sub-agents. The run follows the position.
func TestFollowAnExpiredSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		begin := sync.OnceFunc(func() { log.Append(aRoot, chunk.TypeRunStarted, "") })
		h := start(t, beforeReplay{log, begin}, log, hub.Config{})
		log.Append(aRoot, chunk.TypeRunStarted, "")
		last := log.Append(aRoot, chunk.TypeStreamEnd, "")
		log.Expire(log.End())
		records, err := h.Follow(t.Context(), aRoot, last.Position(), last.Seq)
		if err != nil {
			t.Fatal(err)
		}
		defer records.Close()
		got, err := nextRecords(t, records, nil)
		if err != nil || len(got) != 1 || got[0].Ordinal != last.Ordinal+1 {
			t.Errorf("%v, %v; want the record of the next run", got, err)
		}
	})
}

// beforeReplay is a log that calls do before each replay.
type beforeReplay struct {
	*memlog.Log

	do func()
}

func (l beforeReplay) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	l.do()
	return l.Log.Replay(ctx, of)
}

// Frames that are cut off have the records before, and an error unless they end with one of them.
func TestReadRecordsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New()
		h := start(t, log, log, hub.Config{})
		long := `"delta":"` + strings.Repeat("x", 200) + `"`
		want := []chunk.Record{log.Append(aRoot, chunk.TypeTextDelta, long), log.Append(aRoot.Child("kid"), chunk.TypeTextDelta, `"delta":"x"`)}
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Encoding: hub.RecordEncoding})
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		batch, err := cur.Next(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ends := []int{0}
		for n := range len(batch.Frames) + 1 {
			var got []chunk.Record
			reader := hub.ReadRecords(batch.Frames[:n], aRoot)
			for reader.Next() {
				got = append(got, reader.Record)
			}
			if len(got) == len(ends) {
				ends = append(ends, n)
			}
			if len(got) != len(ends)-1 || (reader.Err == nil) != slices.Contains(ends, n) {
				t.Fatalf("%d bytes: %d records, then %v", n, len(got), reader.Err)
			}
			for i, rec := range got {
				if rec.Session != want[i].Session || rec.Seq != want[i].Seq || !bytes.Equal(rec.Data, want[i].Data) {
					t.Fatalf("%d bytes: record %d is %v, want %v", n, i, rec, want[i])
				}
			}
		}
		if len(ends) != 3 {
			t.Errorf("%d records", len(ends)-1)
		}
	})
}
