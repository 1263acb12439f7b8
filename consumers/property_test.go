package consumers

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// treeModel is a simple model of one tree in the log: all messages that were written, and which of them the log still has.
type treeModel struct {
	w        *env
	root     chunk.Session
	children []chunk.Session
	messages []*modelMessage
}

type modelMessage struct {
	chunk.Record

	malformed bool
	fenced    bool            // stored by a fenced writer
	removed   bool            // from the log
	body      chunk.Truncated // of a truncated record
}

func (m *treeModel) add(x modelMessage) { m.messages = append(m.messages, &x) }

// readable returns, in order, the records that match and that a reader gets: those that the log still has, without those of fenced writers.
func (m *treeModel) readable(in func(*modelMessage) bool) []*modelMessage {
	return slices.DeleteFunc(slices.Clone(m.messages), func(x *modelMessage) bool { return x.removed || x.malformed || x.fenced || !in(x) })
}

func ofSession(s chunk.Session) func(*modelMessage) bool {
	return func(x *modelMessage) bool { return x.Session == s }
}

// writeRandomly writes records and malformed messages, cleans up, deletes and purges, all at random.
func (m *treeModel) writeRandomly(t *rapid.T) {
	w := m.w
	for i := range rapid.IntRange(1, 2*maxMergeSessions).Draw(t, "sub-agents") { // both fewer and more than a merge reads
		m.children = append(m.children, m.root.Child(string(rune('a'+i))))
	}
	sessions := append([]chunk.Session{m.root}, m.children...)
	epochs := map[chunk.Session]chunk.Epoch{}
	for range rapid.IntRange(3, 40).Draw(t, "steps") {
		s := rapid.SampledFrom(sessions).Draw(t, "session")
		epoch := max(1, epochs[s])
		switch op := rapid.IntRange(0, 99).Draw(t, "operation"); {
		case op < 70:
			m.add(modelMessage{Record: w.put(s, epoch, chunk.TextDelta{Delta: "x"})})
		case op < 76:
			m.add(modelMessage{Record: chunk.Record{Seq: w.malformed(s), Session: s}, malformed: true})
		case op < 80 && w.next[s] > 0:
			epochs[s] = epoch + 1
			m.add(modelMessage{Record: w.put(s, epochs[s], chunk.RunStarted{RunID: "successor", Epoch: int64(epochs[s]), Mode: "takeover"})})
			o := chunk.Ordinal(rapid.IntRange(2, int(w.next[s])+3).Draw(t, "fenced"))
			m.add(modelMessage{Record: w.putAt(s, epoch, o, chunk.TextDelta{Delta: "fenced"}), fenced: true})
		case op < 88:
			m.cleanUp(t, s, epoch)
		case op < 90:
			m.deleteOne(t, s)
		case op < 93:
			m.purge(t)
		default:
			w.say(chunk.RootSession("acme", "other"), "between")
		}
	}
}

// cleanUp removes some of a session's last records, but never its first.
func (m *treeModel) cleanUp(t *rapid.T, s chunk.Session, epoch chunk.Epoch) {
	recs := slices.DeleteFunc(m.readable(ofSession(s)), func(x *modelMessage) bool { return x.Ordinal == 1 || x.Type.Control() })
	if len(recs) == 0 {
		return
	}
	recs = recs[rapid.IntRange(0, len(recs)-1).Draw(t, "clean up from"):]
	body := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(recs[0].Seq), AtSequence: int64(recs[len(recs)-1].Seq)}
	for _, x := range recs {
		body.Removed = append(body.Removed, chunk.OrdinalRange{First: int64(x.Ordinal), Last: int64(x.Ordinal)})
	}
	m.add(modelMessage{Record: m.w.put(s, epoch, body), body: body})
	deletes := rapid.IntRange(0, 3*len(recs)).Draw(t, "the writer crashes after")
	for i, x := range recs {
		if i < deletes {
			m.w.remove(x.Record)
			x.removed = true
		}
	}
}

// deleteOne deletes one record without a truncated record.
func (m *treeModel) deleteOne(t *rapid.T, s chunk.Session) {
	recs := slices.DeleteFunc(m.readable(ofSession(s)), func(x *modelMessage) bool { return x.Type.Control() })
	if len(recs) > 0 {
		x := rapid.SampledFrom(recs).Draw(t, "deleted")
		m.w.remove(x.Record)
		x.removed = true
	}
}

// purge removes everything before some record, as retention does.
func (m *treeModel) purge(t *rapid.T) {
	if len(m.messages) == 0 {
		return
	}
	x := rapid.SampledFrom(m.messages).Draw(t, "purge before")
	if x.fenced {
		return // the log would have lost the record from which a reader learns the epoch that fenced this one
	}
	if x.removed {
		return // a purge that empties the stream damages the server's index: TestMessageThatIsOnlyInTheIndex
	}
	seq := x.Seq
	m.w.purgeUpTo(seq)
	for _, x := range m.messages {
		x.removed = x.removed || x.Seq < seq
	}
}

// isListed reports whether a truncated record that the log still has lists the ordinal.
func (m *treeModel) isListed(s chunk.Session, o chunk.Ordinal) bool {
	return slices.ContainsFunc(m.readable(ofSession(s)), func(x *modelMessage) bool {
		return slices.ContainsFunc(x.body.Removed, func(r chunk.OrdinalRange) bool {
			return chunk.Ordinal(r.First) <= o && o <= chunk.Ordinal(r.Last)
		})
	})
}

// expectReplay returns the result that a replay must have: the records, then nil or an error.
func (m *treeModel) expectReplay(in func(*modelMessage) bool, scope chunk.Scope, after chunk.Position, through chunk.Seq) ([]chunk.Record, error) {
	recs := m.readable(in)
	if err := m.expectCursor(in, after); err != nil {
		return nil, err
	}
	if after.Seq == 0 && !slices.ContainsFunc(m.messages, func(x *modelMessage) bool { return !x.removed && !x.malformed && in(x) }) {
		return nil, chunk.ErrUnknownSession
	}
	if scope == chunk.ScopeTree && after.Seq == 0 && len(recs) > 0 {
		if root := m.readable(ofSession(m.root)); recs[0].Session != m.root && len(root) > 0 && root[0].Ordinal > 1 {
			return nil, truncatedFor(chunk.TruncatedExpired)
		}
	}
	last := map[chunk.Session]chunk.Ordinal{}
	for _, x := range recs {
		if x.Seq <= after.Seq {
			last[x.Session] = x.Ordinal
		}
	}
	if after.Ordinal > 0 {
		last[m.sessionAt(after.Seq)] = after.Ordinal
	}
	var want []chunk.Record
	for i, x := range recs {
		if x.Seq <= after.Seq {
			continue
		}
		if last[x.Session] == 0 && x.Ordinal > 1 {
			return want, truncatedFor(chunk.TruncatedExpired)
		}
		for o := last[x.Session] + 1; o < x.Ordinal; o++ {
			if !m.isListed(x.Session, o) {
				if slices.ContainsFunc(recs[:i], ofSession(x.Session)) {
					return want, truncatedFor(chunk.TruncatedGap)
				}
				return want, truncatedFor(chunk.TruncatedExpired)
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

func (m *treeModel) sessionAt(seq chunk.Seq) chunk.Session {
	i := slices.IndexFunc(m.messages, func(x *modelMessage) bool { return x.Seq == seq })
	return m.messages[i].Session
}

// expectCursor returns the result that the check of a bare cursor must have.
func (m *treeModel) expectCursor(in func(*modelMessage) bool, after chunk.Position) error {
	if after.Seq == 0 || after.Ordinal > 0 {
		return nil
	}
	state := m.w.stream().CachedInfo().State
	i := slices.IndexFunc(m.messages, func(x *modelMessage) bool { return x.Seq == after.Seq })
	switch {
	case uint64(after.Seq) > state.LastSeq:
		return truncatedFor(chunk.TruncatedFuture)
	case i < 0 || !m.messages[i].removed && (m.messages[i].malformed || !in(m.messages[i])):
		return truncatedFor(chunk.TruncatedWrongSession)
	case !m.messages[i].removed:
		return nil
	case uint64(after.Seq) >= state.FirstSeq && slices.ContainsFunc(m.readable(in), func(x *modelMessage) bool {
		return x.Seq > after.Seq && x.body.FromSequence <= int64(after.Seq) && int64(after.Seq) <= x.body.AtSequence
	}):
		return truncatedFor(chunk.TruncatedCleanup)
	}
	return truncatedFor(chunk.TruncatedExpired)
}

// dump logs the messages of the model.
func (m *treeModel) dump(t *rapid.T) {
	for _, x := range m.messages {
		t.Logf("%d %s %d-%d %s malformed=%v fenced=%v removed=%v %v", x.Seq, x.Session.ID, x.Epoch, x.Ordinal, x.Type, x.malformed, x.fenced, x.removed, x.body.Removed)
	}
}

func truncatedFor(reason chunk.TruncationReason) error { return &chunk.TruncatedError{Reason: reason} }

// After any history of writes and deletions, a replay from any cursor returns all records after the cursor, or an error with the reason. It never omits
// a record without an error.
func TestReplayIsTheSuffixOrFails(t *testing.T) {
	w := newEnv(t, Config{OnMalformed: func(Malformed) {}})
	trees := 0
	rapid.Check(t, func(rt *rapid.T) {
		trees++
		m := &treeModel{w: w, root: chunk.RootSession("acme", fmt.Sprint("tree", trees))}
		m.writeRandomly(rt)
		tip, err := w.reader.Tip(t.Context(), 0)
		if err != nil {
			rt.Fatal(err)
		}
		for range 5 {
			scope := rapid.SampledFrom([]chunk.Scope{chunk.ScopeSession, chunk.ScopeTree}).Draw(rt, "scope")
			s := rapid.SampledFrom([]chunk.Session{m.root, m.root.Child("a")}).Draw(rt, "of")
			in := ofSession(s)
			if scope == chunk.ScopeTree {
				in = func(*modelMessage) bool { return true }
			}
			after := m.cursor(rt, s, scope, tip.Seq)
			through := chunk.Seq(1) << 62
			if rapid.Bool().Draw(rt, "bounded") {
				through = after.Seq + chunk.Seq(rapid.IntRange(1, 20).Draw(rt, "through"))
			}
			want, wantErr := m.expectReplay(in, scope, after, through)
			var got []chunk.Record
			if scope == chunk.ScopeTree {
				got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: s, Tree: true, After: chunk.Position{Seq: after.Seq}, Through: through}))
			} else {
				got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: s, After: after, Through: through}))
			}
			if !sameReason(err, wantErr) || len(got) != len(want) {
				m.dump(rt)
			}
			if !sameReason(err, wantErr) {
				rt.Fatalf("scope %d of %s after %v: records %v, error %v; want %v, %v", scope, s, after, positions(got), err, positions(want), wantErr)
			}
			if len(got) != len(want) {
				rt.Fatalf("scope %d of %s after %v: %v, want %v", scope, s, after, positions(got), positions(want))
			}
			same(t, got, want)
		}
	})
	w.noConsumers()
}

// cursor returns the zero position, any bare sequence, or the position of a record that was written.
func (m *treeModel) cursor(t *rapid.T, s chunk.Session, scope chunk.Scope, tip chunk.Seq) chunk.Position {
	usable := slices.DeleteFunc(slices.Clone(m.messages), func(x *modelMessage) bool { return x.fenced })
	switch op := rapid.IntRange(0, 9).Draw(t, "cursor"); {
	case op < 2 || len(usable) == 0:
		return chunk.Position{}
	case op < 3:
		return chunk.Position{Seq: tip + chunk.Seq(rapid.IntRange(1, 3).Draw(t, "beyond"))}
	case op < 7 || scope == chunk.ScopeTree:
		return chunk.Position{Seq: rapid.SampledFrom(usable).Draw(t, "bare").Seq}
	}
	own := slices.DeleteFunc(usable, func(x *modelMessage) bool { return x.Session != s || x.malformed })
	if len(own) == 0 {
		return chunk.Position{}
	}
	x := rapid.SampledFrom(own).Draw(t, "proved")
	// If the last record of a session was deleted without a truncated record, its position is beyond the end: other tests have that case.
	if recs := m.readable(ofSession(s)); len(recs) == 0 || recs[len(recs)-1].Seq < x.Seq {
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
