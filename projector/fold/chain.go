package fold

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/tailrace/tailrace/chunk"
)

// Chain is a hash over the records that a snapshot was folded from, each linked
// to the one before. Whoever folded the same records has the same Chain, by
// whatever path: in one go, from a saved head, or back from a mark and over the
// survivors. Two snapshots of one session at one position whose Chains begin at
// the same record and differ were folded from different logs.
//
// It counts what the log says now: records that were taken back are not in it.
type Chain struct {
	// Since is the ordinal of the first record in it: 1, unless the log had let go
	// of those before it, or the session was deleted, or the head was saved by a
	// version that kept no chain. What was before is not told apart.
	Since chunk.Ordinal

	sum [sha256.Size]byte
}

// Chain of the records up to the snapshot's position.
func (s Snapshot) Chain() Chain { return s.chain }

// String is the hash in hexadecimal digits.
func (c Chain) String() string { return hex.EncodeToString(c.sum[:]) }

// link adds a record that counts: one that is folded, skipped or passed over,
// but none that was taken back. All of it is hashed but the time at which the
// server stored it, which a copy of the log does not keep.
func (s *Snapshot) link(rec chunk.Record) {
	var room [640]byte // most records fit, and cost no allocation
	b := append(room[:0], s.chain.sum[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Ordinal))
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(len(rec.Type)))
	b = append(b, rec.Type...)
	b = append(b, rec.Data...)
	s.chain.sum = sha256.Sum256(b)
}

// startChain begins the chain anew before a record.
func (s *Snapshot) startChain(since chunk.Ordinal) { s.chain = Chain{Since: since} }
