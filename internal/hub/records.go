package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// recordEncoding is the encoding of Follow. It cannot be the name of a view, because those contain no slash.
const recordEncoding = "/records"

// Records is the position of one reader of whole records. It belongs to one goroutine.
type Records struct {
	cur     *Cursor
	root    chunk.Session
	records []chunk.Record
}

// Follow returns the records of a root session and of all its sub-agents after a position of the root, which has its ordinal, or after the zero position.
// through is the last sequence that the session is known to have: if all its records have expired, and there were some after the position, the error is a
// *chunk.TruncatedError. Otherwise it waits for a session that has no record, and the end of a run does not end it. The caller must close the Records.
// Other errors are those of Subscribe.
func (h *Hub) Follow(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (*Records, error) {
	cur, err := h.Subscribe(ctx, Request{Session: root, Encoding: recordEncoding, After: after, KeepOpen: true, Await: through <= after.Seq})
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = &chunk.TruncatedError{Session: root, Reason: chunk.TruncatedExpired, After: after.Seq}
	}
	if err != nil {
		return nil, err
	}
	return &Records{cur: cur, root: root}, nil
}

// Next waits for the next records and returns at least one, or none if tick fires first. They are valid until the next call, and shared: their Data is
// read-only. Errors are those of Cursor.Next.
func (r *Records) Next(ctx context.Context, tick <-chan time.Time) ([]chunk.Record, error) {
	batch, err := r.cur.Next(ctx, tick)
	if err != nil {
		return nil, err
	}
	r.records = r.records[:0]
	for rest := batch.Frames; len(rest) > 0; {
		rec, n, err := decodeRecord(rest, r.root)
		if err != nil {
			return nil, err
		}
		r.records = append(r.records, rec)
		rest = rest[n:]
	}
	return r.records, nil
}

// Close releases the Records. It may be called twice.
func (r *Records) Close() { r.cur.Close() }

// encodeRecord is an Encode that keeps whole records: sequence, epoch, ordinal, time, session, type, data.
func encodeRecord(dst []byte, rec chunk.Record, _ chunk.Scope) []byte {
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

var errNotRecord = errors.New("frame is not a record")

// decodeRecord reads what encodeRecord wrote, and returns its length. Its Data is part of src.
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
	if r.invalid {
		return chunk.Record{}, 0, errNotRecord
	}
	return rec, len(src) - len(r.rest), nil
}

type frameReader struct {
	rest    []byte
	invalid bool
}

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return readNumber(r, v, n)
}

func (r *frameReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return readNumber(r, v, n)
}

func readNumber[T any](r *frameReader, v T, n int) T {
	if n <= 0 {
		r.invalid, n = true, 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *frameReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.invalid = true
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
