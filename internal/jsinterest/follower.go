package jsinterest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures a Follower. The zero Config is ready for production.
type Config struct {
	// Layout names the subjects and streams of the log.
	Layout subjects.Layout

	// Interval is the time between two comparisons. Defaults to 2 seconds.
	Interval time.Duration

	// Log gets repairs and failed comparisons. Nil disables logging.
	Log *slog.Logger
}

// Follower follows trees of sessions. Its methods may be called concurrently.
type Follower struct {
	cfg     Config
	client  *jsclient.Client
	conn    *nats.Conn
	reading chan struct{} // one token for each read of the log

	mu      sync.Mutex
	provers map[int]*prover // of the partitions in which trees are followed

	repairs atomic.Int64 // reads of the log because messages were missing
}

const (
	// maxReads bounds the reads of the log that run at the same time: after the change of a leader many trees may be read.
	maxReads = 8

	// openTimeout is how long the beginning of a feed waits for its first comparison.
	openTimeout = 10 * time.Second
)

// New returns a Follower over js. It does not call the server. The error names the invalid field of cfg.
func New(js jetstream.JetStream, cfg Config) (*Follower, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	if cfg.Interval < 0 {
		return nil, fmt.Errorf("Interval is %s, want more than 0", cfg.Interval)
	}
	cfg.Interval = cmp.Or(cfg.Interval, 2*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Follower{
		cfg: cfg, client: jsclient.New(js), conn: js.Conn(), reading: make(chan struct{}, maxReads), provers: make(map[int]*prover),
	}, nil
}

// Scope returns the tree of s.
func (f *Follower) Scope(s chunk.Session) hub.Scope {
	return hub.Scope{Partition: f.cfg.Layout.Partition(s), Root: s.Tree()}
}

// AtStart returns nothing: a tree without clients is not followed.
func (*Follower) AtStart() []hub.Scope { return nil }

// Open yields every message of a tree after a sequence, live, unparsed, in the order of the stream and each once. It takes one subscription.
//
// It ends with ctx, or with a *chunk.TruncatedError without a session: recreated, if the stream was deleted and created again; expired, if retention removed
// messages before the feed had them; future, if after is beyond the end; gap, if a message is missing and a later one was delivered.
func (f *Follower) Open(ctx context.Context, of hub.Scope, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		t, err := f.open(of.Root, uint64(after))
		if err == nil {
			err = t.follow(ctx, func(m codec.Stored) bool { return yield(m, nil) })
			t.close()
		}
		if !errors.Is(err, errStopped) {
			yield(codec.Stored{}, err)
		}
	}
}

// errStopped reports that the caller of a feed needs no further message.
var errStopped = errors.New("stopped by the caller")

// open subscribes to a tree.
func (f *Follower) open(root chunk.Session, after uint64) (*tree, error) {
	layout := f.cfg.Layout
	filter, err := layout.Tree(root)
	if err != nil {
		return nil, err
	}
	live, err := names.Layout(layout).LiveTree(root)
	if err != nil {
		return nil, err
	}
	t := &tree{
		follower: f, root: root.Tree(), filter: filter, base: after, pos: after,
		msgs: make(chan *nats.Msg, maxQueued), results: make(chan result, 1), delivered: make(map[string]uint64),
	}
	t.proved.Store(after)
	if t.sub, err = f.conn.ChanSubscribe(live, t.msgs); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := layout.Partition(root)
	if f.provers[n] == nil {
		f.provers[n] = newProver(f, n)
	}
	t.prover = f.provers[n]
	t.prover.add(t)
	return t, nil
}

// close unsubscribes. The goroutine of the comparisons ends with the last tree of its partition.
func (t *tree) close() {
	if err := t.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		t.follower.cfg.Log.Debug("tree not unsubscribed", "error", err)
	}
	f, p := t.follower, t.prover
	f.mu.Lock()
	last := p.remove(t)
	if last {
		delete(f.provers, p.partition)
	}
	f.mu.Unlock()
	if last {
		p.stop()
	}
}

// Republish returns the configuration with which the stream of a partition publishes each stored message again.
func Republish(l subjects.Layout, partition int) *jetstream.RePublish {
	source, destination := names.Layout(l).Live(partition)
	return &jetstream.RePublish{Source: source, Destination: destination}
}
