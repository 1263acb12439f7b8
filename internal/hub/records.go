package hub

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// RecordEncoding is the encoding of whole records, for ReadRecords. It cannot be the name of a view, because those contain no slash.
const RecordEncoding = "/records"

// Follow returns a cursor of the records, in RecordEncoding, of a root session and of all its sub-agents after a position of the root, which has its ordinal, or
// after the zero position. through is the last sequence that the session is known to have: if all its records have expired, and there were some after the
// position, the error is a *chunk.TruncatedError. Otherwise the cursor waits for a session that has no record, and the end of a run does not end it. The caller
// must close it. Other errors are those of Subscribe.
func (h *Hub) Follow(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (*Cursor, error) {
	cur, err := h.Subscribe(ctx, Request{Session: root, Encoding: RecordEncoding, After: after, KeepOpen: true, Await: through <= after.Seq})
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = &chunk.TruncatedError{Session: root, Reason: chunk.TruncatedExpired, After: after.Seq}
	}
	return cur, err
}

// EncodeRecord is the Encode of RecordEncoding. It keeps whole records: sequence, epoch, ordinal, time, session, type, data.
func EncodeRecord(dst []byte, rec chunk.Record, _ chunk.Scope) []byte {
	stored := int64(0)
	if !rec.StoredAt.IsZero() {
		stored = rec.StoredAt.UnixMilli()
	}
	dst = binary.AppendUvarint(dst, uint64(rec.Seq))
	dst = binary.AppendUvarint(dst, uint64(rec.Epoch))
	dst = binary.AppendUvarint(dst, uint64(rec.Ordinal))
	dst = binary.AppendUvarint(dst, uint64(stored))
	dst = appendBytes(dst, rec.Session.ID)
	dst = appendBytes(dst, string(rec.Type))
	return appendBytes(dst, rec.Data)
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

var errNotRecord = errors.New("frame is not a record")

// RecordReader reads the records of frames in RecordEncoding. It decodes all of them into one Record, because a response in a dialect decodes every record for its
// client. Most records have the session and the type of the one before them, and keep its strings.
type RecordReader struct {
	Record chunk.Record // its Data is part of the frames
	Err    error        // after Next has returned false

	rest []byte
}

// ReadRecords returns a reader of frames. root is the root session of the tree that they are of.
func ReadRecords(frames []byte, root chunk.Session) RecordReader {
	return RecordReader{Record: chunk.Record{Session: root}, rest: frames}
}

// Next decodes the next record. It returns false at the end, and if a frame is not a record.
func (r *RecordReader) Next() bool {
	if len(r.rest) == 0 {
		return false
	}
	seq, rest := uvarint(r.rest)
	epoch, rest := uvarint(rest)
	ordinal, rest := uvarint(rest)
	stored, rest := uvarint(rest)
	session, rest := prefixed(rest)
	typ, rest := prefixed(rest)
	data, rest := prefixed(rest)
	if r.rest = rest; rest == nil {
		r.Err = errNotRecord
		return false
	}
	rec := &r.Record
	rec.Seq, rec.Epoch, rec.Ordinal, rec.Data, rec.StoredAt = chunk.Seq(seq), chunk.Epoch(epoch), chunk.Ordinal(ordinal), data, time.Time{}
	if stored != 0 {
		rec.StoredAt = time.UnixMilli(int64(stored))
	}
	if string(session) != rec.Session.ID {
		rec.Session = rec.Session.Tree().Child(string(session))
	}
	if string(typ) != string(rec.Type) {
		rec.Type = chunk.Type(typ)
	}
	return true
}

// Rest returns the frames after the last record that Next has decoded.
func (r *RecordReader) Rest() []byte { return r.rest }

// uvarint reads a number. The rest is nil if there is none.
func uvarint(src []byte) (n uint64, rest []byte) {
	if len(src) > 0 && src[0] < 0x80 { // most of them; this part is inlined
		return uint64(src[0]), src[1:]
	}
	return longUvarint(src)
}

func longUvarint(src []byte) (n uint64, rest []byte) {
	n, size := binary.Uvarint(src)
	if size <= 0 {
		return 0, nil
	}
	return n, src[size:]
}

// prefixed reads bytes after their number. The rest is nil if there are not as many.
func prefixed(src []byte) (b, rest []byte) {
	n, rest := uvarint(src)
	if n > uint64(len(rest)) {
		return nil, nil
	}
	return rest[:n:n], rest[n:]
}
