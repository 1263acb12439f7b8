package jssnapshots

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// readMessages is the number of messages of one request. Several requests are in flight, so that server and reader need not wait for each other.
const readMessages = 256

// Messages implements projector.Store.
func (st *Store) Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error) {
	return st.read(ctx, snap, 0, 0, snap.TrimmedCount())
}

// Range implements projector.Store.
func (st *Store) Range(ctx context.Context, snap fold.Snapshot, head projector.Revision, from, to int) ([][]byte, error) {
	return st.read(ctx, snap, sequence(head), from, to)
}

// read returns messages from..to-1. With the sequence of a head it proves that they are those of the head. The messages of a head are written before it, and
// a different message under such a key is written after it. So a message is the right one if it was read
//  1. from before the head: otherwise it may have been written later, after the session was deleted and started again;
//  2. from a replica that has the head: otherwise it may have been replaced, and a replica that lags still has it.
func (st *Store) read(ctx context.Context, snap fold.Snapshot, head uint64, from, to int) ([][]byte, error) {
	b, err := st.bucketOf(ctx, snap.Session)
	if err != nil {
		return nil, err
	}
	data := make([][]byte, to-from)
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(st.cfg.Parallel)
	for start := from; start < to && all.Err() == nil; start += readMessages {
		group.Go(func() error {
			end := min(start+readMessages, to)
			return st.readSome(all, b, snap, head, start, data[start-from:end-from])
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	group, all = errgroup.WithContext(ctx)
	group.SetLimit(st.cfg.Parallel)
	for n := range data {
		if p, spilled := readPointer(data[n]); spilled && all.Err() == nil {
			group.Go(func() (err error) {
				if err := projector.CountRead(ctx, p.Bytes); err != nil {
					return err
				}
				data[n], err = st.fetch(all, p)
				if errors.Is(err, errNoObject) {
					err = fmt.Errorf("%w: the object of message %d is missing", fold.ErrInconsistent, from+n)
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return data, ctx.Err()
}

// readSome reads the values of messages from one on into data.
func (st *Store) readSome(ctx context.Context, b *bucket, snap fold.Snapshot, head uint64, from int, data [][]byte) error {
	places := make(map[string]int, len(data))
	for n := range data {
		key, err := messageKey(snap.Session, from+n, snap.Generation(from+n))
		if err != nil {
			return err
		}
		places[b.subject(key)] = n
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for len(places) > 0 {
		var limit error
		found := make(map[string][]byte, len(places))
		upTo, err := request(ctx, st, func(ctx context.Context) (uint64, error) {
			clear(found) // of an attempt without its end, perhaps from another replica
			return st.api.LastOfEach(ctx, b.name, slices.Collect(maps.Keys(places)), func(m jsclient.Message) {
				if _, asked := places[m.Subject]; !asked || isMarker(m.Header) || head > 0 && m.Seq > head {
					return
				}
				if limit = cmp.Or(limit, projector.CountRead(ctx, len(m.Data))); limit != nil {
					cancel()
					return
				}
				found[m.Subject] = m.Data
			})
		})
		switch {
		case limit != nil:
			return limit
		case err != nil:
			return fmt.Errorf("read messages of %s: %w", snap.Session, err)
		case upTo < head:
			return fmt.Errorf("%w: replica behind the head, or without messages", fold.ErrInconsistent)
		case len(found) == 0:
			return fmt.Errorf("%w: %s and %d others are missing", fold.ErrInconsistent, anyOf(places), len(places)-1)
		}
		for subject, value := range found {
			data[places[subject]] = value
			delete(places, subject)
		}
	}
	return nil
}

func anyOf(places map[string]int) string {
	for subject := range places {
		return subject
	}
	return ""
}

// saveMessages writes the finished messages that a snapshot holds.
func (s *saving) saveMessages(ctx context.Context, finished []fold.FinishedMessage) error {
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

// saveMessage writes one message. The message may be stored already: a process that crashed before it saved the head has written the same value.
func (s *saving) saveMessage(ctx context.Context, f fold.FinishedMessage) error {
	what := fmt.Sprintf("message %d", f.Index)
	if len(f.Data) > s.cfg.MaxValueBytes {
		return s.tooLarge(s.session, what, len(f.Data), s.cfg.MaxValueBytes)
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
		seq, err = s.replaceMessage(ctx, key, value)
	}
	if errors.Is(err, errTooLarge) {
		return s.tooLarge(s.session, what, len(f.Data), s.b.limit)
	}
	s.wrote(key, seq)
	return err
}

// replaceMessage replaces a stored message, unless it is the same. A different message was stored before the session was deleted and started again, or the bucket is
// damaged. Only a save that may replace the head may replace it. Otherwise:
//  1. projector A is slow and is about to write message 3 of a session,
//  2. the session is deleted, starts again and gets another message 3,
//  3. projector A writes, and the new head is inconsistent.
func (s *saving) replaceMessage(ctx context.Context, key string, value []byte) (uint64, error) {
	stored, err := s.last(ctx, s.b, key)
	if err != nil {
		return 0, err
	}
	if same, err := s.same(ctx, stored.value, value); same || err != nil {
		return 0, err
	}
	head, err := s.last(ctx, s.b, s.key)
	if err != nil {
		return 0, err
	}
	if head.value != nil && head.seq != sequence(s.after) || head.value == nil && s.after != 0 {
		return 0, projector.ErrConflict
	}
	return s.put(ctx, s.b, key, write{data: value, expect: &stored.seq})
}

// same reports whether the stored value is the one to be written. If both are objects, the new object is not needed.
func (s *saving) same(ctx context.Context, stored, value []byte) (bool, error) {
	p, spilled := readPointer(stored)
	q, bothSpilled := readPointer(value)
	if !spilled || !bothSpilled || p.SHA256 != q.SHA256 {
		return stored != nil && bytes.Equal(stored, value), nil
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

// indexBits is how many bits of the number of a message are its index; the rest is its generation.
const indexBits = 24

func messageKey(s chunk.Session, index int, generation chunk.Ordinal) (string, error) {
	if index >= 1<<indexBits || generation >= 1<<(64-indexBits) {
		return "", fmt.Errorf("session %s: message %d of generation %d has no key", s, index, generation)
	}
	return subjects.SnapshotMessageKey(s, uint64(generation)<<indexBits|uint64(index))
}
