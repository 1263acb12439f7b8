package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tailrace/tailrace/chunk"
)

// ErrCorrupt reports a segment that differs from the description in its index.
var ErrCorrupt = errors.New("corrupt archive segment")

// maxSegmentBytes limits the size of a segment before compression, unless its only record is larger. A segment is one message, and even an incompressible
// one is smaller than the default max_payload of 1 MiB. Larger segments would compress little better, and a reader keeps a whole segment in memory.
const maxSegmentBytes = 512 << 10

// Packed is a segment that is not stored yet.
type Packed struct {
	Segment

	Data []byte
}

// A Packer packs the records of one session in their order. The segment of a record depends only on earlier records, so that when a session has grown, all
// segments but the last are the same as before. The zero Packer is ready for use.
type Packer struct {
	plain   []byte
	segment Segment
	seq     uint64 // of the previous record, likewise the other fields
	stored  int64
	ordinal uint64
}

// Add packs a record. If the segment of the earlier records is full, it returns that segment.
func (p *Packer) Add(rec chunk.Record) (full Packed, ok bool) {
	size := 6*binary.MaxVarintLen64 + len(rec.Type) + len(rec.Data)
	if p.segment.Count > 0 && len(p.plain)+size > maxSegmentBytes {
		full, ok = p.Flush()
	}
	if p.segment.Count == 0 {
		p.segment.First = rec.Seq
	}
	p.plain = binary.AppendUvarint(p.plain, uint64(rec.Seq)-p.seq)
	p.plain = binary.AppendVarint(p.plain, rec.StoredAt.UnixNano()-p.stored)
	p.plain = binary.AppendUvarint(p.plain, uint64(rec.Epoch))
	p.plain = binary.AppendUvarint(p.plain, uint64(rec.Ordinal)-p.ordinal)
	p.plain = binary.AppendUvarint(p.plain, uint64(len(rec.Type)))
	p.plain = append(p.plain, rec.Type...)
	p.plain = binary.AppendUvarint(p.plain, uint64(len(rec.Data)))
	p.plain = append(p.plain, rec.Data...)
	p.seq, p.stored, p.ordinal = uint64(rec.Seq), rec.StoredAt.UnixNano(), uint64(rec.Ordinal)
	p.segment.Last = rec.Seq
	p.segment.Count++
	return full, ok
}

// Flush returns the last segment, if there is one.
func (p *Packer) Flush() (Packed, bool) {
	if p.segment.Count == 0 {
		return Packed{}, false
	}
	out := Packed{Segment: p.segment, Data: encoder.EncodeAll(p.plain, nil)}
	out.SHA256 = digest(out.Data)
	*p = Packer{plain: p.plain[:0]}
	return out, true
}

// Unpack appends the records of a segment to dst. Adjacent records share memory: a record that is retained keeps at most 16 KiB or its own body in memory.
// The error is ErrCorrupt.
func Unpack(dst []chunk.Record, s chunk.Session, segment Segment, data []byte) ([]chunk.Record, error) {
	if digest(data) != segment.SHA256 {
		return nil, fmt.Errorf("%w: another checksum", ErrCorrupt)
	}
	buffer := buffers.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has only this type
	defer buffers.Put(buffer)
	plain, err := decoder.DecodeAll(data, (*buffer)[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	*buffer = plain
	r := reader{rest: plain, types: make(map[string]chunk.Type)}
	records := slices.Grow(dst, min(segment.Count, len(plain)))
	before := len(records)
	var last chunk.Record
	var stored int64
	for len(r.rest) > 0 {
		rec := chunk.Record{Session: s}
		rec.Seq = last.Seq + chunk.Seq(r.uvarint())
		stored += r.varint()
		rec.StoredAt = time.Unix(0, stored).UTC()
		rec.Epoch = chunk.Epoch(r.uvarint())
		rec.Ordinal = last.Ordinal + chunk.Ordinal(r.uvarint())
		rec.Type = r.typ()
		rec.Data = r.kept()
		if r.broken || rec.Seq <= last.Seq {
			return nil, fmt.Errorf("%w: record %d of it", ErrCorrupt, len(records)-before)
		}
		records = append(records, rec)
		last = rec
	}
	if n := len(records) - before; n != segment.Count || n == 0 || records[before].Seq != segment.First || last.Seq != segment.Last {
		return nil, fmt.Errorf("%w: %d records, want %d", ErrCorrupt, n, segment.Count)
	}
	return records, nil
}

// reader reads one part after the other; after a missing part it is broken.
type reader struct {
	rest   []byte
	block  []byte                // to which bodies are copied
	types  map[string]chunk.Type // interned, there are only a few
	broken bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return v * r.skip(n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return v * int64(r.skip(n))
}

// skip returns 1, or 0 if fewer than n bytes were left.
func (r *reader) skip(n int) uint64 {
	if n <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return 1
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.broken, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// kept returns a copy of the next bytes that outlives the segment.
func (r *reader) kept() []byte {
	b := r.bytes()
	if len(b) > cap(r.block)-len(r.block) {
		r.block = make([]byte, 0, max(len(b), min(16<<10, len(b)+len(r.rest))))
	}
	r.block = append(r.block, b...)
	n := len(r.block)
	return r.block[n-len(b) : n : n]
}

func (r *reader) typ() chunk.Type {
	b := r.bytes()
	t, ok := r.types[string(b)]
	if !ok {
		t = chunk.Type(b)
		r.types[string(t)] = t
	}
	return t
}

// buffers holds buffers for segments that are being unpacked.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// The fastest level of zstd: the next level takes five times as long for four percent, and s2 is as fast and two thirds larger. The index has a checksum.
var (
	encoder = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false)))
	decoder = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(64<<20)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}
