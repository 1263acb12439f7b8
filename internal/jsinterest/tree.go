package jsinterest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

const (
	// maxQueued bounds the messages of a tree that have arrived and are not delivered. The client drops the others; they are found missing.
	maxQueued = 256

	// arrivalTime is how long a message that a comparison has found may be in flight until it is read from the log.
	arrivalTime = 300 * time.Millisecond
)

// tree is a feed of one tree. It belongs to the goroutine of its caller, except the fields that are shared with the prover.
type tree struct {
	follower *Follower
	root     chunk.Session
	filter   string // of its messages in the log
	sub      *nats.Subscription
	msgs     chan *nats.Msg
	yield    func(codec.Stored) bool

	base      uint64            // only later messages are delivered
	pos       uint64            // of the last message that was delivered, or base
	stored    time.Time         // when that one was stored
	epoch     string            // of the stream
	delivered map[string]uint64 // the last sequence that was delivered of each subject
	covered   uint64            // changes that the last comparison covers, see prover.changes

	prover  *prover
	results chan result   // the newest comparison
	proved  atomic.Uint64 // everything up to here was delivered

	compared bool // has got a result; guarded by prover.mu
}

// follow delivers until ctx ends or the feed fails.
func (t *tree) follow(ctx context.Context, yield func(codec.Stored) bool) error {
	t.yield = yield
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	err := t.compare(opening)
	cancel()
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s: no response from NATS within %s", t.root, openTimeout)
	}
	var late result
	var arrived <-chan time.Time
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case m := <-t.msgs:
			err = t.take(ctx, m)
		case res := <-t.results:
			switch {
			case res.err != nil:
				err = res.err
			case res.changes > t.covered:
				err = t.repair(ctx, res)
			case t.isComplete(res):
				t.prove(res)
			case arrived == nil:
				late, arrived = res, time.After(arrivalTime)
			}
		case <-arrived:
			arrived = nil
			err = t.repair(ctx, late)
		}
	}
	return err
}

// take delivers a message that follows what was delivered. Before any other one the tree is compared: the message may follow a missing one, or may be of
// another stream with the same name. The same applies to each message since the connection was lost or the leader changed.
func (t *tree) take(ctx context.Context, m *nats.Msg) error {
	r, err := parse(m)
	if err != nil {
		t.follower.cfg.Log.Debug("malformed message on a live subject", "subject", m.Subject, "error", err)
		return nil // not from a server
	}
	switch {
	case t.prover.changes.Load() == t.covered && t.follows(r):
		return t.deliver(r.Message)
	case t.wasRead(r):
		return nil
	}
	if err := t.compare(ctx); err != nil {
		return err
	}
	switch {
	case r.Seq <= t.pos:
		if r.Seq > t.base && r.Seq > t.last(r.Subject) {
			return t.outOfOrder(ctx, r.Seq)
		}
		return nil
	case t.last(r.Subject) < r.before:
		return t.read(ctx, r.Seq)
	}
	return t.deliver(r.Message)
}

// follows reports whether a message is the next one of its session, and later than all that were delivered.
func (t *tree) follows(r republished) bool {
	last, ok := t.delivered[r.Subject]
	return r.Seq > t.pos && (r.before == last || !ok && r.before <= t.base)
}

// wasRead reports whether a message was in flight while it was read from the log. Such a message is older than what was delivered. One of another stream with
// the same name, which has these sequences too, is newer.
func (t *tree) wasRead(r republished) bool {
	return r.Seq <= t.pos && r.Seq <= t.last(r.Subject) && !r.Stored.After(t.stored)
}

// last returns the sequence up to which the messages of a subject were delivered.
func (t *tree) last(subject string) uint64 { return max(t.base, t.delivered[subject]) }

func (t *tree) deliver(m jsclient.Message) error {
	t.delivered[m.Subject], t.pos, t.stored = m.Seq, m.Seq, m.Stored
	t.prover.received(m.Seq, m.Stored)
	out := codec.Stored{Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data}
	s, err := t.follower.cfg.Layout.Parse(m.Subject)
	if err != nil {
		return nil //nolint:nilerr // not the subject of a session: it has no record
	}
	out.Session = s
	if !t.yield(out) {
		return errStopped
	}
	return nil
}

// compare waits for a comparison that begins now, and repairs what it finds.
func (t *tree) compare(ctx context.Context) error {
	ticket := t.prover.ask(t)
	for {
		select {
		case res := <-t.results:
			if res.err != nil {
				return res.err
			}
			if res.round >= ticket {
				return t.repair(ctx, res)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isComplete reports whether everything that a comparison has found was delivered.
func (t *tree) isComplete(res result) bool {
	for subject, seq := range res.last {
		if seq > t.last(subject) {
			return false
		}
	}
	return true
}

func (t *tree) prove(res result) {
	t.covered = max(t.covered, res.changes)
	t.proved.Store(max(t.proved.Load(), res.through))
}

// repair delivers what a comparison has found and was not delivered.
func (t *tree) repair(ctx context.Context, res result) error {
	t.epoch = res.epoch
	switch {
	case t.base > res.end && t.pos == t.base:
		return &chunk.TruncatedError{Reason: chunk.TruncatedFuture, After: chunk.Seq(t.base), FirstSeq: chunk.Seq(res.first)}
	case t.base > 0 && res.first > t.proved.Load()+1 && t.pos == t.base:
		return &chunk.TruncatedError{Reason: chunk.TruncatedExpired, After: chunk.Seq(t.base), FirstSeq: chunk.Seq(res.first)}
	}
	through := uint64(0)
	for subject, seq := range res.last {
		if seq <= t.last(subject) {
			continue
		}
		if seq <= t.pos {
			return t.outOfOrder(ctx, seq)
		}
		through = max(through, seq)
	}
	if through > 0 {
		if err := t.read(ctx, through); err != nil {
			return err
		}
	}
	t.prove(res)
	return nil
}

// outOfOrder reports a missing message before one that was delivered.
func (t *tree) outOfOrder(ctx context.Context, seq uint64) error {
	t.follower.cfg.Log.WarnContext(ctx, "message missing before delivered ones", "session", t.root.String(), "sequence", seq, "delivered", t.pos)
	return &chunk.TruncatedError{Reason: chunk.TruncatedGap, After: chunk.Seq(seq) - 1}
}

// read delivers the messages of the log after what was delivered, through a sequence or further.
func (t *tree) read(ctx context.Context, through uint64) error {
	select {
	case t.follower.reading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-t.follower.reading }()
	t.follower.repairs.Add(1)
	t.follower.cfg.Log.InfoContext(ctx, "missing messages read", "session", t.root.String(), "after", t.pos, "through", through)
	o := jsreader.NewOrdered(t.follower.client, jsreader.OrderedConfig{
		Stream: t.prover.stream, Filter: t.filter, Epoch: t.epoch, After: max(t.pos, t.proved.Load()), Strict: true, Log: t.follower.cfg.Log,
	})
	defer o.Close()
	err := o.Open(ctx)
	for err == nil && t.pos < through {
		var e jsreader.Entry
		if e, err = o.NextThrough(ctx, through); err == nil {
			err = t.deliver(e.Message)
		}
	}
	switch {
	case errors.Is(err, jsreader.ErrEnd): // the rest was deleted
		return nil
	case errors.Is(err, jsreader.ErrExpired):
		return &chunk.TruncatedError{Reason: chunk.TruncatedExpired, After: chunk.Seq(t.pos), FirstSeq: chunk.Seq(o.State().First)}
	case errors.Is(err, jsreader.ErrRecreated):
		return &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: chunk.Seq(t.pos)}
	}
	return err
}

// republished is a message of the log as the server has published it again.
type republished struct {
	jsclient.Message

	before uint64 // the message before it on its subject, 0 if there is none
}

func parse(m *nats.Msg) (r republished, err error) {
	r.Message, r.before, err = jsclient.Republished(m)
	return r, err
}
