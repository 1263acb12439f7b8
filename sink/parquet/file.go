package parquet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	// schemaVersion is the version of the columns. It changes when columns are added.
	schemaVersion = "1"

	rowGroupBytes = 8 << 20 // before compression
	writeRows     = 256     // rows between two looks at the size of a row group
	bloomBits     = 10      // per value, about 1 % false positives

	footerRead = 64 << 10 // bytes read at once from the end of a file
)

// footer is what the metadata of a file says about it.
type footer struct {
	first   uint64
	through row.Position // Seq is the last record
	writer  string       // random, of the process that stored the file first

	// boundary is the last record of the generation before that this one continues after. It counts in the first file of events of a generation only.
	boundary uint64

	// erased is set in merged files: the erasures up to it are applied to the file.
	erased erased
}

// The keys of the metadata.
const (
	keyPartition  = "tailrace.partition"
	keyGeneration = "tailrace.generation"
	keyHistory    = "tailrace.history"
	keyFirst      = "tailrace.first"
	keyLast       = "tailrace.last"
	keyAnchor     = "tailrace.anchor"
	keyStoredAt   = "tailrace.stored_at"
	keyBoundary   = "tailrace.boundary"
	keyWriter     = "tailrace.writer"
	keySchema     = "tailrace.schema"
	keyErased     = "tailrace.erased" // of merged files
)

func (f footer) options() []parquet.WriterOption {
	options := []parquet.WriterOption{
		parquet.KeyValueMetadata(keyPartition, strconv.Itoa(f.through.Partition)),
		parquet.KeyValueMetadata(keyGeneration, strconv.Itoa(f.through.Generation)),
		parquet.KeyValueMetadata(keyHistory, f.through.History),
		parquet.KeyValueMetadata(keyFirst, strconv.FormatUint(f.first, 10)),
		parquet.KeyValueMetadata(keyLast, strconv.FormatUint(uint64(f.through.Seq), 10)),
		parquet.KeyValueMetadata(keyAnchor, strconv.FormatInt(int64(f.through.Anchor), 10)),
		parquet.KeyValueMetadata(keyStoredAt, f.through.StoredAt.UTC().Format(time.RFC3339Nano)),
		parquet.KeyValueMetadata(keyBoundary, strconv.FormatUint(f.boundary, 10)),
		parquet.KeyValueMetadata(keyWriter, f.writer),
		parquet.KeyValueMetadata(keySchema, schemaVersion),
	}
	if (erased{}).less(f.erased) {
		text, _ := json.Marshal(f.erased) //nolint:errchkjson // numbers and names
		options = append(options, parquet.KeyValueMetadata(keyErased, string(text)))
	}
	return options
}

func readFooter(in *parquet.File) (f footer, err error) {
	number := func(key string) (n uint64) {
		text, _ := in.Lookup(key)
		n, parseErr := strconv.ParseUint(text, 10, 63)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("metadata %s is %q, want a number", key, text))
		}
		return n
	}
	f.first, f.boundary = number(keyFirst), number(keyBoundary)
	f.through = row.Position{
		Partition: int(number(keyPartition)), Generation: int(number(keyGeneration)), Seq: chunk.Seq(number(keyLast)), Anchor: chunk.Anchor(number(keyAnchor)),
	}
	f.through.History, _ = in.Lookup(keyHistory)
	f.writer, _ = in.Lookup(keyWriter)
	stored, _ := in.Lookup(keyStoredAt)
	at, parseErr := time.Parse(time.RFC3339Nano, stored)
	f.through.StoredAt = at.UTC()
	if text, ok := in.Lookup(keyErased); ok {
		parseErr = errors.Join(parseErr, json.Unmarshal([]byte(text), &f.erased))
	}
	return f, errors.Join(err, parseErr)
}

// compression keeps the memory of its encoders, 8 MiB each, for the next file.
var compression = &zstd.Codec{Level: zstd.SpeedFastest}

// encoding is locked while the rows of a batch are encoded: the buffers of its columns and of its compression are large.
var encoding sync.Mutex

// encode returns a file with rows.
func encode[T any](f footer, rows []T) ([]byte, error) {
	encoding.Lock()
	defer encoding.Unlock()
	e := newEncoder[T](f, 0)
	if err := e.write(rows); err != nil {
		return nil, err
	}
	return e.close()
}

// encoder makes a file.
type encoder[T any] struct {
	out   *bytes.Buffer
	w     *parquet.GenericWriter[T]
	begin int64 // of the row group
}

func newEncoder[T any](f footer, size int) *encoder[T] {
	out := bytes.NewBuffer(make([]byte, 0, size))
	options := append(f.options(), parquet.Compression(compression), parquet.BloomFilters(parquet.SplitBlockFilter(bloomBits, "root")))
	w := parquet.NewGenericWriter[T](out, options...)
	return &encoder[T]{out, w, w.Size()}
}

func (e *encoder[T]) write(rows []T) error {
	for len(rows) > 0 {
		if e.w.Size()-e.begin >= rowGroupBytes {
			if err := e.w.Flush(); err != nil {
				return err
			}
			e.begin = e.w.Size()
		}
		n := min(writeRows, len(rows))
		if _, err := e.w.Write(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (e *encoder[T]) close() ([]byte, error) {
	err := e.w.Close()
	return e.out.Bytes(), err
}

// decode returns the rows of a file.
func decode[T any](data []byte) (rows []T, err error) {
	in := parquet.NewGenericReader[T](bytes.NewReader(data))
	defer func() { err = errors.Join(err, in.Close()) }()
	rows = make([]T, in.NumRows())
	n, err := in.Read(rows)
	if n < len(rows) {
		return nil, err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return rows, nil
}

// openFooter reads the metadata of a file. With bloom filters, the file tells which roots it may have, until it is closed.
func openFooter(ctx context.Context, o objects, name string) (_ footer, _ *parquet.File, _ object, err error) {
	in, err := o.open(ctx, name)
	if err != nil {
		return footer{}, nil, nil, err
	}
	file, err := parquet.OpenFile(in, in.size(), parquet.SkipMagicBytes(true), parquet.SkipPageIndex(true), parquet.OptimisticRead(true), parquet.ReadBufferSize(footerRead))
	if err == nil {
		var f footer
		if f, err = readFooter(file); err == nil {
			return f, file, in, nil
		}
	}
	return footer{}, nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), in.Close())
}

// footerOf reads the metadata of a file.
func footerOf(ctx context.Context, o objects, name string) (footer, error) {
	f, _, in, err := openFooter(ctx, o, name)
	if err != nil {
		return footer{}, err
	}
	return f, in.Close()
}
