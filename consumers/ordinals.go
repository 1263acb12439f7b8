package consumers

import "github.com/tailrace/tailrace/chunk"

// ordinalChecker proves that the records of one session follow one another.
type ordinalChecker struct {
	session chunk.Session
	last    chunk.Position // of the previous record; Ordinal 0 is before the first
	epoch   chunk.Epoch    // highest seen, 0 for none
	begun   bool           // a record was accepted
}

// checkResult is the relation of a record to the previous one.
type checkResult int

const (
	// follows: it is the next record.
	follows checkResult = iota
	// fenced: its writer was fenced when it was stored.
	fenced
	// missing: records between the last one and this one are missing.
	missing
	// reused: the ordinal was used already. Either all earlier records have expired, and a writer that did not know them has numbered from the start; or
	// two writers have used the ordinal. The log shows which: see acceptReuse.
	reused
)

// check compares rec with the last record. It does not change c.
//
// The order of the cases matters. If the next writer of a session without records does not know the earlier ones, its epochs begin again at 1 too. If the
// epoch were checked first, a reader that has seen epoch 2 would silently drop the whole new run.
func (c *ordinalChecker) check(rec chunk.Record) checkResult {
	again := rec.Ordinal <= c.last.Ordinal
	switch {
	case again && (rec.Ordinal == 1 || rec.Type == chunk.TypeRunStarted):
		return reused
	case rec.Epoch < c.epoch:
		return fenced
	case again:
		return reused
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
