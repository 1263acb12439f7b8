package kvstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Store. The zero Config is ready for production.
type Config struct {
	// Layout names the bucket.
	Layout subjects.Layout

	// Parallel is how many messages of one session are read or written at the
	// same time. Defaults to 16.
	Parallel int
}

// Store is a projector.Store in a key-value bucket, which topology makes. Its
// methods may be called concurrently. It holds nothing that would have to be
// closed.
type Store struct {
	js  jetstream.JetStream
	cfg Config

	mu     sync.Mutex // guards bucket and limit
	bucket jetstream.KeyValue
	limit  int // bytes of a value
}

var _ projector.Store = (*Store)(nil)

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
	return &Store{js: js, cfg: cfg}, nil
}

// headerRoom is what the headers of a stored value may take beside it.
const headerRoom = 256

// open finds the bucket once.
func (st *Store) open(ctx context.Context) (jetstream.KeyValue, int, error) {
	st.mu.Lock()
	kv, limit := st.bucket, st.limit
	st.mu.Unlock()
	if kv != nil {
		return kv, limit, nil
	}
	name := st.cfg.Layout.Snapshots()
	kv, err := st.js.KeyValue(ctx, name)
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", name, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", name, err)
	}
	limit = int(st.js.Conn().MaxPayload())
	if most := int(status.Config().MaxValueSize); most > 0 {
		limit = min(limit, most)
	}
	limit = max(0, limit-headerRoom)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.bucket, st.limit = kv, limit
	return kv, limit, nil
}

// Load implements projector.Store.
func (st *Store) Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error) {
	key, err := subjects.SnapshotHeadKey(s)
	if err != nil {
		return fold.Snapshot{}, 0, err
	}
	kv, _, err := st.open(ctx)
	if err != nil {
		return fold.Snapshot{}, 0, err
	}
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return fold.Snapshot{}, 0, projector.ErrNoSnapshot
	}
	if err != nil {
		return fold.Snapshot{}, 0, fmt.Errorf("read %s: %w", key, err)
	}
	revision := projector.Revision(entry.Revision())
	head, err := fold.ParseHead(entry.Value())
	switch {
	case errors.Is(err, fold.ErrVersion):
		return fold.Snapshot{}, revision, err
	case err != nil:
		return fold.Snapshot{}, revision, fmt.Errorf("%s: %w: %w", key, projector.ErrDamaged, err)
	case head.Session != s:
		return fold.Snapshot{}, revision, fmt.Errorf("%s: %w: it is of session %s", key, projector.ErrDamaged, head.Session)
	}
	return head, revision, nil
}

// Messages implements projector.Store.
func (st *Store) Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error) {
	kv, _, err := st.open(ctx)
	if err != nil {
		return nil, err
	}
	data := make([][]byte, snap.Missing())
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(st.cfg.Parallel)
	for n := range data {
		if all.Err() != nil {
			break
		}
		group.Go(func() error {
			key, err := messageKey(snap.Session, n, snap.Generation(n))
			if err != nil {
				return err
			}
			entry, err := kv.Get(all, key)
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return fmt.Errorf("%w: %s is missing", fold.ErrTorn, key)
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
			data[n] = entry.Value()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return data, ctx.Err()
}

// Save implements projector.Store.
func (st *Store) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	key, err := subjects.SnapshotHeadKey(snap.Session)
	if err != nil {
		return 0, err
	}
	kv, limit, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	// A head that does not fit is found out before its messages are written:
	// they would wait in the bucket for a head that never comes.
	head := snap.AppendHead(nil)
	if len(head) > limit {
		return 0, &projector.TooLargeError{Session: snap.Session, What: "head", Size: len(head), Limit: limit}
	}
	if err := st.saveMessages(ctx, kv, limit, snap); err != nil {
		return 0, err
	}
	var revision uint64
	if after == 0 {
		revision, err = kv.Create(ctx, key, head)
	} else {
		revision, err = kv.Update(ctx, key, head, uint64(after))
	}
	switch {
	case err == nil:
		return projector.Revision(revision), nil
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, projector.ErrConflict
	case refusedForSize(err):
		return 0, &projector.TooLargeError{Session: snap.Session, What: "head", Size: len(head), Limit: limit}
	}
	return 0, fmt.Errorf("write %s: %w", key, err)
}

// saveMessages writes the finished messages that snap holds. Writing one again
// writes the same.
func (st *Store) saveMessages(ctx context.Context, kv jetstream.KeyValue, limit int, snap fold.Snapshot) error {
	group, all := errgroup.WithContext(ctx)
	group.SetLimit(st.cfg.Parallel)
	for _, f := range snap.Finished() {
		if all.Err() != nil {
			break
		}
		tooLarge := &projector.TooLargeError{Session: snap.Session, What: fmt.Sprintf("message %d", f.Index), Size: len(f.Data), Limit: limit}
		if len(f.Data) > limit {
			group.Go(func() error { return tooLarge })
			break
		}
		group.Go(func() error {
			key, err := messageKey(snap.Session, f.Index, f.Generation)
			if err != nil {
				return err
			}
			if _, err = kv.Put(all, key, f.Data); refusedForSize(err) {
				return tooLarge
			}
			if err != nil {
				return fmt.Errorf("write %s: %w", key, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// errCodeTooLarge is the server's code for a message over the stream's limit.
const errCodeTooLarge = 10054

// refusedForSize reports whether the server has become stricter since its limits
// were asked for.
func refusedForSize(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == errCodeTooLarge
}

// indexBits is how many bits of a message's number are its index; the rest is
// its generation.
const indexBits = 24

func messageKey(s chunk.Session, index int, generation chunk.Ordinal) (string, error) {
	if index >= 1<<indexBits || generation >= 1<<(64-indexBits) {
		return "", fmt.Errorf("session %s: message %d of generation %d has no key", s, index, generation)
	}
	return subjects.SnapshotMessageKey(s, uint64(generation)<<indexBits|uint64(index))
}
