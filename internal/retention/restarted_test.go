package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// withAny returns the subjects of the messages that contain one of the texts, of all streams.
func (w *env) withAny(texts ...string) (found []string) {
	w.Helper()
	for stream := range w.JS.ListStreams(w.Context()).Info() {
		for from := uint64(1); ; {
			m, err := jsclient.New(w.JS).Next(w.Context(), stream.Config.Name, ">", from)
			if errors.Is(err, jsclient.ErrNotFound) {
				break
			}
			must(w.T, err)
			from = m.Seq + 1
			all := slices.Concat([]byte(m.Subject), m.Block, m.Data)
			if slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(all, []byte(text)) }) {
				found = append(found, fmt.Sprintf("%s %d %s", stream.Config.Name, m.Seq, m.Subject))
			}
		}
	}
	return found
}

// A session is deleted and starts again. Then a projector that was stalled saves the deleted session: it removes what it has written. Another one that crashes
// after that leaves packs, a dead letter and an answer, and the next sweep removes them. The new run keeps its data, also if no projector has saved it.
func TestLateWritesToARestartedSession(t *testing.T) {
	for name, isSaved := range map[string]bool{"saved": true, "not saved": false} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			stop := w.project()
			for range 3 { // each with a question and a text
				must(t, w.say(s1).End(t.Context(), nil))
			}
			w.projected(s1)
			late, r, err := w.store.Load(t.Context(), s1)
			must(t, err)
			full, err := w.Reader.Snapshot(t.Context(), s1)
			must(t, err)
			api := jsclient.New(w.JS)
			pack, err := api.Last(t.Context(), "KV_TR_SNAPSHOTS", "$KV.TR_SNAPSHOTS.m.acme.s1.s1.*")
			must(t, err)
			w.delete(s1)
			if !isSaved {
				stop()
			}

			next, err := w.producer.Start(t.Context(), s1, chunk.RunStarted{RunID: "fresh", Input: []chunk.InputMessage{{Content: "And now?"}}})
			must(t, err)
			w.write(next, "fresh")
			must(t, next.End(t.Context(), nil))
			if isSaved {
				w.projected(s1)
				stop()
			}
			if _, err := w.store.Save(t.Context(), full, r); !errors.Is(err, projector.ErrConflict) {
				t.Fatalf("late save: %v, want ErrConflict", err)
			}
			if found := w.withAny("long lon", "question", ".p9"); found != nil {
				t.Errorf("after the late save: %v", found)
			}

			_, err = w.JS.Publish(t.Context(), "$KV.TR_SNAPSHOTS.m.acme.s1.s1.p9", pack.Data)
			must(t, err)
			entry := DeadLetter{Reason: ReasonRecord, Detail: "late", Origin: Origin{
				Stream: "TR_CHUNKS_0", Subject: "tr.chunks.0.acme.s1.s1", Seq: late.Position.Seq, Stored: pack.Stored,
			}, Data: []byte("long lon")}
			_, err = w.JS.PublishMsg(t.Context(), entry.message("tr.deadletters.acme.s1.s1.1-a"))
			must(t, err)
			must(t, w.Inbox.Answer(t.Context(), control.Answer{Session: s1, RunID: "r1", CallID: "c", Kind: control.ClientResult, Result: chunk.Value(`"long lon"`)}))
			must(t, w.Inbox.Answer(t.Context(), control.Answer{Session: s1, RunID: "fresh", CallID: "c", Kind: control.ClientResult, Result: chunk.Value(`"fresh"`)}))
			if found := w.withAny("long lon", "question", ".p9"); len(found) != 3 {
				t.Fatalf("before the sweep: %v", found)
			}
			if _, err := w.eraser.SweepAt(t.Context(), time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			if found := w.withAny("long lon", "question", ".p9"); found != nil {
				t.Errorf("after the sweep: %v", found)
			}
			snap, err := w.Reader.Snapshot(t.Context(), s1)
			if err != nil || snap.FinishedCount() != 2 || snap.Faults.Lost != 0 {
				t.Errorf("the new run has %d messages, %d lost, %v", snap.FinishedCount(), snap.Faults.Lost, err)
			}
			if answers, err := w.Inbox.Answers(t.Context(), s1, "fresh"); err != nil || len(answers) != 1 {
				t.Errorf("the new run has the answers %v, %v", answers, err)
			}
		})
	}
}

// storeDuring is a store that calls a function before its first save.
type storeDuring struct {
	projector.Store

	once sync.Once
	do   func()
}

func (st *storeDuring) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	st.once.Do(st.do)
	return st.Store.Save(ctx, snap, after)
}

// A session is deleted and starts again while a rebuild has read the log and has not saved its fold. The rebuild begins again, and the session that has started
// again keeps its own content only.
func TestRebuildDuringADeletion(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	must(t, w.say(s1).End(t.Context(), nil))
	w.projected(s1)
	store := &storeDuring{Store: w.store, do: func() {
		w.delete(s1)
		next, err := w.producer.Start(t.Context(), s1, chunk.RunStarted{RunID: "fresh", Input: []chunk.InputMessage{{Content: "And now?"}}})
		must(t, err)
		w.write(next, "fresh")
		must(t, next.End(t.Context(), nil))
		w.projected(s1)
		stop()
	}}
	head, r, err := w.store.Load(t.Context(), s1)
	must(t, err)
	head.Run.Output = chunk.Value(`"of another build"`) // so that the rebuild has something to replace
	_, err = w.store.Save(t.Context(), head, r)
	must(t, err)
	if _, err := projector.Rebuild(t.Context(), store, w.log, s1); err != nil {
		t.Error(err)
	}
	if found := w.withAny("long lon", "question"); found != nil {
		t.Errorf("after the rebuild: %v", found)
	}
	snap, err := w.Reader.Snapshot(t.Context(), s1)
	if err != nil || snap.FinishedCount() != 2 || snap.Faults.Lost != 0 {
		t.Errorf("the new run has %d messages, %d lost, %v", snap.FinishedCount(), snap.Faults.Lost, err)
	}
}

// A dead letter is stored after the purge of those of its session: the sweep removes it.
func TestLateDeadLetter(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	run := w.say(s1)
	w.projected(s1)
	m, err := jsclient.New(w.JS).Last(t.Context(), "TR_CHUNKS_0", "tr.chunks.0.acme.s1.s1")
	must(t, err)
	w.delete(s1)
	stop()
	entry := DeadLetter{Reason: ReasonRecord, Origin: Origin{Stream: "TR_CHUNKS_0", Subject: m.Subject, Seq: run.Position().Seq, Stored: m.Stored}, Header: m.Block, Data: m.Data}
	_, err = w.JS.PublishMsg(t.Context(), entry.message("tr.deadletters.acme.s1.s1.1-a"))
	must(t, err)
	w.onlyTombstones(s1)
	if found := w.withAny("long lon"); found != nil {
		t.Errorf("left: %v", found)
	}
}
