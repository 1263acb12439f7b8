package jssnapshots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// packKeys returns the keys of the packs of a session.
func packKeys(t *testing.T, st *Store, s chunk.Session) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	b, err := st.bucketOf(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	filter, err := names.SnapshotPackKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	info, err := st.info(ctx, b, b.subject(filter))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for subject := range info.State.Subjects {
		keys = append(keys, b.key(subject))
	}
	slices.Sort(keys)
	return keys
}

// Two projectors fold random logs and save one session, and each dies after any number of its packs and before its head. The stored snapshot equals the fold after
// each save that succeeds, and its parts are those of the whole. In the end the number of keys depends on the bytes and not on the messages.
func TestTwoProjectorsWithCrashes(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	sessions := 0
	rapid.Check(t, func(rt *rapid.T) {
		sessions++
		s := chunk.RootSession("acme", fmt.Sprint("s", sessions))
		log := storetest.NewLog()
		a := storetest.NewSessionGenerator(log, s, rapid.Uint64().Draw(rt, "seed"))
		type process struct {
			folder   *fold.Folder
			revision projector.Revision
		}
		load := func() *process {
			head, revision, err := st.Load(t.Context(), s)
			if errors.Is(err, projector.ErrNoSnapshot) {
				return &process{folder: fold.New(s)}
			}
			if err != nil {
				rt.Fatal(err)
			}
			return &process{fold.From(head), revision}
		}
		catchUp := func(p *process) {
			for rec, err := range log.Replay(t.Context(), chunk.Range{Session: s, After: p.folder.Position()}) {
				if err != nil {
					rt.Fatal(err)
				}
				err := p.folder.Apply(rec)
				if errors.Is(err, fold.ErrInvalidRecord) {
					err = p.folder.Skip(rec, err.Error())
				}
				if errors.Is(err, fold.ErrRefold) || errors.Is(err, fold.ErrGap) {
					p.folder.Reset(storetest.Fold(t, log, s)) // from the start, with all messages
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
		}
		procs := []*process{load(), load()}
		for range 4 {
			a.Write(t, rapid.IntRange(1, 300).Draw(rt, "records"))
			for _, i := range []int{0, 1} {
				p := procs[i]
				catchUp(p)
				snap := p.folder.Snapshot()
				packs := snap.Packs()
				if rapid.Bool().Draw(rt, "dies") {
					b, err := st.bucketOf(t.Context(), s)
					if err != nil {
						rt.Fatal(err)
					}
					died := saving{Store: st, b: b, session: s, life: snap.Created, key: "h.acme." + s.Root + "." + s.ID, after: p.revision}
					err = died.savePacks(t.Context(), packs[:rapid.IntRange(0, len(packs)).Draw(rt, "written")])
					if err != nil && !errors.Is(err, projector.ErrConflict) {
						rt.Fatal(err)
					}
					procs[i] = load()
					continue
				}
				revision, err := st.Save(t.Context(), snap, p.revision)
				if errors.Is(err, projector.ErrConflict) {
					procs[i] = load()
					continue
				}
				if err != nil {
					rt.Fatal(err)
				}
				p.revision = revision
				p.folder.Trim()
				whole := storetest.Fold(t, log, s)
				storetest.Equal(t, "stored", storetest.Stored(t, st, s), whole)
				trimmed := p.folder.Snapshot()
				if n := trimmed.TrimmedCount(); n > 0 {
					from := rapid.IntRange(0, n-1).Draw(rt, "from")
					part, err := st.Range(t.Context(), trimmed, revision, from, n)
					if err != nil {
						rt.Fatalf("messages from %d of %d: %v", from, n, err)
					}
					for i, data := range part {
						if !bytes.Equal(data, whole.FinishedMessages()[from+i].Data) {
							rt.Fatalf("message %d is %s", from+i, data)
						}
					}
				}
			}
		}
		whole, size, generations := storetest.Fold(t, log, s), 0, map[chunk.Ordinal]bool{}
		for _, m := range whole.FinishedMessages() {
			size += len(m.Data)
			generations[m.Generation] = true
		}
		keys := packKeys(t, st, s)
		// Two packs next to each other have more than 16 KiB together, unless a generation or the count ends one of them.
		if limit := 2*(size/(16<<10)+1) + 3*len(generations) + len(whole.FinishedMessages())/fold.MaxPackMessages + 16; len(keys) > limit {
			rt.Fatalf("%d keys for %d messages of %d bytes in %d generations, want at most %d", len(keys), len(whole.FinishedMessages()), size, len(generations), limit)
		}
	})
}

// N small messages have ceil(bytes / 16 KiB) keys, and some more because a pack ends before the message that does not fit.
func TestKeysDependOnBytes(t *testing.T) {
	st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{})
	log := storetest.NewLog()
	f, revision := fold.New(s1), projector.Revision(0)
	for n := range 300 {
		input := []chunk.InputMessage{{Content: strings.Repeat("question ", 30)}}
		for _, body := range []chunk.Body{
			chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n) + 1, Mode: "execute", Input: input},
			chunk.TextDelta{Delta: strings.Repeat("answer ", 60)}, chunk.StreamEnd{StreamID: "s1"},
		} {
			if err := f.Apply(log.Append(t, s1, 1, body)); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if revision, err = st.Save(t.Context(), f.Snapshot(), revision); err != nil {
			t.Fatal(err)
		}
		f.Trim()
	}
	whole, size := storetest.Stored(t, st, s1), 0
	for _, m := range whole.FinishedMessages() {
		size += len(m.Data)
	}
	keys := packKeys(t, st, s1)
	if n := len(whole.FinishedMessages()); n != 600 || len(keys) > (size+16<<10-1)/(16<<10)*11/10+1 {
		t.Errorf("%d keys for %d messages of %d bytes", len(keys), n, size)
	}
}

// A projector of the life of a session before its deletion is slow and writes its packs late. The session that has started again is read without them.
func TestPackOfAnEarlierLife(t *testing.T) {
	st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{})
	earlier, later := conversationOf(t, "earlier", 5000), conversationOf(t, "later", 2500)
	if earlier.Created == later.Created {
		t.Fatal("both lives begin at the same time")
	}
	revision, err := st.Save(t.Context(), later, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := st.bucketOf(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	late := saving{Store: st, b: b, session: s1, life: earlier.Created, key: "h.acme.s1.s1"}
	for _, p := range earlier.Packs()[:4] { // with messages that the packs of the later life have too
		if err := late.savePack(t.Context(), p); err != nil && !errors.Is(err, projector.ErrConflict) {
			t.Fatal(err)
		}
	}
	storetest.Equal(t, "stored", storetest.Stored(t, st, s1), later)
	if n := len(packKeys(t, st, s1)); n <= len(later.Packs()) {
		t.Fatalf("%d keys: no late pack was stored", n)
	}
	// A complete fold that replaces the head removes them.
	if _, err := st.Save(t.Context(), later, revision); err != nil {
		t.Fatal(err)
	}
	if n := len(packKeys(t, st, s1)); n != len(later.Packs()) {
		t.Errorf("%d keys for %d packs after a complete save", n, len(later.Packs()))
	}
	storetest.Equal(t, "after the complete save", storetest.Stored(t, st, s1), later)
}

// conversationOf folds 30 turns whose messages have about the given number of bytes.
func conversationOf(t *testing.T, text string, size int) fold.Snapshot {
	t.Helper()
	log, f := storetest.NewLog(), fold.New(s1)
	for n := range 30 {
		for _, body := range []chunk.Body{
			chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n) + 1, Mode: "execute", Input: []chunk.InputMessage{{Content: text}}},
			chunk.TextDelta{Delta: strings.Repeat(text+" ", size/len(text))}, chunk.StreamEnd{StreamID: "s1"},
		} {
			rec := log.Append(t, s1, 1, body)
			rec.StoredAt = rec.StoredAt.Add(time.Duration(size) * time.Second) // another life for another size
			if err := f.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f.Snapshot()
}
