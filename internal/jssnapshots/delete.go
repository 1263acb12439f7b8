package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// tombstoneTTL is how long a tombstone is kept after all other data is deleted: longer than a projector keeps a delivery or a writer keeps a position.
const tombstoneTTL = 72 * time.Hour

// NextRevision returns a revision after all stored values of a session.
func (st *Store) NextRevision(ctx context.Context, s chunk.Session) (projector.Revision, error) {
	b, err := st.bucketOf(ctx, s)
	if err != nil {
		return 0, err
	}
	info, err := st.info(ctx, b, "")
	if err != nil {
		return 0, err
	}
	return projector.Revision(info.State.LastSeq + 1), nil
}

// DeleteData removes the messages, the objects and the keys of the owners and forks of a deleted session that were stored before a revision, and the large values of its
// runs. r is the revision of the tombstone; before is r too,
// or NextRevision if the session may have started again. It reports whether there was anything to remove. It must be repeated: a projector may still be
// writing. The call after which no projector writes sets expire, and the tombstone expires after 72 hours.
func (st *Store) DeleteData(ctx context.Context, tombstone fold.Snapshot, r, before projector.Revision, expire bool) (bool, error) {
	s := tombstone.Session
	b, filter, err := st.locate(ctx, s, names.SnapshotPackKeys)
	if err != nil {
		return false, err
	}
	messages, err := st.purge(ctx, b.name, b.subject(filter), sequence(before))
	if err != nil {
		return false, fmt.Errorf("remove messages of %s: %w", s, err)
	}
	owners, err := st.removeOwners(ctx, b, s, sequence(before))
	if err != nil {
		return false, err
	}
	large, err := st.values.Delete(ctx, s, tombstone.Epoch)
	if err != nil {
		return false, err
	}
	objects, err := st.collect(ctx, b, s, garbage{before: sequence(before), deleted: true, ended: expire})
	if err == nil && expire && !objects.left {
		err = st.expireTombstone(ctx, b, tombstone, sequence(r))
	}
	return messages > 0 || owners > 0 || large || objects.found, err
}

// expireTombstone makes a tombstone expire, if all other data was removed.
func (st *Store) expireTombstone(ctx context.Context, b *bucket, tombstone fold.Snapshot, seq uint64) error {
	key, err := names.SnapshotHeadKey(tombstone.Session)
	if err != nil {
		return err
	}
	m, err := st.lastMessage(ctx, b, b.subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", key, err)
	case m.Seq != seq || m.Header.Get(jetstream.MsgTTLHeader) != "":
		return nil // it expires already, or the session started again
	}
	h := header(tombstone)
	h.Set(jetstream.MsgTTLHeader, tombstoneTTL.String())
	_, err = st.put(ctx, b, key, write{data: tombstone.AppendHead(nil), header: h, expect: &seq})
	if errors.Is(err, projector.ErrConflict) {
		return nil
	}
	return err
}

// StoredSessions returns the sessions under the root of s that have any stored value, including tombstones.
func (st *Store) StoredSessions(ctx context.Context, s chunk.Session) ([]chunk.Session, error) {
	b, filter, err := st.locate(ctx, s, names.SnapshotTreeKeys)
	if err != nil {
		return nil, err
	}
	info, err := st.info(ctx, b, b.subject(filter))
	if err != nil {
		return nil, fmt.Errorf("list keys of %s: %w", s, err)
	}
	seen := make(map[chunk.Session]bool)
	var all []chunk.Session
	for subject := range info.State.Subjects {
		session, err := names.ParseSnapshotKey(b.key(subject))
		if err != nil || seen[session] {
			continue // another key
		}
		seen[session] = true
		all = append(all, session)
	}
	return all, nil
}

// MaxAge returns the retention of a snapshot since the last record of its session, 0 for unlimited, from the metadata of the bucket of partition 0. A bucket without it
// has no maximum age.
func (st *Store) MaxAge(ctx context.Context) (time.Duration, error) {
	name := "KV_" + names.Layout(st.cfg.Layout).Snapshots()
	stream, err := request(ctx, st, func(ctx context.Context) (jetstream.Stream, error) { return st.js.Stream(ctx, name) })
	if err != nil {
		return 0, fmt.Errorf("max age of snapshots: stream %s: %w", name, err)
	}
	text := stream.CachedInfo().Config.Metadata[jsclient.MaxAgeKey]
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, fmt.Errorf("max age of snapshots: metadata %s of stream %s is %q, want a duration such as 2160h, or 0s (unlimited)", jsclient.MaxAgeKey, name, text)
	}
	return age, nil
}

// HeadsSavedBefore returns at most limit heads that were saved before a time, after the place that the previous call returned, 0 for the first call. The
// returned place is 0 if there are no more. In each bucket the heads are stored in the order in which they were saved, so it reads no others.
func (st *Store) HeadsSavedBefore(ctx context.Context, before time.Time, limit int, after uint64) (expired []projector.ExpiredHead, next uint64, err error) {
	all, err := st.buckets(ctx)
	if err != nil {
		return nil, 0, err
	}
	for n := after >> placeShift; n < uint64(len(all)); n, after = n+1, 0 {
		last, more, err := st.savedBefore(ctx, all[n], before, limit, after&(1<<placeShift-1), &expired)
		switch {
		case err != nil:
			return expired, 0, err
		case more:
			return expired, n<<placeShift | last, nil
		}
	}
	return expired, 0, nil
}

// placeShift is the position of the number of a bucket in a place of HeadsSavedBefore. Below it is a sequence, as in a Revision.
const placeShift = ownerShift

// savedBefore adds the heads of one bucket after a sequence to expired, up to limit. It returns the sequence of the last head that it has read, and whether
// there are more.
func (st *Store) savedBefore(
	ctx context.Context, b *bucket, before time.Time, limit int, after uint64, expired *[]projector.ExpiredHead,
) (last uint64, more bool, err error) {
	last = after
	for h, err := range st.heads(ctx, b, names.SnapshotHeadKeys(), after+1) {
		switch {
		case err != nil:
			return last, false, err
		case !h.stored.Before(before):
			return last, false, nil
		case len(*expired) == limit:
			return last, true, nil
		}
		last = h.seq
		if h.known && (!h.Deleted || !h.expiring) {
			head := projector.ExpiredHead{Session: h.session, SavedAt: h.stored, Status: fold.Status(h.Status), Deleted: h.Deleted}
			if h.Since > 1 {
				head.RestartedAt = timeOf(h.Created)
			}
			*expired = append(*expired, head)
		}
	}
	return last, false, nil
}
