package jssnapshots

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// The owner of a root session has a key without a value, which is written before the first head that has it:
//
//	owner.<tenant>.<root>.<name>
//
// The name is a hash of the subject of the owner, or noOwner. A client must not be able to find out by the time of a response whether another user has a
// session. So the number of keys is asked for, by their names, which the server has in memory: it reads no message for that, neither for a session of another
// owner nor for an unknown one. To read the header of a head would take longer than to find none, because the server reads the head with it, and sends it.
//
// The key only ever denies. The owner is that of the head, which is read for everyone to whom the key does not deny the session, because a key can be left
// behind:
//  1. projector A is slow and is about to write the key of the owner ann,
//  2. the session is deleted, and projector A writes the key and crashes,
//  3. the user bob starts a session with the same id, and a projector writes his key too.
//
// Then the head denies ann the session, and bob has it, because his key is among those of the session.

// noOwner is the name of the key of a session without an owner. A hash is longer.
const noOwner = "none"

// ownerName returns the name of the key for the subject of an owner.
func ownerName(subject string) string {
	if subject == "" {
		return noOwner
	}
	sum := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(sum[:16])
}

// OwnedByOther implements projector.Store.
func (st *Store) OwnedByOther(ctx context.Context, s chunk.Session, subject string) (bool, error) {
	own, err := names.SnapshotOwnerKey(s, ownerName(subject))
	if err != nil {
		return false, err
	}
	b, all, err := st.locate(ctx, s, names.SnapshotOwnerKeys)
	if err != nil {
		return false, err
	}
	for _, key := range []string{own, all} {
		n, err := request(ctx, st, func(ctx context.Context) (int, error) { return st.api.CountSubjects(ctx, b.name, b.subject(key)) })
		switch {
		case err != nil:
			return false, fmt.Errorf("owner of %s: %w", s, err)
		case n > 0:
			return key == all, nil
		}
	}
	return false, nil
}

// saveOwner writes the key of the owner and that of a fork, unless the stored head has that owner and that origin: then the keys were written before it. The owners
// of sub-agents are those of their root, and a deleted session has none.
func (s *saving) saveOwner(ctx context.Context, snap fold.Snapshot) error {
	if !snap.Session.IsRoot() || snap.Deleted() || s.after&ownerBits == ownerRevision(indexOf(snap)) {
		return nil
	}
	key, err := names.SnapshotOwnerKey(s.session, ownerName(ownerOf(snap)))
	if err != nil {
		return err
	}
	seq, err := s.putKey(ctx, s.b, key)
	if err != nil {
		return err
	}
	s.wrote(key, seq)
	if snap.Origin == nil {
		return nil
	}
	err = s.AddFork(ctx, chunk.RootSession(s.session.Tenant, snap.Origin.Session), s.session)
	if errors.Is(err, chunk.ErrInvalid) {
		return nil // the writer of the record gave an origin that cannot exist
	}
	return err
}

// putKey writes a key without a value. It is repeated until the server responds, and needs no comparison: every repetition stores the same.
func (st *Store) putKey(ctx context.Context, b *bucket, key string) (uint64, error) {
	m := &nats.Msg{Subject: st.api.PublishSubject(b.subject(key)), Header: nats.Header{}}
	seq, err := st.api.Put(ctx, jsclient.Put{Msg: m, RetryTimeout: retryTimeout})
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	return seq, nil
}

func ownerOf(s fold.Snapshot) string {
	if s.Owner == nil {
		return ""
	}
	return s.Owner.Subject
}

// ownerShift is the position of ownerBits, the bits of a Revision that say which keys are written: 0 for none. So a save writes keys only if the head is the
// first one, or if it gets another owner or origin: the first records of a fork are complete, or the log was replaced by an older copy.
const (
	ownerShift                    = 48
	ownerBits  projector.Revision = (1<<15 - 1) << ownerShift
)

// ownerRevision returns the ownerBits of the Revision of a head with an index.
func ownerRevision(i HeadIndex) projector.Revision {
	if i.Deleted {
		return 0
	}
	text := i.Owner
	if i.Origin != "" {
		text += "\x00" + i.Origin
	}
	sum := sha256.Sum256([]byte(text))
	return projector.Revision(binary.BigEndian.Uint16(sum[:])|1) << ownerShift & ownerBits
}

// ownerRevisionOf is ownerRevision for the header of a stored head.
func ownerRevisionOf(h nats.Header) projector.Revision {
	i, ok := ReadIndex(h)
	if !ok {
		return 0 // the key is written again
	}
	return ownerRevision(i)
}

// removeOwners removes the keys of the owners and of the forks of a deleted session that were written before a sequence, and returns their number.
func (st *Store) removeOwners(ctx context.Context, b *bucket, s chunk.Session, before uint64) (n uint64, err error) {
	if !s.IsRoot() {
		return 0, nil
	}
	for _, of := range []func(chunk.Session) (string, error){names.SnapshotOwnerKeys, names.SnapshotForkKeys} {
		filter, err := of(s)
		if err != nil {
			return n, err
		}
		some, err := st.purge(ctx, b.name, b.subject(filter), before)
		if n += some; err != nil {
			return n, fmt.Errorf("remove owners and forks of %s: %w", s, err)
		}
	}
	return n, nil
}
