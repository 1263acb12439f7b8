package tailrace

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Start requests the one run of a new session, which a worker with the agent type runs, and returns its id. It may be repeated: the id is a function of the
// session, and a session that is running or paused is returned as it is.
func (t *Tailrace) Start(ctx context.Context, id, agentType, message string) (run string, err error) {
	session, service, err := t.known(id, agentType)
	if err != nil {
		return "", err
	}
	run, refusal := service.Start(ctx, conversation.StartRequest{Session: session, AgentType: agentType, Input: []chunk.InputMessage{{Content: message}}})
	return run, errorOf(session, refusal)
}

// Resume requests a run that continues one which was interrupted, and returns its id. Without input it may be repeated, and returns a run that is in progress
// or waits for answers as it is; with input it is refused then.
func (t *Tailrace) Resume(ctx context.Context, id string, input ...chunk.InputMessage) (run string, err error) {
	session, service, err := t.known(id)
	if err != nil {
		return "", err
	}
	key, refusal := conversation.ResumeKey(input)
	if refusal == nil {
		run, refusal = service.Resume(ctx, conversation.ResumeRequest{Session: session, Input: input, Key: key})
	}
	return run, errorOf(session, refusal)
}

// Answer stores an answer, and requests the resume of the run if it was the last one that the run waits for. Of several answers to one call the first counts:
// the others get an *Error with the reason ReasonAnswered, or ReasonExpired, and the answer that counts in First.
func (t *Tailrace) Answer(ctx context.Context, id string, a Answer) error {
	session, service, err := t.known(id)
	if err != nil {
		return err
	}
	return errorOf(session, service.Answer(ctx, session, "", a.submitted()))
}

// Stop requests that the latest run of a session stops. nil: the request is stored, and takes effect also if the worker fails.
func (t *Tailrace) Stop(ctx context.Context, id string, kind StopKind, reason string) error {
	session, service, err := t.known(id)
	if err != nil {
		return err
	}
	_, refusal := service.Stop(ctx, session, control.StopKind(kind), reason)
	return errorOf(session, refusal)
}

// Status returns the state of a session. One that another program has started, and no worker has begun, is found if its agent type was in a call of Agent, Handler or Start of this program.
func (t *Tailrace) Status(ctx context.Context, id string) (Status, error) {
	session, service, err := t.known(id)
	if err != nil {
		return Status{}, err
	}
	st, refusal := service.Status(ctx, session)
	return Status{RunID: st.RunID, Phase: Phase(st.Phase), Output: st.Output, Failure: st.Failure, OpenCalls: st.Open.CallIDs,
		StreamStatus: st.StreamStatus, Sequence: st.Sequence}, errorOf(session, refusal)
}

// known returns the session with an id, and the logic of requests to it, which knows the agent types of all calls until now and of this one.
func (t *Tailrace) known(id string, agentTypes ...string) (chunk.Session, *conversation.Service, error) {
	session, err := t.session(id)
	for _, name := range agentTypes {
		err = cmp.Or(err, subjects.CheckToken("agent type", name))
	}
	reaper, reaperErr := t.process.Reaper()
	if err = cmp.Or(err, reaperErr); err != nil {
		return session, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addAgentTypes(agentTypes...)
	if t.requests == nil {
		cfg := runs.Config{Config: conversation.Config{AgentTypes: t.agentTypes, Log: t.cfg.Log}, Layout: t.cfg.Layout, Reaper: reaper}
		if len(t.agentTypes) == 0 {
			cfg.AgentTypes = []string{"agent"} // it must have one
		}
		if t.requests, err = runs.New(t.js, cfg); err != nil {
			return session, nil, err
		}
	}
	if t.by != nil {
		return session, t.requests.As(conversation.Caller{By: t.by}), nil
	}
	return session, t.requests, nil
}

// addAgentTypes makes the next Service know agent types. The caller holds mu.
func (t *parts) addAgentTypes(agentTypes ...string) {
	for _, name := range agentTypes {
		if !slices.Contains(t.agentTypes, name) {
			t.agentTypes, t.requests = append(t.agentTypes, name), nil
		}
	}
}

// Write opens a run that this program writes itself, without a worker. The Run is the writer of the session until a newer run fences it; End returns nil when
// all of its chunks are stored. Close the Run. The error is producers.ErrRunning if another run of the session is open.
func (t *Tailrace) Write(ctx context.Context, id string, run chunk.RunStarted) (*producers.Run, error) {
	session, err := t.session(id)
	if err != nil {
		return nil, err
	}
	if run.By == nil {
		run.By = t.by
	}
	return t.producer.Start(ctx, session, run)
}

// Follow returns the records of a session after a position, first those that are stored and then new ones, until the session is complete. The zero Position is
// the beginning, and waits for the first record of a run that was requested. Position of a Record, or of a fold.Content, is where a reader continues. It yields records with nil errors, then at most one error, last:
// a *chunk.TruncatedError if the log does not have all records any more, chunk.ErrUnknownSession if there are none, and that of ctx.
func (t *Tailrace) Follow(ctx context.Context, id string, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return t.follow(ctx, id, chunk.Range{After: after})
}

// Tree is Follow with the records of all sub-agents of the session, merged in the order in which they were stored.
func (t *Tailrace) Tree(ctx context.Context, id string, after chunk.Position) iter.Seq2[chunk.Record, error] {
	after.Ordinal = 0 // of one session; the sequence is that of the tree
	return t.follow(ctx, id, chunk.Range{After: after, Tree: true})
}

func (t *Tailrace) follow(ctx context.Context, id string, of chunk.Range) iter.Seq2[chunk.Record, error] {
	session, err := t.session(id)
	if err != nil {
		return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, err) }
	}
	of.Session = session
	return func(yield func(chunk.Record, error) bool) {
		begun := false // the run has records
		for again := true; again; {
			again = false
			for rec, err := range t.reader.Follow(ctx, of) {
				if errors.Is(err, chunk.ErrUnknownSession) && !begun {
					if status, unknown := t.Status(ctx, id); unknown == nil {
						again, begun = true, status.Phase != PhaseRunning // since the read
						if err = wait.Sleep(ctx, 50*time.Millisecond); err == nil {
							continue
						}
					}
				}
				if !yield(rec, err) || err != nil {
					return
				}
			}
		}
	}
}

// Firehose delivers the records of all sessions of all tenants, or those that cfg selects, at least once, until ctx ends or handle fails, and returns that
// error. The calls of handle for one session come in the order of the log; those for several partitions overlap.
func (t *Tailrace) Firehose(ctx context.Context, cfg consumers.FirehoseConfig, handle func(context.Context, chunk.Record) error) error {
	firehose, err := t.reader.Firehose(cfg)
	if err != nil {
		return err
	}
	return firehose.Run(ctx, handle)
}

// Snapshot returns the messages and the state of a session up to its last record, with an answer in flight. Follow after its Position has what comes next. The
// error is chunk.ErrUnknownSession if neither the log nor the snapshots have the session.
func (t *Tailrace) Snapshot(ctx context.Context, id string) (fold.Content, error) {
	session, err := t.session(id)
	if err != nil {
		return fold.Content{}, err
	}
	snap, err := t.snapshots.Snapshot(ctx, session)
	if err != nil {
		return fold.Content{}, err
	}
	return snap.Content(true), nil
}
