package jssnapshots

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// maxLoads bounds how often a Load retries because the head was replaced at the same time.
const maxLoads = 100

// Load implements projector.Store.
func (st *Store) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	b, key, err := st.locate(ctx, s, names.SnapshotHeadKey)
	if err != nil {
		return fold.Snapshot{}, 0, err
	}
	entry, err := request(ctx, st, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return b.stream.GetLastMsgForSubject(ctx, b.subject(key)) // from any replica
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && isMarker(entry.Header) {
		return fold.Snapshot{}, 0, projector.ErrNoSnapshot
	}
	if err != nil {
		return fold.Snapshot{}, 0, fmt.Errorf("read %s: %w", key, err)
	}
	seq, value, owner := entry.Sequence, entry.Data, ownerRevisionOf(entry.Header)
	for range maxLoads {
		p, spilled := readPointer(value)
		size := len(value)
		if spilled {
			size = p.Bytes // counted before it is read
		}
		if err := projector.CountRead(ctx, size); err != nil {
			return fold.Snapshot{}, 0, err
		}
		if !spilled {
			return parseHead(s, key, value, revision(seq, false, owner))
		}
		data, err := st.fetch(ctx, p)
		if err == nil {
			return parseHead(s, key, data, revision(seq, true, owner))
		}
		if !errors.Is(err, errNoObject) {
			return fold.Snapshot{}, 0, err
		}
		// The head was replaced and its object removed, or a replica that lags returned an old head. The leader has the current one.
		m, err := st.last(ctx, b, key)
		switch {
		case err != nil:
			return fold.Snapshot{}, 0, err
		case m.value == nil:
			return fold.Snapshot{}, 0, projector.ErrNoSnapshot
		case m.seq == seq:
			return fold.Snapshot{}, revision(seq, true, owner), fmt.Errorf("%s: %w: %w", key, projector.ErrCorrupt, errNoObject)
		}
		seq, value, owner = m.seq, m.value, m.owner
	}
	return fold.Snapshot{}, 0, fmt.Errorf("read %s: replaced %d times during the read", key, maxLoads)
}

func parseHead(s chunk.Session, key string, value []byte, r projector.Revision) (fold.Snapshot, projector.Revision, error) {
	head, err := fold.ParseHead(value)
	switch {
	case errors.Is(err, fold.ErrVersion):
		return fold.Snapshot{}, r, err
	case err != nil:
		return fold.Snapshot{}, r, fmt.Errorf("%s: %w: %w", key, projector.ErrCorrupt, err)
	case head.Session != s:
		return fold.Snapshot{}, r, fmt.Errorf("%s: %w: head of session %s", key, projector.ErrCorrupt, head.Session)
	}
	return head, r, nil
}

// stored is the last message of a key on the leader: its sequence, its value, or nil if it was deleted, and of a head the ownerBits. The zero value is a key
// without a message.
type stored struct {
	seq   uint64
	value []byte
	owner projector.Revision
}

func (st *Store) last(ctx context.Context, b *bucket, key string) (stored, error) {
	m, err := st.lastMessage(ctx, b, b.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, fmt.Errorf("read %s: %w", key, err)
	}
	value := m.Data
	switch {
	case isMarker(m.Header):
		value = nil
	case value == nil:
		value = []byte{}
	}
	return stored{seq: m.Seq, value: value, owner: ownerRevisionOf(m.Header)}, nil
}

// lastMessage returns the last message of a subject on the leader, or jetstream.ErrMsgNotFound.
func (st *Store) lastMessage(ctx context.Context, b *bucket, subject string) (jsclient.Message, error) {
	return request(ctx, st, func(ctx context.Context) (jsclient.Message, error) { return st.api.Last(ctx, b.name, subject) })
}

// isMarker reports whether a message marks a deleted key.
func isMarker(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// Save implements projector.Store.
func (st *Store) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	b, err := st.bucketOf(ctx, snap.Session)
	if err != nil {
		return 0, err
	}
	s := saving{Store: st, b: b, session: snap.Session, life: snap.Created, after: after}
	if s.key, err = names.SnapshotHeadKey(snap.Session); err != nil {
		return 0, err
	}
	// The size of the head is checked before its messages are written: they would stay in the bucket without a head.
	head := snap.AppendHead(nil)
	if len(head) > st.cfg.MaxValueBytes {
		return 0, &projector.TooLargeError{Session: snap.Session, Object: "head", Size: len(head), Limit: st.cfg.MaxValueBytes}
	}
	if err := s.saveOwner(ctx, snap); err != nil {
		return 0, s.cleanUpLate(ctx, err)
	}
	packs := snap.Packs()
	if err := s.savePacks(ctx, packs); err != nil {
		return 0, s.cleanUpLate(ctx, err)
	}
	seq, spilled, err := s.head(ctx, snap, head)
	if errors.Is(err, errTooLarge) {
		err = &projector.TooLargeError{Session: snap.Session, Object: "head", Size: len(head), Limit: b.limit}
	}
	if err != nil {
		return 0, s.cleanUpLate(ctx, err)
	}
	r := revision(seq, spilled, ownerRevision(indexOf(snap)))
	if spilled || after&isObject != 0 {
		if _, err := st.collect(ctx, b, snap.Session, garbage{before: seq, keep: s.referenced}); err != nil {
			// The head is stored; the objects that remain are removed after the next save.
			st.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "old snapshot objects not removed", slog.Any("error", err))
		}
	}
	if len(packs) > 0 && snap.HasAllMessages() && after != 0 {
		// The first packs of a session, or a complete fold that replaces another one.
		if err := s.removeReplaced(ctx, snap, packs, seq); err != nil {
			st.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "replaced packs of a snapshot not removed", slog.Any("error", err))
		}
	}
	return r, nil
}

// saving is one Save.
type saving struct {
	*Store

	b       *bucket
	session chunk.Session
	life    int64 // see packInfo
	key     string
	after   projector.Revision

	object string // name of the object with the head, "" if the head is not an object

	mu       sync.Mutex        // guards what was written
	messages map[string]uint64 // keys of packs with their sequences
	objects  []string
}

// spilled records the name of an object and calls spill: a part of it may be written also after an error. It returns the value that points to it.
func (s *saving) spilled(ctx context.Context, kind string, data []byte, describe func(*pointer)) ([]byte, error) {
	object := kind + "-" + rand.Text()
	s.mu.Lock()
	s.objects = append(s.objects, object)
	s.mu.Unlock()
	p, err := s.spill(ctx, s.b, s.session, object, data)
	if err != nil {
		return nil, err
	}
	if describe != nil {
		describe(&p)
	}
	return json.Marshal(p)
}

// referenced reports whether the head or a message is stored in an object.
func (s *saving) referenced(object string) bool {
	return object == s.object || object[:1] == messageObject
}

// head stores the head, if the stored head is still the one that was loaded.
func (s *saving) head(ctx context.Context, snap fold.Snapshot, data []byte) (seq uint64, spilled bool, err error) {
	value := data
	if spilled = len(data) > s.b.limit; spilled {
		if value, err = s.spilled(ctx, headObject, data, nil); err != nil {
			return 0, spilled, err
		}
		p, _ := readPointer(value)
		s.object = p.Object
	}
	expect := sequence(s.after)
	w := write{data: value, header: header(snap), expect: &expect}
	seq, err = s.put(ctx, s.b, s.key, w)
	if errors.Is(err, projector.ErrConflict) && s.after == 0 {
		// A key that an operator has deleted has a marker.
		m, lastErr := s.last(ctx, s.b, s.key)
		if lastErr == nil && m.seq > 0 && m.value == nil {
			expect = m.seq
			seq, err = s.put(ctx, s.b, s.key, w)
		}
	}
	return seq, spilled, err
}

// cleanUpLate removes the values that a save wrote for a session that was deleted at the same time, and perhaps has started again: the deletion did not find them.
func (s *saving) cleanUpLate(ctx context.Context, err error) error {
	if !errors.Is(err, projector.ErrConflict) {
		return err
	}
	now, _, loadErr := s.Load(ctx, s.session)
	if loadErr != nil || !now.Deleted() && now.Created == s.life {
		return err // another head counts the same messages
	}
	own, keyErr := names.SnapshotOwnerKey(s.session.Tree(), ownerName(ownerOf(now)))
	if keyErr != nil {
		return errors.Join(err, keyErr)
	}
	for key, seq := range s.messages {
		if key == own && !now.Deleted() {
			continue // the session that has started again has the same owner
		}
		if _, purgeErr := s.purge(ctx, s.b.name, s.b.subject(key), seq+1); purgeErr != nil {
			return errors.Join(err, purgeErr)
		}
	}
	for _, object := range s.objects {
		if discardErr := s.discard(ctx, s.b, s.session, object); discardErr != nil {
			return errors.Join(err, discardErr)
		}
	}
	return err
}
