package kvstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Messages implements projector.Store.
func (st *Store) Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error) {
	b, err := st.open(ctx)
	if err != nil {
		return nil, err
	}
	data := make([][]byte, snap.Missing())
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(st.cfg.Parallel)
	for n := range data {
		if all.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			data[n], err = st.message(all, b, snap, n)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return data, ctx.Err()
}

// message is the data of finished message n.
func (st *Store) message(ctx context.Context, b *bucket, snap fold.Snapshot, n int) ([]byte, error) {
	key, err := messageKey(snap.Session, n, snap.Generation(n))
	if err != nil {
		return nil, err
	}
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: %s is missing", fold.ErrTorn, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	p, spilled := readPointer(entry.Value())
	if !spilled {
		return entry.Value(), nil
	}
	data, err := st.fetch(ctx, p)
	if errors.Is(err, errNoObject) {
		return nil, fmt.Errorf("%w: the object of %s is missing", fold.ErrTorn, key)
	}
	return data, err
}

// saveMessages writes the finished messages that a snapshot holds.
func (s *saving) saveMessages(ctx context.Context, finished []fold.Finished) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.Parallel)
	for _, f := range finished {
		if all.Err() != nil {
			break
		}
		group.Go(func() error { return s.saveMessage(all, f) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// saveMessage writes one. As a rule it is the first to do so; who died before the
// head has written the same.
func (s *saving) saveMessage(ctx context.Context, f fold.Finished) error {
	what := fmt.Sprintf("message %d", f.Index)
	if len(f.Data) > s.cfg.Largest {
		return s.tooLarge(s.session, what, len(f.Data), s.cfg.Largest)
	}
	key, err := messageKey(s.session, f.Index, f.Generation)
	if err != nil {
		return err
	}
	value := f.Data
	if len(value) > s.b.limit {
		if value, err = s.spilled(ctx, messageObject, f.Data); err != nil {
			return err
		}
	}
	var nothing uint64
	seq, err := s.put(ctx, s.b, key, write{data: value, expect: &nothing})
	if errors.Is(err, projector.ErrConflict) {
		seq, err = s.again(ctx, key, value)
	}
	if errors.Is(err, errTooLarge) {
		return s.tooLarge(s.session, what, len(f.Data), s.b.limit)
	}
	s.wrote(key, seq)
	return err
}

// again writes a message over one that is there. The same is left alone. Another
// one was there before the session was deleted and began anew, or the bucket is
// damaged: only who may replace the head may replace it. Without that:
//  1. a projector that is slow wants to write message 3 of a session,
//  2. the session is deleted, begins anew and gets another message 3,
//  3. the slow one writes, and the new head is torn.
func (s *saving) again(ctx context.Context, key string, value []byte) (uint64, error) {
	there, err := s.last(ctx, s.b, key)
	if err != nil {
		return 0, err
	}
	if same, err := s.same(ctx, there.value, value); same || err != nil {
		return 0, err
	}
	head, err := s.last(ctx, s.b, s.key)
	if err != nil {
		return 0, err
	}
	if head.value != nil && head.seq != sequence(s.after) || head.value == nil && s.after != 0 {
		return 0, projector.ErrConflict
	}
	return s.put(ctx, s.b, key, write{data: value, expect: &there.seq})
}

// same reports whether a value that is there is the one to be written. If both
// are objects the new one is not needed.
func (s *saving) same(ctx context.Context, there, value []byte) (bool, error) {
	p, spilled := readPointer(there)
	q, also := readPointer(value)
	if !spilled || !also || p.SHA256 != q.SHA256 {
		return there != nil && bytes.Equal(there, value), nil
	}
	if _, err := s.fetch(ctx, p); err != nil {
		if errors.Is(err, errNoObject) { // the bucket was lost
			err = nil
		}
		return false, err
	}
	return true, s.discard(ctx, s.b, s.session, q.Object)
}

func (s *saving) wrote(key string, seq uint64) {
	if seq == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.messages == nil {
		s.messages = make(map[string]uint64)
	}
	s.messages[key] = seq
}

// indexBits is how many bits of a message's number are its index; the rest is
// its generation.
const indexBits = 24

func messageKey(s chunk.Session, index int, generation chunk.Ordinal) (string, error) {
	if index >= 1<<indexBits || generation >= 1<<(64-indexBits) {
		return "", fmt.Errorf("session %s: message %d of generation %d has no key", s, index, generation)
	}
	return subjects.SnapshotMessageKey(s, uint64(generation)<<indexBits|uint64(index))
}
