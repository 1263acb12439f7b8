package consumers

import "github.com/tailrace/tailrace/chunk"

// chain proves that the records of one session follow one another.
type chain struct {
	session chunk.Session
	last    chunk.Position // of the record before; Ordinal 0 is before the first
	epoch   chunk.Epoch    // highest seen, 0 when none was
	begun   bool           // a record was accepted
}

// verdict on a record that comes next.
type verdict int

const (
	// follows: it is the next record.
	follows verdict = iota
	// stale: its writer had been overtaken when it was stored.
	stale
	// missing: records between the last one and this are not there.
	missing
	// reborn: the session began again from nothing, so all of it was purged.
	reborn
	// broken: its number was given out already by a writer that was entitled to.
	broken
)

// judge does not change the chain.
//
// The order of the questions matters. A purged session whose next writer knows
// nothing of the past begins again with epoch 1 and ordinal 1. If the fence were
// asked first, a reader that has seen epoch 2 would drop the whole new session
// in silence.
func (c *chain) judge(rec chunk.Record) verdict {
	switch {
	case rec.Ordinal == 1 && c.last.Ordinal >= 1:
		return reborn
	case rec.Epoch < c.epoch:
		return stale
	case rec.Ordinal <= c.last.Ordinal:
		return broken
	case rec.Ordinal-c.last.Ordinal > 1:
		return missing
	}
	return follows
}

// accept takes rec as the last record.
func (c *chain) accept(rec chunk.Record) {
	c.last, c.begun = rec.Position(), true
	c.epoch = max(c.epoch, rec.Epoch)
}
