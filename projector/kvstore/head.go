package kvstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// maxLoads bounds how often a Load finds a head that somebody replaces just then.
const maxLoads = 100

// Load implements projector.Store.
func (st *Store) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	key, err := subjects.SnapshotHeadKey(s)
	if err != nil {
		return fold.Snapshot{}, 0, err
	}
	b, err := st.open(ctx)
	if err != nil {
		return fold.Snapshot{}, 0, err
	}
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return fold.Snapshot{}, 0, projector.ErrNoSnapshot
	}
	if err != nil {
		return fold.Snapshot{}, 0, fmt.Errorf("read %s: %w", key, err)
	}
	seq, value := entry.Revision(), entry.Value()
	for range maxLoads {
		p, spilled := readPointer(value)
		if !spilled {
			return parseHead(s, key, value, revision(seq, false))
		}
		data, err := st.fetch(ctx, p)
		if err == nil {
			return parseHead(s, key, data, revision(seq, true))
		}
		if !errors.Is(err, errNoObject) {
			return fold.Snapshot{}, 0, err
		}
		// The head has moved on and its object is gone; or a replica that lags
		// gave us an old head. The leader has the one that counts.
		m, err := st.last(ctx, b, key)
		switch {
		case err != nil:
			return fold.Snapshot{}, 0, err
		case m.value == nil:
			return fold.Snapshot{}, 0, projector.ErrNoSnapshot
		case m.seq == seq:
			return fold.Snapshot{}, revision(seq, true), fmt.Errorf("%s: %w: %w", key, projector.ErrDamaged, errNoObject)
		}
		seq, value = m.seq, m.value
	}
	return fold.Snapshot{}, 0, fmt.Errorf("read %s: it was replaced %d times meanwhile", key, maxLoads)
}

func parseHead(s chunk.Session, key string, value []byte, r projector.Revision) (fold.Snapshot, projector.Revision, error) {
	head, err := fold.ParseHead(value)
	switch {
	case errors.Is(err, fold.ErrVersion):
		return fold.Snapshot{}, r, err
	case err != nil:
		return fold.Snapshot{}, r, fmt.Errorf("%s: %w: %w", key, projector.ErrDamaged, err)
	case head.Session != s:
		return fold.Snapshot{}, r, fmt.Errorf("%s: %w: it is of session %s", key, projector.ErrDamaged, head.Session)
	}
	return head, r, nil
}

// stored is what the leader has under a key: its last sequence, and its value or
// nil when it was deleted. The zero one: nothing.
type stored struct {
	seq   uint64
	value []byte
}

func (st *Store) last(ctx context.Context, b *bucket, key string) (stored, error) {
	m, err := st.api.Last(ctx, b.name, b.subject(key))
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
	return stored{seq: m.Seq, value: value}, nil
}

// isMarker reports whether a message stands where a key was deleted.
func isMarker(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// Save implements projector.Store.
func (st *Store) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	b, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	s := saving{Store: st, b: b, session: snap.Session, after: after}
	if s.key, err = subjects.SnapshotHeadKey(snap.Session); err != nil {
		return 0, err
	}
	// A head that does not fit is found out before its messages are written:
	// they would wait in the bucket for a head that never comes.
	head := snap.AppendHead(nil)
	if len(head) > st.cfg.Largest {
		return 0, st.tooLarge(snap.Session, "head", len(head), st.cfg.Largest)
	}
	if err := s.saveMessages(ctx, snap.Finished()); err != nil {
		return 0, s.given(ctx, err)
	}
	seq, spilled, err := s.head(ctx, snap, head)
	if errors.Is(err, errTooLarge) {
		err = st.tooLarge(snap.Session, "head", len(head), b.limit)
	}
	if err != nil {
		return 0, s.given(ctx, err)
	}
	r := revision(seq, spilled)
	if spilled || after&isObject != 0 {
		if _, err := st.collect(ctx, b, snap.Session, seq, s.wanted); err != nil {
			// The head is stored; what is left is removed behind the next one.
			st.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "an old snapshot could not be removed", slog.Any("error", err))
		}
	}
	return r, nil
}

// saving is one Save.
type saving struct {
	*Store

	b       *bucket
	session chunk.Session
	key     string
	after   projector.Revision

	object string // that the head is in, "" for none

	mu       sync.Mutex        // guards what was written
	messages map[string]uint64 // keys with their sequences
	objects  []string
}

// spilled is spill that is remembered.
func (s *saving) spilled(ctx context.Context, kind string, data []byte) ([]byte, error) {
	value, err := s.spill(ctx, s.b, s.session, kind, data)
	if p, is := readPointer(value); is {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects = append(s.objects, p.Object)
	}
	return value, err
}

// wanted are the object of the head and those of messages.
func (s *saving) wanted(object string) bool {
	return object == s.object || object[:1] == messageObject
}

// head stores the head, if the stored one still is the one we know.
func (s *saving) head(ctx context.Context, snap fold.Snapshot, data []byte) (seq uint64, spilled bool, err error) {
	value := data
	if spilled = len(data) > s.b.limit; spilled {
		if value, err = s.spilled(ctx, headObject, data); err != nil {
			return 0, spilled, err
		}
		p, _ := readPointer(value)
		s.object = p.Object
	}
	expect := sequence(s.after)
	w := write{data: value, header: index(snap), expect: &expect}
	seq, err = s.put(ctx, s.b, s.key, w)
	if errors.Is(err, projector.ErrConflict) && s.after == 0 {
		// A key that an operator has deleted has a marker in its place.
		m, lastErr := s.last(ctx, s.b, s.key)
		if lastErr == nil && m.seq > 0 && m.value == nil {
			expect = m.seq
			seq, err = s.put(ctx, s.b, s.key, w)
		}
	}
	return seq, spilled, err
}

// given cleans up behind a save that came too late for a session that was
// deleted: what it wrote was not there when the rest was removed.
func (s *saving) given(ctx context.Context, err error) error {
	if !errors.Is(err, projector.ErrConflict) {
		return err
	}
	now, _, loadErr := s.Load(ctx, s.session)
	if loadErr != nil || !now.Deleted() {
		return err // somebody else's head counts the same messages
	}
	for key, seq := range s.messages {
		if _, purgeErr := s.api.Purge(ctx, s.b.name, s.b.subject(key), seq+1); purgeErr != nil {
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

// indexHeader is what a list of sessions needs to know of a head. It is written
// with it, so that it costs no write of its own and is never another head's.
const indexHeader = "Tailrace-Session"

type indexed struct {
	Status    fold.Status   `json:"status"`
	AgentType string        `json:"agentType,omitempty"`
	Seq       chunk.Seq     `json:"seq"`
	Ordinal   chunk.Ordinal `json:"ordinal"`
	Created   int64         `json:"created,omitempty"` // milliseconds
	Began     int64         `json:"began,omitempty"`   // milliseconds
	Deleted   bool          `json:"deleted,omitempty"`
}

func index(s fold.Snapshot) nats.Header {
	text, err := json.Marshal(indexed{
		Status: s.Status, AgentType: clipped(s.AgentType), Seq: s.Position.Seq, Ordinal: s.Position.Ordinal,
		Created: s.Created, Began: s.Run.Began, Deleted: s.Deleted(),
	})
	if err != nil {
		return nil // of strings and numbers: never
	}
	return nats.Header{indexHeader: {string(text)}}
}

// maxAgentType bounds what of an agent's name is in a header. A name is a token
// of a subject, so a longer one is nobody's.
const maxAgentType = 128

func clipped(name string) string {
	if len(name) > maxAgentType {
		return ""
	}
	return name
}
