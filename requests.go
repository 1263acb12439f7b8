package tailrace

import (
	"context"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/runs"
)

// Answer is an answer to a call for which a run waits: an approval, or the result of a tool that a browser runs.
type Answer = runs.Answer

// Status is the state of a session.
type Status = runs.Status

// Error is a refusal of Start, Resume, Answer, Stop or Status. Package runs has the values of its Reason.
type Error = runs.Error

// StopKind is how a run is stopped.
type StopKind = runs.StopKind

// The kinds of stops.
const (
	Interrupt = runs.Interrupt // at the next step; Resume continues the run
	Abort     = runs.Abort     // the run fails
)

// Start requests the one run of a new session, which a worker with the agent type runs, and returns its id. It may be repeated: the id is a function of the
// session, and a session that is running or paused is returned as it is.
func (t *Tailrace) Start(ctx context.Context, id, agentType, message string) (run string, err error) {
	session, err := t.session(id)
	if err != nil {
		return "", err
	}
	client, err := t.client(agentType)
	if err != nil {
		return "", err
	}
	return client.Start(ctx, runs.Start{Session: session, AgentType: agentType, Input: []chunk.InputMessage{{Content: message}}})
}

// Resume requests a run that continues one which was interrupted, and returns its id. Without input it may be repeated, and returns a run that is in progress
// or waits for answers as it is; with input it is refused then.
func (t *Tailrace) Resume(ctx context.Context, id string, input ...chunk.InputMessage) (run string, err error) {
	session, client, err := t.known(id)
	if err != nil {
		return "", err
	}
	return client.Resume(ctx, session, input...)
}

// Answer stores an answer, and requests the resume of the run if it was the last one that the run waits for. Of several answers to one call the first counts:
// the others get an *Error with the reason runs.ReasonAnswered, or runs.ReasonExpired, and the answer that counts in First.
func (t *Tailrace) Answer(ctx context.Context, id string, a Answer) error {
	session, client, err := t.known(id)
	if err != nil {
		return err
	}
	return client.Answer(ctx, session, a)
}

// Stop requests that the latest run of a session stops. nil: the request is stored, and takes effect also if the worker fails.
func (t *Tailrace) Stop(ctx context.Context, id string, kind StopKind, reason string) error {
	session, client, err := t.known(id)
	if err != nil {
		return err
	}
	_, err = client.Stop(ctx, session, kind, reason)
	return err
}

// Status returns the state of a session. One that another program has started, and no worker has begun, is found if its agent type was in a call of Agent,
// Handler or Start of this program.
func (t *Tailrace) Status(ctx context.Context, id string) (Status, error) {
	session, client, err := t.known(id)
	if err != nil {
		return Status{}, err
	}
	return client.Status(ctx, session)
}

// known returns the session with an id, and the client for requests to it.
func (t *Tailrace) known(id string) (chunk.Session, *runs.Client, error) {
	session, err := t.session(id)
	if err != nil {
		return session, nil, err
	}
	client, err := t.client()
	return session, client, err
}

// noAgentType is the agent type of a client that has started no run: it must have one.
const noAgentType = "agent"

// client returns the client for requests, which knows the agent types of all calls until now.
func (t *Tailrace) client(agentTypes ...string) (*runs.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addAgentTypes(agentTypes...)
	if t.requests == nil {
		reaper, err := t.process.Reaper()
		if err != nil {
			return nil, err
		}
		types := t.agentTypes
		if len(types) == 0 {
			types = []string{noAgentType}
		}
		if t.requests, err = runs.New(t.js, runs.Config{AgentTypes: types, Layout: t.cfg.Layout, Reaper: reaper, Log: t.cfg.Log}); err != nil {
			return nil, err
		}
	}
	if t.by != nil {
		return t.requests.As(*t.by), nil
	}
	return t.requests, nil
}

// addAgentTypes makes the next client know agent types. The caller holds mu.
func (t *parts) addAgentTypes(agentTypes ...string) {
	for _, name := range agentTypes {
		if !slices.Contains(t.agentTypes, name) {
			t.agentTypes, t.requests = append(t.agentTypes, name), nil
		}
	}
}
