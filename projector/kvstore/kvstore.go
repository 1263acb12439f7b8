package kvstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Store. The zero Config is ready for production.
type Config struct {
	// Layout names the buckets.
	Layout subjects.Layout

	// Parallel is how many messages of one session are read or written at the
	// same time. Defaults to 16.
	Parallel int

	// Largest is how many bytes a head or a message may have. Above what a
	// value of the bucket holds it is an object. Defaults to 64 MiB.
	Largest int

	// Settle is after how long nobody is still at work on one save: what its
	// session had and was deleted meanwhile is removed for good. Defaults to
	// one minute.
	Settle time.Duration

	// Log, if not nil, gets what goes wrong and stops nothing.
	Log *slog.Logger
}

// Store is a projector.Store in a key-value bucket and an object bucket, which
// topology makes. Its methods may be called concurrently. It holds nothing that
// would have to be closed.
type Store struct {
	js  jetstream.JetStream
	api *jsapi.API
	cfg Config

	mu     sync.Mutex // guards opened
	opened *bucket
}

var (
	_ projector.Store  = (*Store)(nil)
	_ projector.Lister = (*Store)(nil)
)

// New makes a Store. It does not ask the server for anything; until the bucket
// is there every call fails. The error names the field of cfg that is wrong.
func New(js jetstream.JetStream, cfg Config) (*Store, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 16
	}
	if cfg.Parallel < 1 {
		return nil, fmt.Errorf("Parallel is %d, want at least 1", cfg.Parallel)
	}
	if cfg.Largest == 0 {
		cfg.Largest = 64 << 20
	}
	if cfg.Largest < 1 {
		return nil, fmt.Errorf("Largest is %d, want at least 1", cfg.Largest)
	}
	if cfg.Settle == 0 {
		cfg.Settle = time.Minute
	}
	if cfg.Settle < 0 {
		return nil, fmt.Errorf("Settle is %s, want more than 0", cfg.Settle)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{js: js, api: jsapi.New(js), cfg: cfg}, nil
}

// bucket is the bucket of heads and messages.
type bucket struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream
	name   string // of the stream
	prefix string // of its subjects
	limit  int    // bytes of a value
}

func (b *bucket) subject(key string) string { return b.prefix + key }

// key is the inverse of subject.
func (b *bucket) key(subject string) string { return strings.TrimPrefix(subject, b.prefix) }

// headerRoom is what the headers of a stored value may take beside it.
const headerRoom = 2048

// open finds the bucket once.
func (st *Store) open(ctx context.Context) (*bucket, error) {
	st.mu.Lock()
	opened := st.opened
	st.mu.Unlock()
	if opened != nil {
		return opened, nil
	}
	name := st.cfg.Layout.Snapshots()
	b := &bucket{name: "KV_" + name, prefix: "$KV." + name + "."}
	var err error
	if b.kv, err = st.js.KeyValue(ctx, name); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	if b.stream, err = st.js.Stream(ctx, b.name); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	limit := int(st.js.Conn().MaxPayload())
	if most := int(b.stream.CachedInfo().Config.MaxMsgSize); most > 0 {
		limit = min(limit, most)
	}
	b.limit = max(0, limit-headerRoom)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.opened = b
	return b, nil
}

// A Revision is the sequence of a head in the bucket's stream, and one bit more
// that says that the head is an object: whoever replaces it then has an object
// to remove. No stream comes that far.
const isObject projector.Revision = 1 << 63

func revision(seq uint64, object bool) projector.Revision {
	r := projector.Revision(seq)
	if object {
		r |= isObject
	}
	return r
}

func sequence(r projector.Revision) uint64 { return uint64(r &^ isObject) }

// tooLarge describes a part of a snapshot that does not fit.
func (st *Store) tooLarge(s chunk.Session, what string, size, limit int) error {
	return &projector.TooLargeError{Session: s, What: what, Size: size, Limit: limit}
}

// time of a number of milliseconds, zero for none.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
