package consumers

import "github.com/tailrace/tailrace/chunk"

// ordinalChecker proves that the records of one session follow one another.
type ordinalChecker struct {
	session chunk.Session
	last    chunk.Position // of the previous record; Ordinal 0 is before the first
	epoch   chunk.Epoch    // highest seen, 0 for none
	begun   bool           // a record was accepted
}

// checkResult is the result of check.
type checkResult int

const (
	// follows: it is the next record.
	follows checkResult = iota
	// fenced: its writer was fenced when it was stored.
	fenced
	// missing: records between the last one and this one are missing.
	missing
	// restarted: the session began again at ordinal 1, so all of it was purged.
	restarted
	// conflicting: a writer that was not fenced has used the ordinal already.
	conflicting
)

// check does not change c.
//
// The order of the cases matters. If the next writer of a purged session does not know the earlier records, it begins again with epoch 1 and ordinal 1. If
// the epoch were checked first, a reader that has seen epoch 2 would silently drop the whole new session.
func (c *ordinalChecker) check(rec chunk.Record) checkResult {
	switch {
	case rec.Ordinal == 1 && c.last.Ordinal >= 1:
		return restarted
	case rec.Epoch < c.epoch:
		return fenced
	case rec.Ordinal <= c.last.Ordinal:
		return conflicting
	case rec.Ordinal-c.last.Ordinal > 1:
		return missing
	}
	return follows
}

// accept makes rec the last record.
func (c *ordinalChecker) accept(rec chunk.Record) {
	c.last, c.begun = rec.Position(), true
	c.epoch = max(c.epoch, rec.Epoch)
}
