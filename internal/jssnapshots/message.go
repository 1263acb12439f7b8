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
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
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

// read returns messages from..to-1. With the sequence of a head it proves that they are those of the head. The packs of a head are written before it, and
// a different pack under such a key is written after it. So a pack is the right one if it was read
//  1. from before the head: otherwise it may have been written later, after the session was deleted and started again;
//  2. from a replica that has the head: otherwise it may have been replaced, and a replica that lags still has it.
func (st *Store) read(ctx context.Context, snap fold.Snapshot, head uint64, from, to int) ([][]byte, error) {
	b, err := st.bucketOf(ctx, snap.Session)
	if err != nil {
		return nil, err
	}
	data := make([][]byte, to-from)
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for start := from; start < to && all.Err() == nil; start += readMessages {
		group.Go(func() error {
			end := min(start+readMessages, to)
			r := reading{Store: st, b: b, snap: snap, head: head, from: start, data: data[start-from : end-from]}
			return r.read(all)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return data, ctx.Err()
}

// reading reads some messages of a snapshot.
type reading struct {
	*Store

	b    *bucket
	snap fold.Snapshot
	head uint64
	from int
	data [][]byte // of the messages from one on

	keys  map[string]place // keys of the packs that may have some of them
	packs []pack           // for each message the pack that has it
}

// place is the place of a pack: that of its first message.
type place struct {
	index      int
	generation chunk.Ordinal
}

// pack is a stored pack and its place.
type pack struct {
	place

	seq     uint64
	data    []byte
	pointer pointer // with a name if the data is an object
}

func (r *reading) read(ctx context.Context) error {
	if err := r.place(); err != nil {
		return err
	}
	r.packs = make([]pack, len(r.data))
	for missing := len(r.data); missing > 0; {
		found := map[string]pack{}
		if len(r.keys) > 0 { // an empty list is an error of the server
			var err error
			if found, err = r.request(ctx); err != nil {
				return err
			}
		}
		if len(found) == 0 {
			return fmt.Errorf("%w: %d messages from %d on are missing", fold.ErrInconsistent, missing, r.from)
		}
		for subject, p := range found {
			missing -= r.add(p)
			delete(r.keys, subject)
		}
	}
	return r.open(ctx)
}

// place determines the keys. A pack that has message n begins with one of the messages up to it, at most MaxPackMessages-1 before. Which one is not known, so
// all these keys are requested: one request gets the packs of hundreds of messages, and a key without a value costs the server a look-up in memory.
func (r *reading) place() error {
	r.keys = make(map[string]place, fold.MaxPackMessages+len(r.data))
	for n := max(0, r.from-fold.MaxPackMessages+1); n < r.from+len(r.data); n++ {
		p := place{index: n, generation: r.snap.Generation(n)}
		key, err := packKey(r.snap.Session, p)
		if err != nil {
			return err
		}
		r.keys[r.b.subject(key)] = p
	}
	return nil
}

// request returns the values of some of the keys that belong to the head.
func (r *reading) request(ctx context.Context) (map[string]pack, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var limit error
	found := make(map[string]pack, len(r.keys))
	upTo, err := request(ctx, r.Store, func(ctx context.Context) (uint64, error) {
		clear(found) // of an attempt without its end, perhaps from another replica
		return r.api.LastOfEach(ctx, r.b.name, slices.Collect(maps.Keys(r.keys)), func(m jsclient.Message) {
			at, asked := r.keys[m.Subject]
			if !asked || isMarker(m.Header) || r.head > 0 && m.Seq > r.head {
				return
			}
			p := pack{place: at, seq: m.Seq, data: m.Data}
			if spilled, is := readPointer(m.Data); is {
				p.pointer = spilled
			}
			if limit = cmp.Or(limit, projector.CountRead(ctx, p.size())); limit != nil {
				cancel()
				return
			}
			found[m.Subject] = p
		})
	})
	switch {
	case limit != nil:
		return nil, limit
	case err != nil:
		return nil, fmt.Errorf("read messages of %s: %w", r.snap.Session, err)
	case upTo < r.head:
		return nil, fmt.Errorf("%w: replica behind the head, or without messages", fold.ErrInconsistent)
	}
	return found, nil
}

// size returns the number of bytes of the messages of p; an object is counted when it is read, because most packs that are found have none of the messages.
func (p *pack) size() int {
	if p.pointer.Object != "" {
		return len(p.data)
	}
	return len(p.data) - packHeader(p.data)
}

// count returns the number of messages of p, 0 if it belongs to another life of the session or is damaged.
func (r *reading) count(p pack) int {
	if p.pointer.Object != "" && p.pointer.Life == r.snap.Created {
		return p.pointer.Messages
	}
	return len(readPack(p.data, r.snap.Created))
}

// add notes p for the messages that it has, and returns the number of those that had no pack before. Two packs can have the same message, with the same
// content: a pack that ends with a generation, and one of a fold that has read on. Only a build that stores a message differently changes the content, and
// then the later pack is the one of the head.
func (r *reading) add(p pack) (added int) {
	for n := range r.count(p) {
		i := p.index + n - r.from
		if i < 0 || i >= len(r.packs) || r.snap.Generation(p.index+n) != p.generation {
			continue
		}
		if r.packs[i].seq == 0 {
			added++
		}
		if r.packs[i].seq < p.seq {
			r.packs[i] = p
		}
	}
	return added
}

// open sets the messages from the packs, and reads those that are objects.
func (r *reading) open(ctx context.Context) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := 0; i < len(r.packs) && all.Err() == nil; {
		p, end := r.packs[i], i+1
		for end < len(r.packs) && r.packs[end].seq == p.seq {
			end++
		}
		target, first := r.data[i:end], r.from+i-p.index
		i = end
		if p.pointer.Object == "" {
			if err := r.unpack(p, p.data, first, target); err != nil {
				return errors.Join(err, group.Wait())
			}
			continue
		}
		group.Go(func() error {
			if err := projector.CountRead(all, p.pointer.Bytes); err != nil {
				return err
			}
			data, err := r.fetch(all, p.pointer)
			if errors.Is(err, errNoObject) {
				err = fmt.Errorf("%w: the object of message %d is missing", fold.ErrInconsistent, p.index)
			}
			if err == nil {
				err = r.unpack(p, data, first, target)
			}
			return err
		})
	}
	return group.Wait()
}

// unpack sets the messages of a pack from one on.
func (r *reading) unpack(p pack, data []byte, first int, target [][]byte) error {
	messages := readPack(data, r.snap.Created)
	if first+len(target) > len(messages) {
		return fmt.Errorf("%w: damaged pack of message %d", fold.ErrInconsistent, p.index)
	}
	copy(target, messages[first:])
	return nil
}

// savePacks writes the packs that a snapshot holds.
func (s *saving) savePacks(ctx context.Context, packs [][]fold.FinishedMessage) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, p := range packs {
		if all.Err() != nil {
			break
		}
		group.Go(func() error { return s.savePack(all, p) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// savePack writes one pack. It may be stored already: a process that crashed before it saved the head has written the same value.
func (s *saving) savePack(ctx context.Context, p []fold.FinishedMessage) error {
	what := fmt.Sprintf("message %d", p[0].Index)
	data := appendPack(nil, s.life, p)
	if len(data) > s.cfg.MaxValueBytes {
		return &projector.TooLargeError{Session: s.session, Object: what, Size: len(data), Limit: s.cfg.MaxValueBytes}
	}
	key, err := packKey(s.session, place{index: p[0].Index, generation: p[0].Generation})
	if err != nil {
		return err
	}
	value := data
	if len(value) > s.b.limit {
		if value, err = s.spilled(ctx, messageObject, data, func(of *pointer) { of.Life, of.Messages = s.life, len(p) }); err != nil {
			return err
		}
	}
	var nothing uint64
	seq, err := s.put(ctx, s.b, key, write{data: value, expect: &nothing})
	if errors.Is(err, projector.ErrConflict) {
		seq, err = s.replacePack(ctx, key, value, data)
	}
	if errors.Is(err, errTooLarge) {
		return &projector.TooLargeError{Session: s.session, Object: what, Size: len(data), Limit: s.b.limit}
	}
	s.wrote(key, seq)
	return err
}

// replacePack replaces a stored pack, unless it has all messages of the new one. A different pack was stored before the session was deleted and started
// again, by a build that stores a message differently, or by a fold that ended the pack earlier; or the bucket is damaged. Only a save that may replace the head
// may replace it. Otherwise:
//  1. projector A is slow and is about to write pack 3 of a session,
//  2. the session is deleted, starts again and gets another pack 3,
//  3. projector A writes, and the new head is inconsistent.
func (s *saving) replacePack(ctx context.Context, key string, value, data []byte) (uint64, error) {
	stored, err := s.last(ctx, s.b, key)
	if err != nil {
		return 0, err
	}
	if has, err := s.has(ctx, stored.value, value, data); has || err != nil {
		return stored.seq, err // this save may have stored it, in an attempt whose response was lost: cleanUpLate has to know it
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

// has reports whether the stored value has all messages of the pack to be written. Then its object, if it is one, is not needed.
func (s *saving) has(ctx context.Context, stored, value, data []byte) (bool, error) {
	p, spilled := readPointer(stored)
	if spilled {
		var err error
		stored, err = s.fetch(ctx, p)
		if errors.Is(err, errNoObject) { // the bucket was lost
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	old, messages := readPack(stored, s.life), readPack(data, s.life)
	if len(old) < len(messages) || !slices.EqualFunc(old[:len(messages)], messages, bytes.Equal) {
		return false, nil
	}
	if q, spilled := readPointer(value); spilled && q.Object != p.Object { // the same if the response to an earlier attempt was lost
		return true, s.discard(ctx, s.b, s.session, q.Object)
	}
	return true, nil
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

func packKey(s chunk.Session, p place) (string, error) {
	if p.index >= 1<<indexBits || p.generation >= 1<<(64-indexBits) {
		return "", fmt.Errorf("session %s: message %d of generation %d has no key", s, p.index, p.generation)
	}
	n := uint64(p.generation)<<indexBits | uint64(p.index)
	return names.SnapshotPackKey(s, n)
}
