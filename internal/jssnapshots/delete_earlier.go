package jssnapshots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// DeleteEarlier removes the packs and objects that a session had before it was deleted and started again: a process that was stalled has written them after the
// deletion, and crashed before it could remove them; and the large values of runs before an epoch, 0 for none. life is the time of its first record now, see
// packInfo; its head may be the tombstone, until a projector saves. A session that has another head is left as it is. An object that no pack and no head has is
// removed if its writing began before a time, because after that a process may still be writing it.
func (st *Store) DeleteEarlier(ctx context.Context, s chunk.Session, life int64, first chunk.Epoch, begun time.Time) error {
	head, r, err := st.Load(ctx, s)
	if errors.Is(err, projector.ErrNoSnapshot) {
		return nil
	}
	old := earlier{Store: st, session: s, life: life, tombstone: r, referenced: make(map[string]bool)}
	if err != nil || !old.isHead(head, r) {
		return err
	}
	if first > 0 {
		if _, err := st.values.Delete(ctx, s, first-1); err != nil {
			return err
		}
	}
	if old.b, err = st.bucketOf(ctx, s); err != nil {
		return err
	}
	if err := old.removePacks(ctx); err != nil {
		return fmt.Errorf("remove earlier messages of %s: %w", s, err)
	}
	if r&isObject != 0 {
		if err := old.keepHead(ctx); err != nil {
			return err
		}
	}
	isReferenced := func(object string) bool { return old.referenced[object] }
	if _, err := st.collect(ctx, old.b, s, garbage{before: math.MaxUint64, begun: begun, keep: isReferenced, ended: true}); err != nil {
		return fmt.Errorf("remove earlier objects of %s: %w", s, err)
	}
	return nil
}

// earlier removes the data of earlier lives of a session, see packInfo.
type earlier struct {
	*Store

	b          *bucket
	session    chunk.Session
	life       int64              // the current one
	tombstone  projector.Revision // that of the head, if it is still the tombstone before the current life
	referenced map[string]bool    // objects of the current life
}

// isHead reports whether a head is that of the current life, or the tombstone before it.
func (e *earlier) isHead(head fold.Snapshot, r projector.Revision) bool {
	return head.Created == e.life || head.Deleted() && r == e.tombstone
}

func (e *earlier) removePacks(ctx context.Context) error {
	filter, err := names.SnapshotPackKeys(e.session)
	if err != nil {
		return err
	}
	info, err := e.info(ctx, e.b, e.b.subject(filter))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		m, err := e.lastMessage(ctx, e.b, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		life, object := lifeOf(m.Data)
		if life == e.life {
			e.referenced[object] = true
			continue
		}
		// The pack is not of a later life, because that would begin after this look at the head.
		switch now, r, err := e.Load(ctx, e.session); {
		case errors.Is(err, projector.ErrNoSnapshot) || err == nil && !e.isHead(now, r):
			return nil // deleted again
		case err != nil:
			return err
		}
		if object != "" {
			if err := e.discard(ctx, e.b, e.session, object); err != nil {
				return err
			}
		}
		if _, err := e.purge(ctx, e.b.name, subject, m.Seq+1); err != nil {
			return err
		}
	}
	return nil
}

// lifeOf returns the life of a pack, and the name of its object, "" if it has none.
func lifeOf(value []byte) (life int64, object string) {
	if p, spilled := readPointer(value); spilled {
		return p.Life, p.Object
	}
	var info packInfo
	if json.Unmarshal(value[:packHeader(value)], &info) != nil {
		return 0, ""
	}
	return info.Life, ""
}

// keepHead notes the object of the current head.
func (e *earlier) keepHead(ctx context.Context) error {
	key, err := names.SnapshotHeadKey(e.session)
	if err != nil {
		return err
	}
	m, err := e.last(ctx, e.b, key)
	if p, spilled := readPointer(m.value); spilled {
		e.referenced[p.Object] = true
	}
	return err
}
