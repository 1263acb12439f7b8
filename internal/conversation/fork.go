package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
)

// Forks reads earlier states of sessions, and writes the first records of forks.
type Forks interface {
	// SnapshotAt, SnapshotAtBoundary and SnapshotAtCheckpoint are those of a projector.Reader.
	SnapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq) (fold.Snapshot, error)
	SnapshotAtBoundary(ctx context.Context, s chunk.Session, at chunk.Cursor) (fold.Snapshot, error)
	SnapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (fold.Snapshot, error)

	// Fork is that of a producers.Producer, for a fork of a session that can be found from it. The error is chunk.ErrUnknownSession if that was deleted meanwhile.
	Fork(ctx context.Context, of, s chunk.Session, records []chunk.Chunk) (bool, error)

	// CopyValue stores a large value of one session as one of another, and reports whether it was found.
	CopyValue(ctx context.Context, of chunk.Session, k values.Key, to chunk.Session, as values.Key) (bool, error)
}

// ForkRequest requests a session that continues another one from a point: at or before the cursor At, before the message Before of a user, or at the Checkpoint.
// Without a message and without Continue the fork has no run.
type ForkRequest struct {
	Origin     chunk.Session       `json:"-"`
	Session    string              `json:"session,omitempty"` // id of the fork; "": a function of the request
	At         string              `json:"at,omitempty"`
	Before     string              `json:"before,omitempty"`
	Checkpoint string              `json:"checkpoint,omitempty"`
	State      string              `json:"state,omitempty"`     // with Before, of a session whose log has expired: latest or empty
	AgentType  string              `json:"agentType,omitempty"` // "": that of the origin
	Params     chunk.Value         `json:"params,omitempty"`
	Edits      []fold.Edit         `json:"edits,omitempty"`
	StatePatch []chunk.PatchOp     `json:"-"`
	Message    *chunk.InputMessage `json:"-"`
	Continue   bool                `json:"continue,omitempty"` // call the agent again after the point, as after an interruption
}

// Forked is a fork.
type Forked struct {
	Session  string `json:"session"`
	At       string `json:"at,omitempty"` // the cursor of the last record of the origin that it has, "" if that is not known
	Boundary string `json:"boundary"`     // message, step, pause or end
	Step     int64  `json:"step"`
	Messages int64  `json:"messages"` // number of messages that users see

	OmittedSubAgents int    `json:"omittedSubAgents"`
	Run              string `json:"run,omitempty"`
}

const (
	forkTimeout  = 10 * time.Second
	maxForkDepth = 64
)

// ForkTarget returns the session of a fork: the requested one, or a function of the request and the caller.
func (s *Service) ForkTarget(req ForkRequest) chunk.Session {
	if req.Session != "" {
		return chunk.RootSession(req.Origin.Tenant, req.Session)
	}
	text, err := json.Marshal(struct {
		ForkRequest

		Patch   []chunk.PatchOp     `json:"statePatch"`
		Message *chunk.InputMessage `json:"message"`
		By      *chunk.Principal    `json:"by"`
	}{req, req.StatePatch, req.Message, s.caller.By})
	if err != nil {
		text = fmt.Appendf(nil, "%+v", req)
	}
	return control.ForkSession(req.Origin, string(text))
}

// forkTexts are the texts of refused forks that have no other one.
var forkTexts = map[Reason]string{
	ReasonNoSession:    "there is no such session",
	ReasonNoMessage:    "there is no such message of a user, or no such checkpoint",
	ReasonTooLarge:     "the session is too large for a fork, which has at most 20,000 messages and 8 MiB, 448 KiB for a part of a message and for the state",
	ReasonExists:       "there is another session with this id",
	ReasonChanged:      "the fork was continued by another request",
	ReasonUnknownAgent: "there is no such agent",
	ReasonLost:         "the log does not have this point any more: fork before a message, with a state",
	ReasonUnavailable:  "the fork could not be made at present: repeat the request",
}

// Fork writes the first records of a session that continues another one, and requests its run. It may be repeated: the same request completes what a crash has left
// incomplete, and returns the same session and run. The Service works for the caller of the fork, which must be allowed to read the origin without a view.
func (s *Service) Fork(ctx context.Context, req ForkRequest) (Forked, *Refusal) {
	forked, r := s.fork(ctx, req)
	if r != nil && r.Text == "" {
		r.Text = forkTexts[r.Reason]
	}
	return forked, r
}

func (s *Service) fork(ctx context.Context, req ForkRequest) (Forked, *Refusal) {
	if r := s.checkFork(ctx, &req); r != nil {
		return Forked{}, r
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forkTimeout)
	defer cancel()
	target := s.ForkTarget(req) // before the message gets its place
	snap, err := s.forkPoint(ctx, &req)
	if err != nil {
		return Forked{}, s.forkFailed(ctx, req, err)
	}
	open := req.Before == "" && (snap.Status == fold.Active || snap.Status == fold.Paused)
	agentType := req.AgentType
	if agentType == "" {
		agentType = snap.AgentType
	}
	c := forkCommand(req, snap.Run.ID)
	switch {
	case req.Continue && (!open || snap.Run.ID == ""):
		return Forked{}, &Refusal{Reason: ReasonNoTurn, Text: s.noTurn(ctx, req, snap)}
	case snap.Origin != nil && snap.Origin.Depth >= maxForkDepth:
		return Forked{}, invalid(fmt.Sprintf("the session is a fork of a fork, %d times", maxForkDepth))
	case c != nil:
		if r := s.CheckAgent(agentType); r != nil {
			return Forked{}, r
		}
	}
	records, forked, err := s.seed(ctx, req, target, snap, fold.Fork{Edits: req.Edits, Open: open}, agentType)
	if err != nil {
		return Forked{}, s.forkFailed(ctx, req, err)
	}
	forked.Boundary = boundaryOf(req, snap)
	if err = s.storage(target); err == nil {
		event := audit.Event{Act: audit.Fork, By: s.caller.By, Session: req.Origin, Target: target.ID}
		err = s.cfg.Audit.Do(ctx, event, func() error { return s.writeFork(ctx, req.Origin, target, records) })
	}
	if err != nil {
		return Forked{}, s.forkFailed(ctx, req, err)
	}
	if c == nil {
		return forked, nil
	}
	c.RunID = control.ExecuteRunID(target, "/fork")
	_, r := s.update(ctx, target, func(state *State, _ *fold.Snapshot) (*control.Command, *Refusal) {
		waiting := state.Waiting()
		switch {
		case !state.Known:
			return nil, refusal(ReasonNoSession) // deleted meanwhile
		case waiting != nil && waiting.RunID == c.RunID, state.HasRun(c.RunID):
			return nil, nil
		case waiting != nil, state.Position.Ordinal > chunk.Ordinal(len(records)):
			return nil, refusal(ReasonChanged) // the fork was continued by another request
		}
		return c, nil
	})
	forked.Run = c.RunID
	return forked, r
}

// noTurn says that a fork at a point cannot continue, and where one can: at the boundary before it, if a turn is open there.
func (s *Service) noTurn(ctx context.Context, req ForkRequest, at fold.Snapshot) string {
	text := "there is nothing to continue before a message: send one"
	if at.Position.Seq > 0 {
		cursor := chunk.Cursor{Seq: at.Position.Seq, Anchor: at.Anchor}
		text = fmt.Sprintf("there is nothing to continue at %s, the %s of a run: send a message", cursor, boundaryOf(req, at))
	}
	var earlier fold.Snapshot
	err := s.read(ctx, func(ctx context.Context) (err error) {
		earlier, err = s.ports.Forks.SnapshotAtBoundary(ctx, req.Origin, chunk.Cursor{Seq: max(1, at.Position.Seq) - 1})
		return err
	})
	if err == nil && (earlier.Status == fold.Active || earlier.Status == fold.Paused) && earlier.Run.ID != "" {
		text += fmt.Sprintf(", or continue at %s, the %s before it", chunk.Cursor{Seq: earlier.Position.Seq, Anchor: earlier.Anchor}, boundaryOf(ForkRequest{}, earlier))
	}
	return text
}

// errForkExists reports that the session of a fork has other records.
var errForkExists = errors.New("the session exists")

func (s *Service) writeFork(ctx context.Context, origin, target chunk.Session, records []chunk.Chunk) error {
	ok, err := s.ports.Forks.Fork(ctx, origin, target, records)
	if err == nil && !ok {
		err = errForkExists
	}
	return err
}

// checkFork returns the refusal of a request that is not one.
func (s *Service) checkFork(ctx context.Context, req *ForkRequest) *Refusal {
	points := 0
	for _, point := range []string{req.At, req.Before, req.Checkpoint} {
		if point != "" {
			points++
		}
	}
	switch {
	case s.ports.Forks == nil:
		return refusal(ReasonUnavailable)
	case points != 1:
		return invalid("want one of at, before and checkpoint")
	case req.Message != nil && req.Continue:
		return invalid("want message or continue, not both")
	case req.State != "" && (req.Before == "" || req.State != "latest" && req.State != "empty"):
		return invalid("state: want latest or empty, with before")
	}
	for _, e := range req.Edits {
		n := 0
		for _, is := range []bool{e.Output != nil, e.Error != nil, e.Approved != nil} {
			if is {
				n++
			}
		}
		if e.CallID == "" || n != 1 {
			return invalid("edits: want a callId, and one of output, error and approved")
		}
	}
	if r := s.CheckAgent(req.AgentType); r != nil {
		return r
	}
	if req.Message == nil {
		return nil
	}
	in, r := s.checkTurn(ctx, req.Origin, []chunk.InputMessage{*req.Message})
	if r == nil {
		req.Message = &in[0]
	}
	return r
}

// forkPoint returns the state of the origin that the fork begins with.
func (s *Service) forkPoint(ctx context.Context, req *ForkRequest) (snap fold.Snapshot, err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		switch {
		case req.Before != "":
			snap, err = s.stateBefore(ctx, req)
			return err
		case req.Checkpoint != "":
			if snap, err = s.ports.Forks.SnapshotAtCheckpoint(ctx, req.Origin, req.Checkpoint); err != nil {
				return err
			}
			snap, err = s.ports.Forks.SnapshotAtBoundary(ctx, req.Origin, chunk.Cursor{Seq: snap.Position.Seq})
			return err
		}
		at, ok := chunk.ParseCursor(req.At)
		if !ok || at.Seq == 0 || at.Seq > math.MaxInt64 {
			return &forkError{"at: want a cursor"}
		}
		snap, err = s.ports.Forks.SnapshotAtBoundary(ctx, req.Origin, at)
		return err
	})
	return snap, err
}

// forkError is a request that is not one.
type forkError struct{ text string }

func (e *forkError) Error() string { return e.text }

// stateBefore returns the state before a message of a user. If the log does not have it any more, the messages before it are those of the present snapshot.
func (s *Service) stateBefore(ctx context.Context, req *ForkRequest) (fold.Snapshot, error) {
	now, err := s.ports.Snapshots.Snapshot(ctx, req.Origin)
	if err != nil {
		return now, err
	}
	for _, m := range now.AllMessages() {
		if m.ID() != req.Before || m.Role != fold.User {
			continue
		}
		if place := now.Predecessor(m.Index) + 1; place < m.Index && req.Message != nil {
			in := []chunk.InputMessage{*req.Message} // it takes the place of the message, whose branch is not the latest one of the fork
			if place == 0 {
				in = withMember(in, fold.ReplacesMember, 0)
			} else {
				in = withMember(in, fold.FollowsMember, place-1)
			}
			req.Message = &in[0]
		}
		past, err := s.ports.Forks.SnapshotAt(ctx, req.Origin, m.First-1)
		switch {
		case err == nil:
			past.AgentType = now.AgentType
			return past, nil
		case m.Index == 0 && errors.Is(err, chunk.ErrUnknownSession):
			return now.Before(0), nil
		case !errors.Is(err, chunk.ErrTruncated) && !errors.Is(err, chunk.ErrUnknownSession):
			return past, err
		case req.State == "":
			return past, &chunk.TruncatedError{Session: req.Origin, Reason: chunk.TruncatedExpired}
		}
		past = now.Before(m.Index)
		if req.State == "latest" {
			past.State = now.State
		}
		return past, nil
	}
	return now, chunk.ErrUnknownMessage
}

// seed returns the first records of a fork. They are equal for equal requests.
func (s *Service) seed(ctx context.Context, req ForkRequest, target chunk.Session, snap fold.Snapshot, f fold.Fork, agentType string) ([]chunk.Chunk, Forked, error) {
	if f.State = snap.State; len(req.StatePatch) > 0 {
		var err error
		if f.State, err = fold.ApplyPatch(snap.State, req.StatePatch); err != nil {
			return nil, Forked{}, &forkError{"statePatch: " + err.Error()}
		}
	}
	f.Rewrite = func(message []byte) ([]byte, error) {
		return values.Move(message, req.Origin, target, func(of chunk.Session, k, as values.Key) (bool, error) {
			return s.ports.Forks.CopyValue(ctx, of, k, target, as)
		})
	}
	seeds, end, omitted, err := snap.Seed(f)
	if err != nil {
		return nil, Forked{}, err
	}
	end.Origin.Depth = 1
	if snap.Origin != nil {
		end.Origin.Depth = snap.Origin.Depth + 1
	}
	if by := s.caller.By; by != nil {
		end.By = &chunk.Principal{Subject: by.Subject, Issuer: by.Issuer}
	}
	records := make([]chunk.Chunk, 0, len(seeds)+1)
	add := func(b chunk.Body) {
		records = append(records, chunk.Chunk{AgentID: target.ID, AgentType: agentType, Timestamp: int64(snap.Anchor), Body: b})
	}
	for _, b := range seeds {
		add(b)
	}
	add(end)
	forked := Forked{Session: target.ID, Step: snap.Run.Step, Messages: end.Messages, OmittedSubAgents: omitted}
	if snap.Position.Seq > 0 {
		forked.At = chunk.Cursor{Seq: snap.Position.Seq, Anchor: snap.Anchor}.String()
	}
	return records, forked, nil
}

// forkCommand returns the command of the run of a fork, nil if it has none.
func forkCommand(req ForkRequest, run string) *control.Command {
	switch {
	case req.Message != nil:
		return &control.Command{Kind: control.Execute, Input: []chunk.InputMessage{*req.Message}, Params: req.Params}
	case req.Continue:
		return &control.Command{Kind: control.Resume, Resumes: run, Mode: modeContinue, Params: req.Params}
	}
	return nil
}

func boundaryOf(req ForkRequest, snap fold.Snapshot) string {
	switch {
	case req.Before != "" || snap.Position.Seq == 0:
		return "message"
	case snap.Status == fold.Active:
		return "step"
	case snap.Status == fold.Paused:
		return "pause"
	}
	return "end"
}

// forkFailed returns the refusal of a fork that failed.
func (s *Service) forkFailed(ctx context.Context, req ForkRequest, err error) *Refusal {
	wrong, isWrong := errors.AsType[*forkError](err)
	switch {
	case isWrong:
		return invalid(wrong.text)
	case errors.Is(err, chunk.ErrUnknownSession):
		return refusal(ReasonNoSession)
	case errors.Is(err, chunk.ErrUnknownMessage), errors.Is(err, chunk.ErrUnknownCheckpoint):
		return refusal(ReasonNoMessage)
	case errors.Is(err, fold.ErrUnknownCall):
		return &Refusal{Reason: ReasonUnknownCall, Text: err.Error()}
	case errors.Is(err, errForkExists):
		return refusal(ReasonExists)
	}
	return s.Failed(ctx, req.Origin, "fork", err)
}
