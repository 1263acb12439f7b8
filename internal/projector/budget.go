package projector

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tailrace/tailrace/internal/wait"
)

// Budget bounds the sessions that several Runners have in memory together, see Config.Budget. It has no goroutine and need not be closed.
type Budget struct {
	maxSessions, maxMemory int

	sessions, memory, inboxes, large atomic.Int64 // of all Runners

	mu    sync.Mutex // guards users
	users map[*budgetUser]struct{}
}

// NewBudget returns a Budget of a number of sessions, and of approximately a number of bytes. Zero is the default of Config.MaxSessions and Config.MaxMemory. The
// error names the invalid argument.
func NewBudget(maxSessions, maxMemory int) (*Budget, error) {
	cfg := Config{MaxSessions: maxSessions, MaxMemory: maxMemory}.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	return &Budget{maxSessions: cfg.MaxSessions, maxMemory: cfg.MaxMemory, users: make(map[*budgetUser]struct{})}, nil
}

// Used returns the number of sessions in memory, and approximately their bytes with those of the deliveries that wait.
func (b *Budget) Used() (sessions, memory int) {
	return int(b.sessions.Load()), int(b.memory.Load() + b.inboxes.Load())
}

// budgetUser is what one Runner uses of a Budget. The loop of the Runner changes it, other Runners read it.
type budgetUser struct {
	*Budget

	ownSessions, ownMemory, ownInboxes, ownLarge share
	wake                                         chan struct{} // another Runner needs memory
}

func (b *Budget) newUser() *budgetUser {
	return &budgetUser{
		Budget: b, ownSessions: share{all: &b.sessions}, ownMemory: share{all: &b.memory}, ownInboxes: share{all: &b.inboxes}, ownLarge: share{all: &b.large},
		wake: make(chan struct{}, 1),
	}
}

// share is what one Runner uses of one quantity of a Budget.
type share struct {
	all *atomic.Int64 // of all Runners
	own atomic.Int64
}

func (q *share) add(n int) {
	q.own.Add(int64(n))
	q.all.Add(int64(n))
}

// join makes the Runner one of those that share the Budget.
func (u *budgetUser) join() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users[u] = struct{}{}
}

// leave releases everything that the Runner uses.
func (u *budgetUser) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.users, u)
	for _, q := range []*share{&u.ownSessions, &u.ownMemory, &u.ownInboxes, &u.ownLarge} {
		q.add(-int(q.own.Load()))
	}
}

// takeLarge reports whether an attempt that may take n bytes may begin, and counts it if it is large: so large that as many as run at a time would exceed the limit
// together. Large attempts together take half of the limit, and each Runner has at least one, so that none waits for another. ownLarge.add returns what was taken.
func (u *budgetUser) takeLarge(n int) (taken int, ok bool) {
	switch {
	case n <= u.maxMemory/64:
		return 0, true
	case u.ownLarge.own.Load() > 0 && u.large.Load()+int64(n) > int64(u.maxMemory/2):
		return 0, false
	}
	u.ownLarge.add(n)
	return n, true
}

// excess returns how many sessions and how much memory the Runner has to release: what is used beyond the limits, but only what it has beyond an equal share.
// So a Runner with little to do keeps its sessions, and the one that uses most evicts first. wakeOthers notifies the others if the rest of it is theirs.
func (u *budgetUser) excess(wakeOthers bool) (sessions, memory int) {
	if u.sessions.Load() <= int64(u.maxSessions) && u.memory.Load() <= int64(u.maxMemory) {
		return 0, 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	sessions, others := u.part(&u.ownSessions, u.maxSessions)
	memory, more := u.part(&u.ownMemory, u.maxMemory)
	if !wakeOthers || !others && !more {
		return sessions, memory
	}
	for user := range u.users {
		if user == u {
			continue
		}
		wait.Signal(user.wake)
	}
	return sessions, memory
}

// part returns what the Runner has to release of one quantity, and whether others have to release some too.
func (u *budgetUser) part(q *share, limit int) (mine int, others bool) {
	over := int(q.all.Load()) - limit
	if over <= 0 {
		return 0, false
	}
	mine = max(0, min(over, int(q.own.Load())-limit/max(1, len(u.users))))
	return mine, mine < over
}

// inboxesFull reports whether the deliveries that wait in memory use more than a quarter of the Budget, and more than one session may. Then the records between
// the first and the last one of a session are read from the log instead.
func (b *Budget) inboxesFull() bool {
	return b.inboxes.Load() > int64(max(b.maxMemory/4, maxInboxBytes))
}
