package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Folder folds the records of one session. It has one owner: its methods must not be called concurrently. Its results, and what
// is passed to it, are copies: later records change no Snapshot that was returned earlier.
type Folder struct {
	s Snapshot

	// shared reports that a Snapshot outside shares the memory of s that records change in place. The next change copies that
	// memory, so a Snapshot costs nothing if its Folder is dropped.
	shared bool
}

// New returns a Folder of s before its first record.
func New(s chunk.Session) *Folder { return &Folder{s: newSnapshot(s)} }

// From returns a Folder that continues from a snapshot.
func From(s Snapshot) *Folder { return &Folder{s: s, shared: true} }

// Reset makes f continue from a snapshot.
func (f *Folder) Reset(s Snapshot) { *f = Folder{s: s, shared: true} }

// Snapshot returns the snapshot of the records so far.
func (f *Folder) Snapshot() Snapshot {
	f.shared = true
	return f.s
}

// Session returns the session.
func (f *Folder) Session() chunk.Session { return f.s.Session }

// Position returns the position of the last record.
func (f *Folder) Position() chunk.Position { return f.s.Position }

// Epoch returns the highest epoch so far.
func (f *Folder) Epoch() chunk.Epoch { return f.s.Epoch }

// Anchor returns the anchor of the last record, 0 if it is unknown.
func (f *Folder) Anchor() chunk.Anchor { return f.s.Anchor }

// MemoryBytes returns approximately the memory of f in bytes.
func (f *Folder) MemoryBytes() int { return f.s.memoryBytes() }

// Apply folds one record. If it returns an error, f is unchanged.
//
// A record at or before the position changes nothing, so Apply is idempotent. A record that is not the next one returns ErrGap, also one with a higher sequence
// and an ordinal that was applied, an unreadable body ErrInvalidRecord, a record of another session ErrWrongSession, a truncated record that removes applied
// records a *RefoldError, and a log that was rolled back ErrLogRolledBack. A record of a fenced epoch and a record of a type that this build does not know only
// advance the position.
func (f *Folder) Apply(rec chunk.Record) error {
	f.own()
	next, err := applyRecord(f.s, rec)
	if err == nil {
		f.s = next
	}
	return err
}

// IsUnexpected reports whether rec has the next ordinal but cannot follow the last record by the rules of writers: an ended run writes nothing more, and
// each epoch is one higher than the last one and begins with run_started. Such a record is fenced, or follows records that f does not have, or was written
// by a program that breaks the rules. Apply decides by the ordinal and the epoch alone.
func (f *Folder) IsUnexpected(rec chunk.Record) bool {
	s := &f.s
	if s.Position == (chunk.Position{}) || rec.Ordinal != s.Position.Ordinal+1 {
		return false
	}
	starts := rec.Type == chunk.TypeRunStarted && rec.Epoch == s.Epoch+1
	over := s.Status == Ended || s.Status == Failed
	return !starts && (over || rec.Epoch != s.Epoch)
}

// Skip skips a record that cannot be folded: it counts the record, adds a fault to the snapshot and advances the position. It
// returns ErrGap if the record is not the next one.
func (f *Folder) Skip(rec chunk.Record, reason string) error {
	f.own()
	next, err := skipRecord(f.s, rec, reason)
	if err == nil {
		f.s = next
	}
	return err
}

// SkipGap makes rec the next record although records before it are missing from the log, for the given reason. Apply rec
// afterwards.
func (f *Folder) SkipGap(rec chunk.Record, why GapReason) {
	f.own()
	f.s = skipGap(f.s, rec, why)
}

// MarkRemoved makes f skip records that later truncated records remove, according to a reader that has read ahead. Records that
// f has applied are left to the truncated records.
func (f *Folder) MarkRemoved(removed []chunk.OrdinalRange) { f.s = markRemoved(f.s, removed) }

// Trim removes the finished messages of complete packs from memory after they were stored. The fold does not need them.
func (f *Folder) Trim() { f.s = f.s.trimFinished() }

// Attach adds the finished messages that are not in memory: the data of all of them, in order. It returns ErrInconsistent if
// they are not the messages that f was folded with.
func (f *Folder) Attach(missing [][]byte) error {
	next, err := f.s.attachFinished(missing)
	if err == nil {
		f.s = next
	}
	return err
}

// own copies the memory that records change in place if a Snapshot shares it. turn and step are never changed in place.
func (f *Folder) own() {
	if !f.shared {
		return
	}
	held := f.s.messages
	own := *f.s.base()
	own.removedAhead, own.turn, own.step = f.s.removedAhead, f.s.turn, f.s.step
	// Without Clip two Folders that continue from one snapshot would append to the same array.
	own.messages.trimmed, own.messages.finished = held.trimmed, slices.Clip(held.finished)
	f.s, f.shared = own, false
}
