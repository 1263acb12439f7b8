package kvstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// graveTTL is how long a grave stays when all is done: longer than any projector
// sits on records that it was given, or any writer on where a session stood.
const graveTTL = 72 * time.Hour

// Now is behind everything that is stored.
func (st *Store) Now(ctx context.Context) (projector.Revision, error) {
	b, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", st.cfg.Layout.Snapshots(), err)
	}
	return projector.Revision(info.State.LastSeq + 1), nil
}

// Clear removes what a deleted session has beside its grave, of Revision r:
// messages and objects that were stored before a place, which is r itself or a
// Now when nothing is known of a session that began anew. Clear reports whether
// there was anything. It may be repeated, and is to be: the first Clear that
// comes when a projector can no longer be at work on the session lets the grave
// expire, after 72 hours.
func (st *Store) Clear(ctx context.Context, grave fold.Snapshot, r, before projector.Revision) (bool, error) {
	s := grave.Session
	b, err := st.open(ctx)
	if err != nil {
		return false, err
	}
	filter, err := subjects.SnapshotMessageKeys(s)
	if err != nil {
		return false, err
	}
	messages, err := st.api.Purge(ctx, b.name, b.subject(filter), sequence(before))
	if err != nil {
		return false, fmt.Errorf("remove messages of %s: %w", s, err)
	}
	objects, err := st.collect(ctx, b, s, sequence(before), func(string) bool { return false })
	if err == nil && !objects.left {
		err = st.seal(ctx, b, grave, sequence(r))
	}
	return messages > 0 || objects.found, err
}

// seal lets a grave expire, if nothing is left to be done.
func (st *Store) seal(ctx context.Context, b *bucket, grave fold.Snapshot, seq uint64) error {
	key, err := subjects.SnapshotHeadKey(grave.Session)
	if err != nil {
		return err
	}
	m, err := st.api.Last(ctx, b.name, b.subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", key, err)
	case m.Seq != seq || m.Header.Get(jetstream.MsgTTLHeader) != "":
		return nil // it is sealed, or the session has begun anew
	case time.Since(m.Time) < st.cfg.Settle:
		return nil
	}
	ttl := []jetstream.PublishOpt{jetstream.WithMsgTTL(graveTTL)}
	_, err = st.put(ctx, b, key, write{data: grave.AppendHead(nil), header: index(grave), expect: &seq, opts: ttl})
	if errors.Is(err, projector.ErrConflict) {
		return nil
	}
	return err
}

// Remains are the sessions under the root of s of which anything is stored,
// graves among them.
func (st *Store) Remains(ctx context.Context, s chunk.Session) ([]chunk.Session, error) {
	filter, err := subjects.SnapshotTreeKeys(s)
	if err != nil {
		return nil, err
	}
	b, err := st.open(ctx)
	if err != nil {
		return nil, err
	}
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(b.subject(filter)))
	if err != nil {
		return nil, fmt.Errorf("list what is stored of %s: %w", s, err)
	}
	seen := make(map[chunk.Session]bool)
	var all []chunk.Session
	for subject := range info.State.Subjects {
		session, err := subjects.ParseSnapshotKey(b.key(subject))
		if err != nil || seen[session] {
			continue // somebody else's key
		}
		seen[session] = true
		all = append(all, session)
	}
	return all, nil
}

// Aged gives heads that were saved before a time, at most so many, the oldest
// first, beginning behind a place that an earlier call returned, 0 at first. The
// place is 0 when there are no more. The heads are stored in the order in which
// they were saved, so it reads no others.
func (st *Store) Aged(ctx context.Context, before time.Time, most int, after uint64) (aged []projector.Aged, place uint64, err error) {
	b, err := st.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	for h, err := range st.heads(ctx, b, subjects.SnapshotHeadKeys(), after+1) {
		switch {
		case err != nil:
			return aged, 0, err
		case !h.stored.Before(before):
			return aged, 0, nil
		case len(aged) == most:
			return aged, place, nil
		}
		place = h.seq
		if h.known && (!h.Deleted || !h.sealed) {
			aged = append(aged, projector.Aged{Session: h.session, Saved: h.stored, Deleted: h.Deleted})
		}
	}
	return aged, 0, nil
}
