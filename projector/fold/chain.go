package fold

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/tailrace/tailrace/chunk"
)

// Chain is a hash over the records that a snapshot was folded from, each linked to the one before. All folds of the same
// records have the same Chain, whether they fold in one go, from a stored head, or again after a rollback. Two snapshots of one
// session at one position whose Chains start at the same record and differ were folded from different logs.
//
// Records that were removed are not part of it.
type Chain struct {
	// FirstOrdinal is the ordinal of the first record in the chain: 1, unless earlier records had expired or the session was
	// deleted. Earlier records do not affect the hash.
	FirstOrdinal chunk.Ordinal

	sum [sha256.Size]byte
}

// Chain returns the chain of the records up to the position of the snapshot.
func (s Snapshot) Chain() Chain { return s.chain }

// String returns the hash in hexadecimal digits.
func (c Chain) String() string { return hex.EncodeToString(c.sum[:]) }

// link adds a record: one that is folded or skipped, but not one that was removed. The hash covers everything but the time at
// which the server stored the record, which a copy of the log does not preserve.
func (s *Snapshot) link(rec chunk.Record) {
	var buf [640]byte // enough for most records without an allocation
	b := append(buf[:0], s.chain.sum[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Ordinal))
	b = binary.BigEndian.AppendUint64(b, uint64(rec.Epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(len(rec.Type)))
	b = append(b, rec.Type...)
	b = append(b, rec.Data...)
	s.chain.sum = sha256.Sum256(b)
}

// startChain restarts the chain before a record.
func (s *Snapshot) startChain(since chunk.Ordinal) { s.chain = Chain{FirstOrdinal: since} }
