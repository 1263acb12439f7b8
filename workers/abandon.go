package workers

import (
	"context"
	"errors"
	"time"
)

// abandonTimeout is how long an agent may run after its context has ended.
const abandonTimeout = 5 * time.Second

// errAbandoned is returned to an abandoned agent.
var errAbandoned = errors.New("agent abandoned: still running after cancellation")

// callOrAbandon calls the agent and waits for it. An agent that does not return within abandonTimeout after
// its context ends is abandoned: its step rejects further writes, and its goroutine runs until the agent
// returns. Otherwise a stop request would wait for the agent, the session would stay locked for the lifetime
// of the process, and the process could not shut down.
func (t *Turn) callOrAbandon(ctx context.Context, agent Agent) error {
	done := make(chan error, 1)
	go func() { done <- t.callAgent(ctx, agent) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	tick := time.NewTicker(t.w.abandonAfter)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if t.abandon() {
				t.log.ErrorContext(t.writeCtx, "agent abandoned: still running after cancellation")
				return errAbandoned
			}
		}
	}
}

// enterSDK and exitSDK mark the boundary between the agent's code and the SDK's. A goroutine in SDK code is
// not abandoned, because it may be writing.
func (t *Turn) enterSDK() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return errAbandoned
	}
	t.inAgentCode, t.cancelStep = false, nil
	return nil
}

func (t *Turn) exitSDK() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inAgentCode = true
}

// abandon marks the agent as abandoned if its own code is running.
func (t *Turn) abandon() bool {
	t.mu.Lock()
	t.abandoned = t.abandoned || t.inAgentCode
	abandoned, s := t.abandoned, t.current
	t.mu.Unlock()
	if abandoned && s != nil {
		s.close()
		if t.step < s.number {
			t.failedStep = s
		}
	}
	return abandoned
}
