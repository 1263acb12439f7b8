package jsinterest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/wait"
)

// prover compares the trees of a partition with its stream. It has one goroutine, which ends with the last tree.
type prover struct {
	follower  *Follower
	partition int
	stream    string
	watch     *jsreader.Watch
	wake      chan struct{}      // a comparison was asked for
	cancel    context.CancelFunc // ends the goroutine
	running   sync.WaitGroup
	lastErr   error // of a comparison; for the goroutine only

	// changes counts lost connections and elections. Between one of them and the next comparison, messages of a tree may be missing in any number.
	changes atomic.Uint64

	mu     sync.Mutex
	trees  map[*tree]bool // true: a comparison was asked for
	round  uint64         // number of the last comparison that has begun
	newest newest         // message that was received
}

type newest struct {
	seq    uint64
	stored time.Time
}

// result is what a comparison has found for one tree.
type result struct {
	round   uint64
	changes uint64            // prover.changes when it began
	err     error             // why the feed ends
	epoch   string            // of the stream
	first   uint64            // its first sequence …
	end     uint64            // … and its last one, as the leader knows them
	last    map[string]uint64 // the last sequence of each subject that has one after tree.proved
	through uint64            // the replica that was asked had everything up to here
}

// LeaderElected returns the subject on which the server tells that a stream has another leader.
func LeaderElected(stream string) string {
	return "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + stream
}

func newProver(f *Follower, partition int) *prover {
	stream := f.cfg.Layout.Stream(partition)
	p := &prover{
		follower: f, partition: partition, stream: stream, watch: jsreader.NewWatch(f.client, stream),
		wake: make(chan struct{}, 1), trees: make(map[*tree]bool),
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.running.Go(func() { p.run(ctx) })
	return p
}

func (p *prover) add(t *tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trees[t] = false
}

// remove reports whether it was the last tree.
func (p *prover) remove(t *tree) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.trees, t)
	return len(p.trees) == 0
}

func (p *prover) stop() {
	p.cancel()
	p.running.Wait()
}

// ask requests a comparison of t and returns its number. A later one will do as well.
func (p *prover) ask(t *tree) (round uint64) {
	p.mu.Lock()
	p.trees[t] = true
	round = p.round + 1
	p.mu.Unlock()
	wait.Signal(p.wake)
	return round
}

// received records a message of the stream.
func (p *prover) received(seq uint64, stored time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seq > p.newest.seq {
		p.newest = newest{seq, stored}
	}
}

// warnFailures in a row are logged as a warning.
const warnFailures = 10

// backoff is the delay after a failed comparison.
var backoff = wait.Backoff{First: 20 * time.Millisecond, Max: time.Second}

func (p *prover) run(ctx context.Context) {
	status := p.follower.conn.StatusChanged(nats.CONNECTED, nats.RECONNECTING)
	defer p.follower.conn.RemoveStatusListener(status)
	elections := make(chan *nats.Msg, 16)
	if sub, err := p.follower.conn.ChanSubscribe(LeaderElected(p.stream), elections); err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails if the connection is closed, which ends the subscription too
	}
	ticker := time.NewTicker(p.follower.cfg.Interval)
	defer ticker.Stop()
	all, failed := false, 0
	var retry <-chan time.Time
	for {
		wake := p.wake
		if retry != nil {
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-retry:
		case <-ticker.C:
			all = true
		case <-status:
			p.changes.Add(1)
			all = true
		case <-elections:
			p.changes.Add(1)
			all = true
		}
		if retry = nil; p.compare(ctx, all) {
			all, failed = false, 0
			continue
		}
		if failed++; failed%warnFailures == 0 {
			p.follower.cfg.Log.Warn("comparison of trees failed", "stream", p.stream, "error", p.lastErr, "attempt", failed)
		}
		retry = time.After(backoff.Delay(failed))
	}
}

// compare compares all trees, or those that have asked for it. It reports whether all of them have a result.
func (p *prover) compare(ctx context.Context, all bool) bool {
	p.mu.Lock()
	p.round++
	about := result{round: p.round, changes: p.changes.Load()}
	var trees []*tree
	for t, asked := range p.trees {
		if all || asked {
			trees = append(trees, t)
			p.trees[t] = false
		}
	}
	last := p.newest
	p.mu.Unlock()
	if len(trees) == 0 {
		return true
	}
	p.watch.Received(last.seq, last.stored)
	var state jsclient.State
	err := p.follower.client.Attempt(ctx, func(ctx context.Context) (err error) {
		state, err = p.watch.Check(ctx)
		return err
	})
	if errors.Is(err, jsreader.ErrRecreated) {
		return p.recreated(about)
	}
	about.epoch, about.first, about.end = state.Epoch, state.First, state.Last
	for len(trees) > 0 && err == nil {
		var done int
		if done, err = p.compareSome(ctx, about, trees); err == nil {
			trees = trees[done:]
		}
	}
	if err == nil {
		return true
	}
	p.lastErr = err
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range trees {
		if _, ok := p.trees[t]; ok {
			p.trees[t] = true
		}
	}
	return false
}

// recreated ends the feeds that were compared before: what they have delivered is of another stream. It reports whether these are all. The others begin in the
// present stream, or find out that they do not.
func (p *prover) recreated(about result) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = newest{}
	all := true
	for t := range p.trees {
		if !t.compared {
			p.trees[t], all = true, false
			continue
		}
		res := about
		res.err = &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: chunk.Seq(t.proved.Load())}
		t.give(res)
	}
	return all
}

// found gives a tree what was found.
func (p *prover) found(t *tree, res result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.compared = true
	t.give(res)
}

// give replaces the result that the tree has not taken yet. Only the prover sends.
func (t *tree) give(res result) {
	select {
	case <-t.results:
	default:
	}
	t.results <- res
}
