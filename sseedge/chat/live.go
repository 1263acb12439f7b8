package chat

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// Follower is the log of a session as it grows. Hub is one.
type Follower interface {
	// Follow gives the records of a root session and of all its sub-agents behind a
	// position of the root, which has its ordinal, or behind the zero position. A
	// session that has no record yet is waited for, and the end of a run is not
	// the end. The RecordStream must be closed. Errors are a *chunk.TruncatedError when the
	// log cannot give what lies behind the position, the error of ctx, or that of a
	// log which cannot be asked.
	Follow(ctx context.Context, root chunk.Session, after chunk.Position) (RecordStream, error)
}

// RecordStream is one reader's place. It belongs to one goroutine.
type RecordStream interface {
	// Next waits for the next records, one at least; none when tick fires first. They are valid until the next call, and shared: their Data must not be changed.
	Next(ctx context.Context, tick <-chan time.Time) ([]chunk.Record, error)
	Close()
}

// HubFollower is a Follower over a hub.Hub that has Encode among its encodings: however many
// clients read a chat, its records are read once.
type HubFollower struct {
	HubFollower *hub.Hub
	Encoding    string // the name of Encode there, "" if it is the hub's own
}

// Follow is Follower's.
func (h HubFollower) Follow(ctx context.Context, root chunk.Session, after chunk.Position) (RecordStream, error) {
	cur, err := h.HubFollower.Subscribe(ctx, hub.Request{Session: root, Encoding: h.Encoding, After: after, KeepOpen: true})
	if err != nil {
		return nil, err
	}
	return &hubTail{cur: cur, root: root}, nil
}

type hubTail struct {
	cur     *hub.Cursor
	root    chunk.Session
	records []chunk.Record
}

// Next is RecordStream's.
func (t *hubTail) Next(ctx context.Context, tick <-chan time.Time) ([]chunk.Record, error) {
	batch, err := t.cur.Next(ctx, tick)
	if err != nil {
		return nil, err
	}
	t.records = t.records[:0]
	for rest := batch.Frames; len(rest) > 0; {
		rec, n, err := decodeRecord(rest, t.root)
		if err != nil {
			return nil, err
		}
		t.records = append(t.records, rec)
		rest = rest[n:]
	}
	return t.records, nil
}

// Close is RecordStream's.
func (t *hubTail) Close() { t.cur.Close() }

// Encode is a hub.Encode that keeps whole records, for readers that decode them: length, sequence, epoch, ordinal, time, session, type, data.
func Encode(dst []byte, rec chunk.Record, _ chunk.Scope) []byte {
	stored := int64(0)
	if !rec.StoredAt.IsZero() {
		stored = rec.StoredAt.UnixMilli()
	}
	dst = binary.AppendUvarint(dst, uint64(rec.Seq))
	dst = binary.AppendUvarint(dst, uint64(rec.Epoch))
	dst = binary.AppendUvarint(dst, uint64(rec.Ordinal))
	dst = binary.AppendVarint(dst, stored)
	dst = appendBytes(dst, rec.Session.ID)
	dst = appendBytes(dst, string(rec.Type))
	return appendBytes(dst, rec.Data)
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

var errFrame = errors.New("a frame of the hub is no record")

// decodeRecord reads what Encode wrote, and tells how long it is. Its Data is
// part of src.
func decodeRecord(src []byte, root chunk.Session) (chunk.Record, int, error) {
	r := frameReader{rest: src}
	seq, epoch, ordinal, stored := r.uvarint(), r.uvarint(), r.uvarint(), r.varint()
	rec := chunk.Record{
		Seq: chunk.Seq(seq), Epoch: chunk.Epoch(epoch), Ordinal: chunk.Ordinal(ordinal),
		Session: root.Child(string(r.bytes())), Type: chunk.Type(r.bytes()), Data: r.bytes(),
	}
	if stored != 0 {
		rec.StoredAt = time.UnixMilli(stored)
	}
	if r.bad {
		return chunk.Record{}, 0, errFrame
	}
	return rec, len(src) - len(r.rest), nil
}

type frameReader struct {
	rest []byte
	bad  bool
}

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return take(r, v, n)
}

func (r *frameReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return take(r, v, n)
}

func take[T any](r *frameReader, v T, n int) T {
	if n <= 0 {
		r.bad, n = true, 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *frameReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
