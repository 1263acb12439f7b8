package consumers

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// history is the obvious model of one tree in the log: what was ever written,
// and what of it is still there.
type history struct {
	w    *env
	root chunk.Session
	kids []chunk.Session
	ever []*written
}

type written struct {
	chunk.Record

	malformed bool
	stale     bool
	gone      bool
	body      chunk.Truncated // of a marker
}

func (h *history) add(x written) { h.ever = append(h.ever, &x) }

// there is what of a session still exists and counts, in order.
func (h *history) there(in func(*written) bool) []*written {
	return slices.DeleteFunc(slices.Clone(h.ever), func(x *written) bool { return x.gone || x.malformed || x.stale || !in(x) })
}

func of(s chunk.Session) func(*written) bool {
	return func(x *written) bool { return x.Session == s }
}

// grow writes, breaks, cleans up and purges at random.
func (h *history) grow(t *rapid.T) {
	w := h.w
	for i := range rapid.IntRange(1, 2*maxMergeSessions).Draw(t, "sub-agents") { // on both sides of where the way of reading changes
		h.kids = append(h.kids, h.root.Child(string(rune('a'+i))))
	}
	sessions := append([]chunk.Session{h.root}, h.kids...)
	epochs := map[chunk.Session]chunk.Epoch{}
	for range rapid.IntRange(3, 40).Draw(t, "steps") {
		s := rapid.SampledFrom(sessions).Draw(t, "session")
		epoch := max(1, epochs[s])
		switch what := rapid.IntRange(0, 99).Draw(t, "what"); {
		case what < 70:
			h.add(written{Record: w.put(s, epoch, chunk.TextDelta{Delta: "x"})})
		case what < 76:
			h.add(written{Record: chunk.Record{Seq: w.malformed(s), Session: s}, malformed: true})
		case what < 80 && w.next[s] > 0:
			epochs[s] = epoch + 1
			h.add(written{Record: w.put(s, epochs[s], chunk.RunStarted{RunID: "successor", Epoch: int64(epochs[s]), Mode: "takeover"})})
			o := chunk.Ordinal(rapid.IntRange(2, int(w.next[s])+3).Draw(t, "fenced"))
			h.add(written{Record: w.putAt(s, epoch, o, chunk.TextDelta{Delta: "fenced"}), stale: true})
		case what < 88:
			h.cleanUp(t, s, epoch)
		case what < 90:
			h.lose(t, s)
		case what < 93:
			h.purge(t)
		default:
			w.say(chunk.RootSession("acme", "other"), "between")
		}
	}
}

// cleanUp removes some of a session's last records, but never its first.
func (h *history) cleanUp(t *rapid.T, s chunk.Session, epoch chunk.Epoch) {
	recs := slices.DeleteFunc(h.there(of(s)), func(x *written) bool { return x.Ordinal == 1 || x.Type.Control() })
	if len(recs) == 0 {
		return
	}
	recs = recs[rapid.IntRange(0, len(recs)-1).Draw(t, "clean up from"):]
	body := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(recs[0].Seq), AtSequence: int64(recs[len(recs)-1].Seq)}
	for _, x := range recs {
		body.Removed = append(body.Removed, chunk.OrdinalRange{First: int64(x.Ordinal), Last: int64(x.Ordinal)})
	}
	h.add(written{Record: h.w.put(s, epoch, body), body: body})
	died := rapid.IntRange(0, 3*len(recs)).Draw(t, "the writer dies after")
	for i, x := range recs {
		if i < died {
			h.w.remove(x.Record)
			x.gone = true
		}
	}
}

// lose deletes one record without a truncated record.
func (h *history) lose(t *rapid.T, s chunk.Session) {
	recs := slices.DeleteFunc(h.there(of(s)), func(x *written) bool { return x.Type.Control() })
	if len(recs) > 0 {
		x := rapid.SampledFrom(recs).Draw(t, "lose")
		h.w.remove(x.Record)
		x.gone = true
	}
}

// purge takes everything before some record, as retention does.
func (h *history) purge(t *rapid.T) {
	if len(h.ever) == 0 {
		return
	}
	x := rapid.SampledFrom(h.ever).Draw(t, "purge before")
	if x.stale {
		return // it would be all that is left to tell of its heir's epoch
	}
	if x.gone {
		return // a purge that empties the stream damages the server's index: TestMessageThatIsOnlyInTheIndex
	}
	seq := x.Seq
	h.w.purgeUpTo(seq)
	for _, x := range h.ever {
		x.gone = x.gone || x.Seq < seq
	}
}

// explained: a marker that is still there lists the ordinal.
func (h *history) explained(s chunk.Session, o chunk.Ordinal) bool {
	return slices.ContainsFunc(h.there(of(s)), func(x *written) bool {
		return slices.ContainsFunc(x.body.Removed, func(r chunk.OrdinalRange) bool {
			return chunk.Ordinal(r.First) <= o && o <= chunk.Ordinal(r.Last)
		})
	})
}

// expect is what a replay must give: the records, then nil or an error.
func (h *history) expect(in func(*written) bool, scope chunk.Scope, after chunk.Position, through chunk.Seq) ([]chunk.Record, error) {
	recs := h.there(in)
	if err := h.expectCursor(in, after); err != nil {
		return nil, err
	}
	if after.Seq == 0 && !slices.ContainsFunc(h.ever, func(x *written) bool { return !x.gone && !x.malformed && in(x) }) {
		return nil, chunk.ErrUnknownSession
	}
	if scope == chunk.ScopeTree && after.Seq == 0 && len(recs) > 0 {
		if root := h.there(of(h.root)); recs[0].Session != h.root && len(root) > 0 && root[0].Ordinal > 1 {
			return nil, lostBecause(chunk.TruncatedExpired)
		}
	}
	last := map[chunk.Session]chunk.Ordinal{}
	for _, x := range recs {
		if x.Seq <= after.Seq {
			last[x.Session] = x.Ordinal
		}
	}
	if after.Ordinal > 0 {
		last[h.sessionAt(after.Seq)] = after.Ordinal
	}
	var want []chunk.Record
	for i, x := range recs {
		if x.Seq <= after.Seq {
			continue
		}
		if last[x.Session] == 0 && x.Ordinal > 1 {
			return want, lostBecause(chunk.TruncatedExpired)
		}
		for o := last[x.Session] + 1; o < x.Ordinal; o++ {
			if !h.explained(x.Session, o) {
				if slices.ContainsFunc(recs[:i], of(x.Session)) {
					return want, lostBecause(chunk.TruncatedGap)
				}
				return want, lostBecause(chunk.TruncatedExpired)
			}
		}
		last[x.Session] = x.Ordinal
		if x.Seq > through {
			return want, nil
		}
		if want = append(want, x.Record); x.Seq == through {
			return want, nil
		}
	}
	return want, nil
}

func (h *history) sessionAt(seq chunk.Seq) chunk.Session {
	i := slices.IndexFunc(h.ever, func(x *written) bool { return x.Seq == seq })
	return h.ever[i].Session
}

// expectCursor is what verification must say about a bare cursor.
func (h *history) expectCursor(in func(*written) bool, after chunk.Position) error {
	if after.Seq == 0 || after.Ordinal > 0 {
		return nil
	}
	state := h.w.stream().CachedInfo().State
	i := slices.IndexFunc(h.ever, func(x *written) bool { return x.Seq == after.Seq })
	switch {
	case uint64(after.Seq) > state.LastSeq:
		return lostBecause(chunk.TruncatedFuture)
	case i < 0 || !h.ever[i].gone && (h.ever[i].malformed || !in(h.ever[i])):
		return lostBecause(chunk.TruncatedWrongSession)
	case !h.ever[i].gone:
		return nil
	case uint64(after.Seq) >= state.FirstSeq && slices.ContainsFunc(h.there(in), func(x *written) bool {
		return x.Seq > after.Seq && x.body.FromSequence <= int64(after.Seq) && int64(after.Seq) <= x.body.AtSequence
	}):
		return lostBecause(chunk.TruncatedCleanup)
	}
	return lostBecause(chunk.TruncatedExpired)
}

func (h *history) tell(t *rapid.T) {
	for _, x := range h.ever {
		t.Logf("%d %s %d-%d %s malformed=%v stale=%v gone=%v %v", x.Seq, x.Session.ID, x.Epoch, x.Ordinal, x.Type, x.malformed, x.stale, x.gone, x.body.Removed)
	}
}

func lostBecause(reason chunk.TruncationReason) error { return &chunk.TruncatedError{Reason: reason} }

// Whatever happened to a log, a replay from any cursor is the suffix of what is
// left of it, or says why it cannot be. Never less in silence.
func TestReplayIsTheSuffixOrSaysWhy(t *testing.T) {
	w := newEnv(t, Config{OnMalformed: func(Malformed) {}})
	trees := 0
	rapid.Check(t, func(rt *rapid.T) {
		trees++
		h := &history{w: w, root: chunk.RootSession("acme", fmt.Sprint("tree", trees))}
		h.grow(rt)
		tip, err := w.reader.Tip(t.Context(), 0)
		if err != nil {
			rt.Fatal(err)
		}
		for range 5 {
			scope := rapid.SampledFrom([]chunk.Scope{chunk.ScopeSession, chunk.ScopeTree}).Draw(rt, "scope")
			s := rapid.SampledFrom([]chunk.Session{h.root, h.root.Child("a")}).Draw(rt, "of")
			in := of(s)
			if scope == chunk.ScopeTree {
				in = func(*written) bool { return true }
			}
			after := h.cursor(rt, s, scope, tip.Seq)
			through := chunk.Seq(1) << 62
			if rapid.Bool().Draw(rt, "bounded") {
				through = after.Seq + chunk.Seq(rapid.IntRange(1, 20).Draw(rt, "through"))
			}
			want, wantErr := h.expect(in, scope, after, through)
			var got []chunk.Record
			if scope == chunk.ScopeTree {
				got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: s, Tree: true, After: chunk.Position{Seq: after.Seq}, Through: through}))
			} else {
				got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: s, After: after, Through: through}))
			}
			if !sameReason(err, wantErr) || len(got) != len(want) {
				h.tell(rt)
			}
			if !sameReason(err, wantErr) {
				rt.Fatalf("scope %d of %s after %v: %v, then %v; want %v, then %v", scope, s, after, positions(got), err, positions(want), wantErr)
			}
			if len(got) != len(want) {
				rt.Fatalf("scope %d of %s after %v: %v, want %v", scope, s, after, positions(got), positions(want))
			}
			same(t, got, want)
		}
	})
	w.noConsumers()
}

// cursor is the zero position, a bare sequence that may be anything, or a
// position that a reader really had.
func (h *history) cursor(t *rapid.T, s chunk.Session, scope chunk.Scope, tip chunk.Seq) chunk.Position {
	usable := slices.DeleteFunc(slices.Clone(h.ever), func(x *written) bool { return x.stale })
	switch what := rapid.IntRange(0, 9).Draw(t, "cursor"); {
	case what < 2 || len(usable) == 0:
		return chunk.Position{}
	case what < 3:
		return chunk.Position{Seq: tip + chunk.Seq(rapid.IntRange(1, 3).Draw(t, "beyond"))}
	case what < 7 || scope == chunk.ScopeTree:
		return chunk.Position{Seq: rapid.SampledFrom(usable).Draw(t, "bare").Seq}
	}
	own := slices.DeleteFunc(usable, func(x *written) bool { return x.Session != s || x.malformed })
	if len(own) == 0 {
		return chunk.Position{}
	}
	x := rapid.SampledFrom(own).Draw(t, "proved")
	// The last record of a session, deleted without a word, leaves a position
	// beyond the end: its own case, tested apart.
	if there := h.there(of(s)); len(there) == 0 || there[len(there)-1].Seq < x.Seq {
		return chunk.Position{}
	}
	return x.Position()
}

func sameReason(got, want error) bool {
	var g, w *chunk.TruncatedError
	if errors.As(want, &w) {
		return errors.As(got, &g) && g.Reason == w.Reason
	}
	return errors.Is(got, want)
}
