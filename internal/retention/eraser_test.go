package retention

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// say starts a run, writes a large text and does not end the run.
func (w *env) say(s chunk.Session) *producers.Run {
	w.Helper()
	run, err := w.producer.Start(w.Context(), s, chunk.RunStarted{Input: []chunk.InputMessage{{Content: "question"}}})
	if err != nil {
		w.Fatal(err)
	}
	w.write(run, strings.Repeat("long ", 15_000))
	return run
}

func (w *env) write(run *producers.Run, text string) {
	w.Helper()
	if err := run.EmitBody(w.Context(), chunk.TextDelta{Delta: text}); err != nil {
		w.Fatal(err)
	}
	if _, err := run.Flush(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// projected waits until the snapshot has all records of the log.
func (w *env) projected(s chunk.Session) {
	w.Helper()
	natstest.Eventually(w.T, "the projector", func(ctx context.Context) error {
		snap, err := w.Reader.Snapshot(ctx, s)
		if err != nil {
			return err
		}
		if pos, _, _, err := w.Reader.StoredPosition(ctx, s); err != nil || pos != snap.Position {
			return fmt.Errorf("head at %v of %v, %w", pos, snap.Position, err)
		}
		return nil
	})
}

func (w *env) delete(s chunk.Session) {
	w.Helper()
	if err := w.eraser.Delete(w.Context(), s); err != nil {
		w.Fatal(err)
	}
	// A projector that is saving at this moment has an object in the store until it finds the tombstone, and the next Delete finds that.
	natstest.Eventually(w.T, "nothing is left to delete", func(ctx context.Context) error {
		if err := w.eraser.Delete(ctx, s); !errors.Is(err, chunk.ErrUnknownSession) {
			return fmt.Errorf("delete again: %w, want ErrUnknownSession", err)
		}
		return nil
	})
}

// left returns the subjects that have messages, except those of the session with the name other.
func (w *env) left() (all []string) {
	w.Helper()
	tokens := make(map[string]bool)
	for _, name := range []string{"TR_CHUNKS_0", "KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS"} {
		stream, err := w.JS.Stream(w.Context(), name)
		if err != nil {
			w.Fatal(err)
		}
		info, err := stream.Info(w.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			w.Fatal(err)
		}
		for subject, n := range info.State.Subjects {
			last := subject[strings.LastIndexByte(subject, '.')+1:]
			switch {
			case strings.HasSuffix(subject, ".turn.sweep"): // the lease of the sweep
			case strings.Contains(subject, ".other."):
				tokens[last], tokens[base64.URLEncoding.EncodeToString([]byte(last))] = true, true
			case !tokens[last]:
				all = append(all, fmt.Sprintf("%s %d", subject, n))
			}
		}
	}
	return all
}

// onlyTombstones sweeps and checks that of each session only the last record and the tombstone remain, and that both have a TTL.
func (w *env) onlyTombstones(sessions ...chunk.Session) {
	w.Helper()
	w.goneAfter(func(ctx context.Context) error {
		_, err := w.eraser.SweepAt(ctx, time.Now().Add(time.Hour))
		return err
	}, sessions...)
}

// gone is onlyTombstones without a sweep.
func (w *env) gone(sessions ...chunk.Session) {
	w.Helper()
	w.goneAfter(func(context.Context) error { return nil }, sessions...)
}

func (w *env) goneAfter(sweep func(ctx context.Context) error, sessions ...chunk.Session) {
	w.Helper()
	natstest.Eventually(w.T, "only tombstones", func(ctx context.Context) error {
		if err := sweep(ctx); err != nil {
			return err
		}
		want := make(map[string]bool)
		for _, s := range sessions {
			name := s.Tenant + "." + s.Root + "." + s.ID
			want["tr.chunks.0."+name+" 1"], want["$KV.TR_SNAPSHOTS.h."+name+" 1"] = true, true
		}
		for _, subject := range w.left() {
			if !want[subject] {
				return fmt.Errorf("left: %s", subject)
			}
			delete(want, subject)
		}
		if len(want) > 0 {
			return fmt.Errorf("missing: %v", want)
		}
		return w.expires(ctx, sessions)
	})
	for _, s := range sessions {
		if snap, err := w.Reader.Snapshot(w.Context(), s); !errors.Is(err, chunk.ErrUnknownSession) {
			w.Errorf("snapshot of %s: at %v, %v; want ErrUnknownSession", s, snap.Position, err)
		}
	}
}

func (w *env) expires(ctx context.Context, sessions []chunk.Session) error {
	api := jsclient.New(w.JS)
	for _, s := range sessions {
		name := s.Tenant + "." + s.Root + "." + s.ID
		for stream, subject := range map[string]string{"TR_CHUNKS_0": "tr.chunks.0." + name, "KV_TR_SNAPSHOTS": "$KV.TR_SNAPSHOTS.h." + name} {
			m, err := api.Last(ctx, stream, subject)
			if err != nil || m.Header.Get(jetstream.MsgTTLHeader) == "" {
				return fmt.Errorf("%s has no TTL, %w", subject, err)
			}
		}
	}
	return nil
}

// A root is deleted with its children, a child alone, and other sessions stay.
func TestDeleteTree(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	child, other := s1.Child("helper"), chunk.RootSession("acme", "other")
	for _, s := range []chunk.Session{s1, child, other, s1.Child("second")} {
		w.say(s)
		w.projected(s)
	}
	w.delete(child)
	if _, err := w.Reader.Snapshot(t.Context(), s1); err != nil {
		t.Errorf("the root of a deleted child: %v", err)
	}
	w.delete(s1)
	stop()
	w.onlyTombstones(s1, child, s1.Child("second"))
	if snap, err := w.Reader.Snapshot(t.Context(), other); err != nil || snap.Position.Ordinal < 2 {
		t.Errorf("another session: %v, %v", snap.Position, err)
	}
}

// A writer gets ErrFenced, an attached reader gets the last record, and a reader with an earlier position gets TruncatedExpired.
func TestWriterAndReaders(t *testing.T) {
	w := newEnv(t)
	run := w.say(s1)
	next := make(chan chunk.Record)
	ended := make(chan error, 1)
	go func() {
		for rec, err := range w.log.Follow(t.Context(), chunk.Range{Session: s1}) {
			if err != nil {
				ended <- err
				return
			}
			next <- rec
		}
		ended <- nil
	}()
	first := <-next
	for at := first; at.Position() != run.Position(); { // until it has all
		at = <-next
	}
	deleted := make(chan error, 1)
	go func() { deleted <- w.eraser.Delete(t.Context(), s1) }()
	for rec := range next {
		if rec.Type == chunk.TypeStreamFailed {
			break
		}
	}
	if err := <-ended; !errors.Is(err, chunk.ErrFailed) || !strings.HasSuffix(err.Error(), ": the session was deleted") {
		t.Errorf("reader: %v", err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	err := run.EmitBody(t.Context(), chunk.TextDelta{Delta: "and more"})
	if err == nil {
		_, err = run.Flush(t.Context())
	}
	if !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("writer: %v, want ErrFenced", err)
	}
	for _, err := range w.log.Replay(t.Context(), chunk.Range{Session: s1, After: chunk.Position{Seq: first.Seq}}) {
		var truncated *chunk.TruncatedError
		if !errors.As(err, &truncated) || truncated.Reason != chunk.TruncatedExpired {
			t.Errorf("earlier cursor: %v, want TruncatedExpired", err)
		}
	}
	w.onlyTombstones(s1)
}

// A new run of a deleted session has none of the old data, and all of the bytes that a session may have.
func TestNewRun(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	w.say(s1)
	w.projected(s1)
	w.delete(s1)
	run := w.say(s1)
	w.write(run, "new")
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.projected(s1)
	stop()
	var stored int64
	for rec, err := range w.log.Replay(t.Context(), chunk.Range{Session: s1, FromOldest: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Epoch < run.Epoch() {
			continue // the deletion record
		}
		if stored += int64(len(rec.Data)); rec.SessionBytes != stored {
			t.Errorf("record %d: the session has %d bytes, want the %d since its deletion", rec.Ordinal, rec.SessionBytes, stored)
		}
	}
	snap, err := w.Reader.Snapshot(t.Context(), s1)
	if err != nil || snap.SessionBytes != stored || stored < 75_000 {
		t.Errorf("the snapshot has %d bytes of %d, %v", snap.SessionBytes, stored, err)
	}
	if err != nil || snap.FinishedCount() != 2 || snap.Faults.Lost != 0 || snap.Status != fold.Ended {
		t.Errorf("%d messages, %d lost, %s, %v", snap.FinishedCount(), snap.Faults.Lost, snap.Status, err)
	}
	w.delete(s1)
	w.onlyTombstones(s1)
}

// A session whose log has expired, and one that no projector has seen.
func TestDeleteWithoutLogOrSnapshot(t *testing.T) {
	w := newEnv(t)
	w.say(s1)
	w.delete(s1)
	w.onlyTombstones(s1)

	stop := w.project()
	old := chunk.RootSession("acme", "old")
	w.say(old)
	w.projected(old)
	stop()
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.delete(old)
	if snap, err := w.Reader.Snapshot(t.Context(), old); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("at %v, %v", snap.Position, err)
	}
	if err := w.eraser.Delete(t.Context(), chunk.RootSession("acme", "unknown")); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("unknown session: %v", err)
	}
}

// errDied simulates a crash at a step.
var errDied = errors.New("died")

// dying is a SnapshotStore whose process crashes before a step.
type dying struct {
	*jssnapshots.Store

	before string
}

func (d dying) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	if d.before == "tombstone" {
		return 0, errDied
	}
	r, err := d.Store.Save(ctx, snap, after)
	if err == nil && d.before == "purge" {
		err = errDied
	}
	return r, err
}

func (d dying) DeleteData(ctx context.Context, tombstone fold.Snapshot, r, before projector.Revision, expire bool) (bool, error) {
	if d.before == "clear" {
		return false, errDied
	}
	return d.Store.DeleteData(ctx, tombstone, r, before, expire)
}

// A process crashes between the steps. Before the tombstone is written the session exists, and the next Delete completes the deletion; after that the
// session is unknown, and the next sweep completes it. A run that has been started since is not affected.
func TestDeletionAfterCrash(t *testing.T) {
	for _, step := range []string{"tombstone", "purge", "clear"} {
		t.Run("before the "+step, func(t *testing.T) {
			w := newEnv(t)
			stop := w.project()
			fresh := chunk.RootSession("acme", "other")
			for _, s := range []chunk.Session{s1, fresh} {
				w.say(s)
				w.projected(s)
				eraser, err := NewEraser(w.JS, dying{w.store, step}, EraserConfig{})
				if err != nil {
					t.Fatal(err)
				}
				if err := eraser.Delete(t.Context(), s); !errors.Is(err, errDied) {
					t.Fatal(err)
				}
				_, err = w.Reader.Snapshot(t.Context(), s)
				if step == "tombstone" {
					if err != nil {
						t.Fatalf("crash before the tombstone: %v", err)
					}
					w.delete(s)
				} else if !errors.Is(err, chunk.ErrUnknownSession) {
					t.Fatalf("crash after the tombstone: %v, want ErrUnknownSession", err)
				}
			}
			w.say(fresh)
			w.projected(fresh)
			stop()
			w.onlyTombstones(s1)
			snap, err := w.Reader.Snapshot(t.Context(), fresh)
			if err != nil || snap.TurnMessages() != 1 || snap.Faults.Lost != 0 {
				t.Errorf("session with a new run: %d messages, %d lost, %v", snap.TurnMessages(), snap.Faults.Lost, err)
			}
		})
	}
}

// A projector crashes at any moment of a deletion, and another one takes over: no data reappears, and none is left.
func TestDeletionAfterProjectorCrash(t *testing.T) {
	w := newEnv(t)
	var all []chunk.Session
	for n := range 20 {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		all = append(all, s)
		stop := w.project()
		run := w.say(s)
		if n%2 == 0 {
			w.projected(s)
		}
		w.write(run, strings.Repeat("more ", 10_000))
		deleted := make(chan error, 1)
		go func() { deleted <- w.eraser.Delete(t.Context(), s) }()
		stop()
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
	}
	stop := w.project()
	last := chunk.RootSession("acme", "other")
	w.say(last)
	w.projected(last)
	stop()
	w.onlyTombstones(all...)
}

// A snapshot that has not been written to for the maximum age of snapshots expires with all its data, unless the log has records of it; one that is written to stays, with all
// its messages.
func TestMaxAge(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	old, written := chunk.RootSession("acme", "old"), chunk.RootSession("acme", "written")
	for _, s := range []chunk.Session{old, written} {
		run := w.say(s)
		if err := run.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		w.projected(s)
	}
	sweep := func(in time.Duration, want int) {
		t.Helper()
		if n, err := w.eraser.SweepAt(t.Context(), time.Now().Add(in)); err != nil || n != want {
			t.Errorf("in %s: %d removed, %v; want %d", in, n, err, want)
		}
	}
	sweep(91*24*time.Hour, 0) // the log still has them
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range []chunk.Session{old, written} { // the snapshot outlives the log
		if snap, err := w.Reader.Snapshot(t.Context(), s); err != nil || snap.FinishedCount() != 2 || snap.Faults.Lost != 0 {
			t.Errorf("%s: %d messages, %v", s, snap.FinishedCount(), err)
		}
	}
	run := w.say(written)
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	w.projected(written)
	stop()
	sweep(89*24*time.Hour, 0)
	sweep(91*24*time.Hour, 1)
	if snap, err := w.Reader.Snapshot(t.Context(), old); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("expired session: %v, %v", snap.Position, err)
	}
	if snap, err := w.Reader.Snapshot(t.Context(), written); err != nil || snap.FinishedCount() != 4 || snap.Faults.Lost != 0 {
		t.Errorf("session with a new run: %d messages, %d lost, %v", snap.FinishedCount(), snap.Faults.Lost, err)
	}
}
