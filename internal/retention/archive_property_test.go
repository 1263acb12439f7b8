package retention

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// For every history of a log and of its archives, a reader with archives gets the same as a reader without them.
func TestReaderWithArchivesMatchesReaderWithout(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		h := &history{archiveEnv: w, root: chunk.RootSession("acme", fmt.Sprint("root", round)), epochs: make(map[chunk.Session]chunk.Epoch)}
		h.sessions = []chunk.Session{h.root}
		for kid := range rapid.SampledFrom([]int{0, 1, 2, 6}).Draw(rt, "sub-agents") { // few and many are read in different ways
			h.sessions = append(h.sessions, h.root.Child(fmt.Sprint("kid", kid)))
		}
		for range rapid.IntRange(5, 35).Draw(rt, "steps") {
			h.step(rt)
		}
		for range 2 {
			h.ask(rt)
		}
	})
	s := w.archives.Stats()
	if s.Archived < 50 {
		t.Errorf("only %d records were read from archives", s.Archived)
	}
}

type history struct {
	*archiveEnv

	root     chunk.Session
	sessions []chunk.Session
	ever     []chunk.Record
	epochs   map[chunk.Session]chunk.Epoch
}

func (h *history) step(rt *rapid.T) {
	s := rapid.SampledFrom(h.sessions).Draw(rt, "session")
	epoch := max(1, h.epochs[s])
	switch what := rapid.IntRange(0, 99).Draw(rt, "what"); {
	case what < 50:
		for range rapid.IntRange(1, 6).Draw(rt, "chunks") {
			h.ever = append(h.ever, h.put(s, epoch, chunk.TextDelta{Delta: fmt.Sprint(what)}))
		}
	case what < 56:
		h.ever = append(h.ever, h.put(s, epoch, chunk.StreamEnd{StreamID: "x"}))
	case what < 58:
		h.cleanUp(rt, s, epoch)
	case what < 60 && h.next[s] > 0: // a takeover, and late writes of the fenced writer
		h.epochs[s] = epoch + 1
		h.ever = append(h.ever, h.put(s, epoch+1, chunk.RunStarted{RunID: "successor", Epoch: int64(epoch + 1), Mode: "takeover"}))
		if rapid.Bool().Draw(rt, "fenced") {
			h.putAt(s, epoch, h.next[s], chunk.TextDelta{Delta: "fenced"})
		}
	case what < 61:
		_, err := h.js.Publish(h.ctx(), h.subject(s), []byte("not an event"))
		h.must(err)
	case what < 63:
		h.lose(rt, s)
	case what < 64:
		h.expire(rt)
	case what < 65:
		h.purge(s)
		h.next[s] = 0
		delete(h.epochs, s)
	case what < 80:
		h.archive(s)
	case what < 85:
		for _, s := range h.sessions {
			h.archive(s)
		}
	case what < 90:
		_, err := h.c.Sweep(h.ctx())
		h.must(err)
	default:
		h.ask(rt)
	}
}

func (h *history) archive(s chunk.Session) {
	_, err := h.c.Archive(h.ctx(), s)
	if err != nil && !errors.Is(err, ErrNotArchivable) && !errors.Is(err, chunk.ErrUnknownSession) {
		h.tb.Fatal(err)
	}
}

// cleanUp removes the last records of s, as a writer does, or as a writer that crashes while it deletes.
func (h *history) cleanUp(rt *rapid.T, s chunk.Session, epoch chunk.Epoch) {
	recs := h.of(s)
	if len(recs) < 2 {
		return
	}
	recs = recs[rapid.IntRange(1, len(recs)-1).Draw(rt, "clean up from"):]
	body := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(recs[0].Seq), AtSequence: int64(recs[len(recs)-1].Seq)}
	for _, rec := range recs {
		body.Removed = append(body.Removed, chunk.OrdinalRange{First: int64(rec.Ordinal), Last: int64(rec.Ordinal)})
	}
	mark := h.put(s, epoch, body)
	for _, rec := range recs[:rapid.IntRange(0, len(recs)).Draw(rt, "deleted")] {
		h.delete(rec)
	}
	h.ever = append(h.ever, mark)
}

func (h *history) of(s chunk.Session) (recs []chunk.Record) {
	for _, rec := range h.ever {
		if rec.Session == s {
			recs = append(recs, rec)
		}
	}
	return recs
}

// delete removes a message, which may be deleted already.
func (h *history) delete(rec chunk.Record) {
	h.tb.Helper()
	err := h.log().DeleteMsg(h.ctx(), uint64(rec.Seq))
	if _, missing := h.log().GetMsg(h.ctx(), uint64(rec.Seq)); err != nil && !errors.Is(missing, jetstream.ErrMsgNotFound) {
		h.tb.Fatal(err)
	}
}

func (h *history) lose(rt *rapid.T, s chunk.Session) {
	if recs := h.of(s); len(recs) > 0 {
		h.delete(rapid.SampledFrom(recs).Draw(rt, "lose"))
	}
}

func (h *history) expire(rt *rapid.T) {
	if len(h.ever) > 0 {
		rec := rapid.SampledFrom(h.ever).Draw(rt, "expire")
		h.must(h.log().Purge(h.ctx(), jetstream.WithPurgeSequence(uint64(rec.Seq))))
	}
}

// ask sends the same request to both readers.
func (h *history) ask(rt *rapid.T) {
	s := rapid.SampledFrom(h.sessions).Draw(rt, "of")
	after := h.position(rt)
	of := chunk.Range{Session: s, After: after}
	if rapid.IntRange(0, 2).Draw(rt, "bounded") == 0 {
		of.Through = after.Seq + chunk.Seq(rapid.IntRange(1, 25).Draw(rt, "through"))
	}
	of.FromOldest = rapid.IntRange(0, 4).Draw(rt, "from oldest") == 0
	if d := differ(h.both(of)); d != "" {
		rt.Fatalf("replay of %+v: %s", of, d)
	}
	of.Tree, of.After.Ordinal = true, 0
	if d := differ(h.both(of)); d != "" {
		rt.Fatalf("replay of %+v: %s", of, d)
	}
}

// position draws zero, a position that a reader had, a sequence only, or a position that no reader had.
func (h *history) position(rt *rapid.T) chunk.Position {
	if len(h.ever) == 0 {
		return chunk.Position{}
	}
	rec := rapid.SampledFrom(h.ever).Draw(rt, "had")
	switch rapid.IntRange(0, 5).Draw(rt, "position") {
	case 0, 1:
		return rec.Position()
	case 2:
		return chunk.Position{Seq: rec.Seq}
	case 3:
		return chunk.Position{Seq: rec.Seq + chunk.Seq(rapid.IntRange(0, 5).Draw(rt, "beside")), Ordinal: chunk.Ordinal(rapid.IntRange(0, 9).Draw(rt, "ordinal"))}
	}
	return chunk.Position{}
}
