package hub

import (
	"context"
	"time"
)

// acquire adds a subscriber. It resumes the feed if it is paused.
func (p *partition) acquire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.demand++
	if p.resumed != nil {
		close(p.resumed)
		p.resumed = nil
	}
}

// release removes a subscriber.
func (p *partition) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.demand--; p.demand == 0 {
		p.idle = time.Now()
	}
}

// begin returns the context of the next feed, or a channel that is closed when a paused feed should resume.
func (p *partition) begin(ctx context.Context) (context.Context, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed != nil {
		return nil, p.resumed
	}
	ctx, p.stop = context.WithCancel(ctx)
	return ctx, nil
}

// end releases the context of a feed that has ended.
func (p *partition) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.isOpen = false
}

// pauseIdle pauses the feed if it has been open and has had no subscriber since then. The topics are removed under the
// lock under which a subscriber announces itself: one that arrives later finds no topic, waits until the next feed has a
// position, and its topic starts there. A feed that has not been open yet is not paused: Started waits for it, and it
// finds out whether this process may follow the partition at all.
func (p *partition) pauseIdle(since time.Time) {
	p.mu.Lock()
	if p.demand > 0 || p.resumed != nil || !p.wasOpen || p.idle.After(since) {
		p.mu.Unlock()
		return
	}
	p.resumed, p.broken = make(chan struct{}), nil
	p.stop()
	old := p.reset()
	p.mu.Unlock()
	dropAll(old, errTopicReplaced)
}
