package workers

import (
	"context"
	"errors"
	"time"
)

// hangs is for how long an agent may go on after its context has ended.
const hangs = 5 * time.Second

// errLeft is what an agent hears that was left behind.
var errLeft = errors.New("the run was ended without its agent, which did not heed its context")

// await calls the agent and waits for it. One that does not return when its
// context ends is left behind: its step takes no further word, and its goroutine
// is its own. Without that, whoever presses stop would wait for it, the session
// would stay locked as long as this process lives, and the process could not be
// told to stop.
func (t *Turn) await(ctx context.Context, agent Agent) error {
	done := make(chan error, 1)
	go func() { done <- t.answer(ctx, agent) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	tick := time.NewTicker(t.w.hangs)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if t.leave() {
				t.log.ErrorContext(t.own, "an agent did not return when it was told to; it is left behind")
				return errLeft
			}
		}
	}
}

// enter and exit are the borders between the agent's code and ours, which is
// never left behind: it may be writing.
func (t *Turn) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left {
		return errLeft
	}
	t.theirs, t.halt = false, nil
	return nil
}

func (t *Turn) exit() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.theirs = true
}

// leave ends the agent's part in the run if its own code is at work.
func (t *Turn) leave() bool {
	t.mu.Lock()
	t.left = t.left || t.theirs
	left, s := t.left, t.current
	t.mu.Unlock()
	if left && s != nil {
		s.close()
		if t.step < s.number {
			t.undone = s
		}
	}
	return left
}
