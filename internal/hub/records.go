package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// RecordEncoding is the encoding of whole records, for DecodeRecords. It cannot be the name of a view, because those contain no slash.
const RecordEncoding = "/records"

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
	cur, err := h.Subscribe(ctx, Request{Session: root, Encoding: RecordEncoding, After: after, KeepOpen: true, Await: through <= after.Seq})
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
	r.records, err = DecodeRecords(r.records[:0], batch.Frames, r.root)
	return r.records, err
}

// DecodeRecords appends the records of frames in RecordEncoding. Their Data is part of frames. root is the root session of the tree that they are of.
func DecodeRecords(dst []chunk.Record, frames []byte, root chunk.Session) ([]chunk.Record, error) {
	for len(frames) > 0 {
		before := chunk.Record{Session: root}
		if len(dst) > 0 {
			before = dst[len(dst)-1]
		}
		rec, n, err := decodeRecord(frames, before)
		if err != nil {
			return dst, err
		}
		dst = append(dst, rec)
		frames = frames[n:]
	}
	return dst, nil
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

// decodeRecord reads what encodeRecord wrote, and returns its length. Its Data is part of src. Most records have the session and the type of the record before
// them in the tree, and share its strings.
func decodeRecord(src []byte, before chunk.Record) (chunk.Record, int, error) {
	r := frameReader{rest: src}
	seq, epoch, ordinal, stored, session, typ := r.uvarint(), r.uvarint(), r.uvarint(), r.varint(), r.bytes(), r.bytes()
	rec := chunk.Record{
		Seq: chunk.Seq(seq), Epoch: chunk.Epoch(epoch), Ordinal: chunk.Ordinal(ordinal), Session: before.Session, Type: before.Type, Data: r.bytes(),
	}
	if string(session) != rec.Session.ID {
		rec.Session = rec.Session.Tree().Child(string(session))
	}
	if string(typ) != string(rec.Type) {
		rec.Type = chunk.Type(typ)
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
