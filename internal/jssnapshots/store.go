package jssnapshots

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Store. The zero Config is ready for production.
type Config struct {
	// Layout names the buckets.
	Layout subjects.Layout

	// MaxValueBytes is the maximum size of a head or a message. One that is larger than a value of the bucket is an object. Defaults to 64 MiB.
	MaxValueBytes int

	// WriteGrace is how long one save lasts at most, with a stall of its process: objects of a save that did not complete are kept for so long. Defaults to one hour.
	WriteGrace time.Duration

	// Log, if not nil, gets failures that do not fail a call.
	Log *slog.Logger
}

// parallel is how many requests for one session, or for buckets, are in flight at the same time.
const parallel = 16

// Store is a projector.Store in a key-value bucket for each partition and an object bucket, which topology creates. Its methods may be called concurrently. It need not be
// closed.
type Store struct {
	js  jetstream.JetStream
	api *jsclient.Client
	cfg Config

	values *jsvalues.Store

	mu     sync.Mutex      // guards opened
	opened map[int]*bucket // by partition
}

var (
	_ projector.Store  = (*Store)(nil)
	_ projector.Lister = (*Store)(nil)
)

// New returns a Store. It does not call the server; until the bucket exists every call fails. The error names the wrong field of cfg.
func New(js jetstream.JetStream, cfg Config) (*Store, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	cfg.MaxValueBytes = cmp.Or(cfg.MaxValueBytes, 64<<20)
	cfg.WriteGrace = cmp.Or(cfg.WriteGrace, time.Hour)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	api := jsclient.New(js)
	return &Store{js: js, api: api, cfg: cfg, values: jsvalues.New(api, cfg.Layout), opened: make(map[int]*bucket)}, nil
}

// Value implements projector.Store.
func (st *Store) Value(ctx context.Context, s chunk.Session, key string) ([]byte, string, error) {
	return st.values.Get(ctx, s, key, func(size int) error { return projector.CountRead(ctx, size) })
}

// info returns the state of the bucket, with the subjects of a filter unless it is empty.
func (st *Store) info(ctx context.Context, b *bucket, filter string) (*jetstream.StreamInfo, error) {
	var opts []jetstream.StreamInfoOpt
	if filter != "" {
		opts = append(opts, jetstream.WithSubjectFilter(filter))
	}
	info, err := request(ctx, st, func(ctx context.Context) (*jetstream.StreamInfo, error) { return b.stream.Info(ctx, opts...) })
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", b.bucket(), err)
	}
	return info, nil
}

// requestBudget is the retry budget of a request that may be repeated.
const requestBudget = 10 * time.Second

// request makes a request that reads or removes. A request or its response can be lost, and the context of the caller may last for minutes.
func request[T any](ctx context.Context, st *Store, ask func(context.Context) (T, error)) (T, error) {
	return jsclient.Retry(ctx, st.api.Reading(requestBudget), ask)
}

// purge removes the messages of a filter before a sequence, 0 for all, and returns their number, without those that an attempt without a response removed.
func (st *Store) purge(ctx context.Context, stream, filter string, before uint64) (uint64, error) {
	return request(ctx, st, func(ctx context.Context) (uint64, error) { return st.api.Purge(ctx, stream, filter, before) })
}

// isObject is a bit of a Revision, which otherwise is the sequence of a head in the stream of the bucket. It marks a head that is an object: a save that
// replaces the head has to remove the object. No stream reaches that sequence.
const isObject projector.Revision = 1 << 63

func revision(seq uint64, object bool, owner projector.Revision) projector.Revision {
	r := projector.Revision(seq) | owner
	if object {
		r |= isObject
	}
	return r
}

func sequence(r projector.Revision) uint64 { return uint64(r &^ (isObject | ownerBits)) }

// time of a number of milliseconds, zero for none.
func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}
