package hub

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/wait"
)

// key names a root within its partition.
type key struct{ tenant, root string }

// follower follows one scope, and fills its topics.
type follower struct {
	hub    *Hub
	scope  Scope
	cancel func() // ends run; nil before

	mu      sync.Mutex       // guards the fields below, and watchers and idle of every topic
	topics  map[key][]*topic // watched and idle roots, one topic per encoding; the slices are immutable
	pos     chunk.Seq        // the feed has delivered all messages up to pos; valid if known is set
	known   bool             // the feed has a position
	stream  int              // incremented when the stream was recreated
	epoch   string           // of the stream, as reported by the log
	start   chan struct{}    // closed when known is set
	broken  error            // why the feed is not open, or nil
	isOpen  bool             // the feed is open
	wasOpen bool             // the feed has been open
	demand  int              // subscribers: open cursors, and calls of Subscribe
	idle    time.Time        // when the last subscriber left, or the feed was opened without having had one
}

var errNotStarted = errors.New("feed not opened yet")

// release removes a subscriber. A feed of a root without topics is ended at once, as they are: see leave.
func (p *follower) release() {
	p.mu.Lock()
	p.demand--
	now := time.Now()
	if p.demand == 0 {
		p.idle = now
	}
	unserved := p.demand == 0 && len(p.topics) == 0 && p.scope.Root != (chunk.Session{})
	p.mu.Unlock()
	if unserved {
		p.hub.feeds.retire(p, now)
	}
}

var feedBackoff = wait.Backoff{First: 50 * time.Millisecond, Max: time.Second, Jitter: true}

// run keeps the feed open until ctx ends.
func (p *follower) run(ctx context.Context) {
	for attempt := 1; ; attempt++ {
		started := time.Now()
		err := p.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		p.hub.cfg.Log.Warn("feed failed", "feed", p.scope.String(), "error", err)
		p.failed(err)
		if time.Since(started) > 10*time.Second {
			attempt = 1
		}
		if wait.Sleep(ctx, feedBackoff.Delay(attempt)) != nil {
			return
		}
	}
}

func (p *follower) follow(ctx context.Context) error {
	pos, err := p.position(ctx)
	if err != nil {
		return err
	}
	p.opened()
	var enc encoded
	for msg, err := range p.hub.feed.Open(ctx, p.scope, pos) {
		if err != nil {
			return err
		}
		if err := p.deliver(msg, &enc); err != nil {
			return err
		}
	}
	return errFeedEnded
}

// position returns where the feed resumes, or the tip of the stream if the feed has no position.
func (p *follower) position(ctx context.Context) (chunk.Seq, error) {
	p.mu.Lock()
	pos, known := p.pos, p.known
	p.mu.Unlock()
	if known {
		return pos, nil
	}
	tip, err := p.hub.feeds.tip(ctx, p.hub, p.scope.Partition)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err // retired meanwhile
	}
	if tip.Seq < p.pos || (p.epoch != "" && tip.StreamEpoch != p.epoch) {
		p.stream++ // recreated or restored while no feed was open
	}
	p.pos, p.epoch, p.known = tip.Seq, tip.StreamEpoch, true
	close(p.start)
	return tip.Seq, nil
}

func (p *follower) opened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle.IsZero() {
		p.idle = time.Now()
	}
	p.broken, p.isOpen, p.wasOpen = nil, true, true
}

// deliver appends one message to its topics. It advances the position first: a topic that is created in between
// starts after this message, which is then in the log.
func (p *follower) deliver(msg codec.Stored, enc *encoded) error {
	s, seq := msg.Session, msg.Seq
	p.mu.Lock()
	if seq <= p.pos {
		p.mu.Unlock()
		return errFeedOutOfOrder
	}
	p.pos = seq
	topics := p.topics[key{s.Tenant, s.Root}]
	p.mu.Unlock()
	if len(topics) == 0 {
		return nil
	}
	rec, err := codec.Decode(msg)
	if err != nil {
		p.hub.counters.skipped.Add(1)
		if more, ok := p.hub.malformed.Allow(); ok {
			p.hub.cfg.Log.Warn("malformed message skipped", "session", s.String(), "sequence", uint64(seq), "error", err, "notLogged", more)
		}
		return nil
	}
	for _, t := range topics {
		enc.encode(t.encode, rec)
		t.append(rec, enc)
	}
	if p.hub.cfg.TracerProvider != nil {
		p.hub.trace(msg, rec)
	}
	return nil
}

// failed decides what the end of a feed means for the topics. After a broken connection they stay: the feed
// resumes after pos. After a truncation the feed has missed records, so the topics are replaced and cursors read the
// log; if the stream was recreated, positions of the old one are invalid. Only a gap before records that were
// delivered ends the cursors.
func (p *follower) failed(err error) {
	p.mu.Lock()
	p.broken, p.isOpen = err, false
	p.mu.Unlock()
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedGap:
		p.abandon(truncated)
	case isTruncated && truncated.Reason != chunk.TruncatedExpired:
		p.mu.Lock()
		p.stream++
		p.mu.Unlock()
		p.abandon(errTopicReplaced)
	case isTruncated || errors.Is(err, errFeedOutOfOrder):
		p.abandon(errTopicReplaced)
	}
}

// abandon drops all topics: their cursors end with err or, for errTopicReplaced, move to a new topic that starts at a
// new tip, unless the stream was recreated.
func (p *follower) abandon(err error) {
	p.mu.Lock()
	old := p.reset()
	p.mu.Unlock()
	dropAll(old, err)
}

// reset removes the position and all topics, which it returns. The caller holds the lock.
func (p *follower) reset() map[key][]*topic {
	old := p.topics
	p.topics = make(map[key][]*topic)
	if p.known {
		p.known, p.start = false, make(chan struct{})
	}
	return old
}

func dropAll(topics map[key][]*topic, err error) {
	for _, list := range topics {
		for _, t := range list {
			t.drop(err)
		}
	}
}

// watch returns the topic of a root in an encoding, created if necessary, with one more watcher. While the feed has
// no position, it returns a channel instead, which is closed when the caller should try again.
func (p *follower) watch(root chunk.Session, encoding string) (*topic, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return nil, p.start
	}
	k := key{root.Tenant, root.Root}
	for _, t := range p.topics[k] {
		if t.encoding == encoding {
			t.watchers++
			return t, nil
		}
	}
	t := newTopic(p, root, encoding)
	t.watchers++
	p.topics[k] = append(slices.Clone(p.topics[k]), t)
	return t, nil
}

// remove removes a topic, and reports whether it was there. The caller holds the lock.
func (p *follower) remove(t *topic) bool {
	k := key{t.root.Tenant, t.root.Root}
	i := slices.Index(p.topics[k], t)
	if i < 0 {
		return false
	}
	rest := slices.Concat(p.topics[k][:i], p.topics[k][i+1:])
	if p.topics[k] = rest; len(rest) == 0 {
		delete(p.topics, k)
	}
	return true
}

// leave removes one watcher. A topic of a tree of which no record is known is dropped at once: requests for invented names
// must not fill the memory.
func (p *follower) leave(t *topic) {
	p.mu.Lock()
	t.watchers--
	t.idle = time.Now()
	last := t.watchers == 0
	removed := last && !t.served.Load() && p.remove(t)
	p.mu.Unlock()
	switch {
	case removed:
		t.drop(errTopicReplaced)
	case last:
		t.unwatched()
	}
}

// forget drops the topics that have had no watcher since then.
func (p *follower) forget(since time.Time) {
	var idle []*topic
	p.mu.Lock()
	for _, topics := range p.topics {
		for _, t := range topics {
			if t.watchers == 0 && t.idle.Before(since) {
				idle = append(idle, t)
			}
		}
	}
	for _, t := range idle {
		p.remove(t)
	}
	p.mu.Unlock()
	for _, t := range idle {
		t.drop(errTopicReplaced)
	}
}

// ready returns nil if the feed is open, or if it has just been added and nothing has failed; else why it is not open.
func (p *follower) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken
}

func (p *follower) wasOpened() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wasOpen
}

func (p *follower) streamNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream
}

// count adds the feed, its topics and their watchers.
func (p *follower) count(s *Stats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isOpen {
		s.Feeds++
	}
	for _, topics := range p.topics {
		s.Topics += len(topics)
		for _, t := range topics {
			s.Cursors += t.watchers
		}
	}
}

func (p *follower) all(dst []*topic) []*topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topics := range p.topics {
		dst = append(dst, topics...)
	}
	return dst
}
