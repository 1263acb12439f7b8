package sinktest

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// cleanUp removes records like a writer: chunks of later steps after a sequence, but no control records.
func (g *generator) cleanUp() {
	var after chunk.Seq
	switch g.pick("after", 4) {
	case 0: // the turn before the present one, and the present one
		after = g.startOfTurn(2)
	case 1:
		after = g.startOfTurn(1)
	case 2:
		after = g.startOfRun()
	case 3:
		if g.Partial && len(g.written) > 0 {
			after = g.log[g.written[g.pick("record", len(g.written))].index].Seq
			after = max(after, g.startOfTurn(2))
		} else {
			after = g.startOfRun()
		}
	}
	g.removeAfter(int64(g.pick("step", int(g.step)+2))-1, after)
}

// startOfTurn returns the sequence before the turn before which n-1 turns have begun later.
func (g *generator) startOfTurn(n int) chunk.Seq {
	for _, w := range slices.Backward(g.written) {
		if w.turn {
			if n--; n == 0 {
				return g.log[w.index].Seq
			}
		}
	}
	return g.startOfLife()
}

func (g *generator) startOfRun() chunk.Seq {
	for _, w := range slices.Backward(g.written) {
		if w.run {
			return g.log[w.index].Seq
		}
	}
	return g.startOfLife()
}

func (g *generator) startOfLife() chunk.Seq {
	if len(g.written) == 0 {
		return g.seq
	}
	return g.log[g.written[0].index].Seq - 1
}

func (g *generator) removeAfter(step int64, after chunk.Seq) {
	b := chunk.Truncated{TruncatedAtStep: max(0, step), MinSequence: int64(after), AtSequence: int64(g.seq)}
	for i := range g.written {
		w := &g.written[i]
		rec := g.log[w.index]
		if w.removed || w.control || w.step <= step || rec.Seq <= after || rec.Epoch != g.highest(i) {
			continue
		}
		w.removed = true
		if b.FromSequence == 0 {
			b.FromSequence = int64(rec.Seq)
		}
		o := int64(rec.Ordinal)
		if n := len(b.Removed); n > 0 && b.Removed[n-1].Last == o-1 {
			b.Removed[n-1].Last = o
			continue
		}
		b.Removed = append(b.Removed, chunk.OrdinalRange{First: o, Last: o})
	}
	if len(b.Removed) == 0 {
		return
	}
	g.write(b)
	if g.step > step {
		g.step, g.inStep = max(0, step), false
	}
}

// highest returns the highest epoch up to a record of the session: a record with a lower one is skipped.
func (g *generator) highest(n int) (e chunk.Epoch) {
	for _, w := range g.written[:n+1] {
		e = max(e, g.log[w.index].Epoch)
	}
	return e
}

// delete writes the record of a deletion. A later run continues the ordinals, while the log still has the tombstone.
func (g *generator) delete() {
	g.epoch++
	code := chunk.CodeSessionDeleted
	g.write(chunk.StreamFailed{Error: "deleted", ErrorDetail: &chunk.ErrorDetail{Message: "deleted", Code: &code}})
	g.forget()
	if !g.key.IsRoot() {
		return
	}
	for _, s := range g.sessions { // their deletion records are not read, or are before this one
		if s != g.session && s.key.Root == g.key.Root {
			s.written, s.calls, s.run = nil, nil, ""
		}
	}
}

// expire makes the session begin again: a writer that does not know its records numbers from 1.
func (g *generator) expire() {
	g.ordinal, g.epoch = 0, 0
	g.forget()
	g.start("execute")
}

func (g *generator) forget() { g.written, g.calls, g.run, g.step, g.inStep = nil, nil, "", 0, false }
