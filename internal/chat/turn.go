package chat

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
)

// response is one response with a turn. The Edge reads the records and writes the frames; the response has what depends on the state of the chat. It does not
// keep that state, because it may be open for hours.
type response struct {
	service   *Service
	of        chat
	agentType string
	plan      *conversation.Stream
	reported  bool // see appendNotice

	// The next two are of a response that was announced before its run began.
	next   chunk.Ordinal // of the run, if no other record is before it
	inputs int           // number of messages of the user

	earlier []string  // see earlierCalls
	started chunk.Seq // of the latest run that is known
}

func newResponse(s *Service, of chat, plan *conversation.Stream, state *conversation.State) *response {
	re := &response{service: s, of: of, agentType: state.AgentType, plan: plan, earlier: earlierCalls(state), started: state.Run.StartSeq}
	if state.Opening() {
		re.next, re.inputs = state.Position.Ordinal+1, len(state.Command.Input)
	}
	return re
}

// turn returns the turn of the response.
func (re *response) turn(state *conversation.State, counts *requestCounts) (httpedge.Turn, *httpkit.Problem) {
	plan := re.plan
	t := httpedge.Turn{
		Session: re.of.session, View: re.of.view, Run: plan.Run, MessageID: plan.MessageID, Paused: re.paused, Waiting: re.appendWaiting,
	}
	switch {
	case !re.of.isRun:
		re.messageTurn(&t, state, counts)
	case plan.Show == conversation.ShowEmpty:
		return t, changed
	default:
		re.runTurn(&t, state)
	}
	return t, nil
}

// messageTurn sets what is of one message of the AI SDK.
func (re *response) messageTurn(t *httpedge.Turn, state *conversation.State, counts *requestCounts) {
	plan := re.plan
	t.Dialect, t.Replay, t.AISDK = dialect.AISDK, true, re.service.cfg.Dialect
	t.Waits, t.Start, t.Through, t.Ended = plan.Queued || state.Opening(), state.TurnStart, state.MaxSeq, !state.InFlight()
	t.Continues, t.Own, t.Steps, t.Decided = plan.Show == conversation.ShowTail, plan.Show == conversation.ShowNew, plan.Steps, plan.Decided
	t.AISDK.Earlier, t.Head = re.earlier, func(dst []byte) []byte { return appendRejections(dst, plan.Rejected) }
	t.Timeout, t.HistoryBytes = re.service.logic.RequestTimeout(), re.service.historyBytes
	t.Follow, t.Failed, t.Begun = re.follow, re.failed, re.begun
	t.Opened, t.Sent, t.Closed = counts.opened, counts.sent, counts.closed
	t.After.Seq = plan.After
	switch {
	case plan.Show == conversation.ShowEmpty:
		t.Frames = re.emptyTurn()
	case t.Waits:
		t.After = state.Position
	default:
		t.Opening = openingOf(state)
	}
}

// runTurn sets what is of the runs of AG-UI.
func (re *response) runTurn(t *httpedge.Turn, state *conversation.State) {
	t.Dialect, t.HeldResults, t.Waits = dialect.AGUI, re.of.results, re.plan.Show != conversation.ShowTail
	switch {
	case !t.Waits:
		t.After.Seq, t.Anchor, t.Continues = re.plan.After, re.plan.Anchor, true
	case t.Run == "": // it has begun: the client gets all of its turn
		t.After, t.Whole = state.TurnStart, true
	case !state.Opening():
		t.After, t.Continues = state.Position, true
	default:
		t.After = state.Position
		if state.Status == fold.Paused || state.Status == fold.Active {
			// The turn before it is not over: a call of it was abandoned, and the result follows.
			t.Continues, t.MessageID = true, ""
		}
	}
}

// earlierCalls returns the calls whose outcomes belong to messages before that of a state.
func earlierCalls(state *conversation.State) []string {
	if state.Opening() {
		return state.OpenCalls
	}
	return state.EarlierOpenCalls
}

// openingOf returns the run_started of the turn with the members that the frames need, nil if they are not known. The cursor of the log is after that
// record, and reading it would mean reading all records before it.
func openingOf(state *conversation.State) *chunk.Record {
	if state.TurnStart.Seq == 0 || state.TurnRun.ID == "" {
		return nil
	}
	c := chunk.Chunk{
		AgentID: state.Session.ID, AgentType: state.AgentType, Timestamp: state.TurnRun.StartedAt,
		Body: chunk.RunStarted{RunID: state.TurnRun.ID, Epoch: int64(state.TurnRun.Epoch), Mode: state.TurnRun.Mode, Parent: state.TurnRun.Parent},
	}
	data, err := c.AppendJSON(nil)
	if err != nil {
		return nil // a run that another producer began: its metadata is missing
	}
	return &chunk.Record{
		Seq: state.TurnStart.Seq, Session: state.Session, Epoch: state.TurnRun.Epoch, Ordinal: state.TurnStart.Ordinal,
		Type: chunk.TypeRunStarted, StoredAt: time.UnixMilli(state.TurnRun.StartedAt), Data: data,
	}
}

// follow opens the records, or takes those that were opened when the run was requested.
func (re *response) follow(ctx context.Context, after chunk.Position, through chunk.Seq) (recordStream, error) {
	if a, ok := re.plan.Ahead.(*prefetch); ok {
		re.plan.Ahead = nil
		return a.take(ctx)
	}
	return re.service.follow(ctx, re.of.session, after, through)
}

func (re *response) failed(ctx context.Context, err error) *httpkit.Problem {
	switch {
	case errors.Is(context.Cause(ctx), httpkit.ErrDrained):
		return draining
	case errors.Is(err, httpedge.ErrUnfinished):
		return running
	}
	if p := problemOf(re.service.logic.Failed(ctx, re.of.session, "stream", err)); p != unavailable {
		return p
	}
	return notStreaming
}

var errOtherMessage = errors.New("message id differs from the announced one: an earlier turn was answered first")

// begun checks that the message has the id that was announced. The id was computed before the run was requested: if records follow that state, they may be a
// whole turn; and if another client requested the run, its number of messages may differ.
func (re *response) begun(ctx context.Context, rec chunk.Record, started chunk.RunStarted) (id string, earlier []string, err error) {
	switch {
	case re.plan.Queued:
		return re.beginQueued(ctx, started)
	case re.next == 0, rec.Ordinal == re.next && len(started.Input) == re.inputs:
		return "", nil, nil
	}
	state, err := re.look(ctx)
	if err == nil && state.Answer != re.plan.MessageID {
		err = errOtherMessage
	}
	return "", nil, err
}

// beginQueued returns the id of the answer of a run that has waited for the end of others. The id follows from its question: that run may have ended by now, and
// the next one may have begun.
func (re *response) beginQueued(ctx context.Context, started chunk.RunStarted) (id string, earlier []string, err error) {
	ctx, cancel := re.service.withTimeout(ctx)
	defer cancel()
	state, snap, err := re.service.logic.LoadPage(ctx, re.of.session, re.agentType)
	switch {
	case err != nil:
		return "", nil, err
	case state.TurnRun.ID == re.plan.Run:
		return state.Answer, earlierCalls(&state), nil
	}
	if id = answerToTurn(snap.Inputs(), started.Input); id == "" {
		err = errOtherMessage
	}
	return id, re.earlier, err
}

// answerToTurn returns the id of the answer to the messages of a turn, "" if the log does not have them.
func answerToTurn(all []fold.Input, turn []chunk.InputMessage) string {
	if len(turn) == 0 || turn[len(turn)-1].ClientMessageID == nil {
		return ""
	}
	for _, in := range all {
		if in.ClientID == *turn[len(turn)-1].ClientMessageID {
			return fold.MessageID(in.Index + 1)
		}
	}
	return ""
}

// look loads the state of the chat.
func (re *response) look(ctx context.Context) (conversation.State, error) {
	ctx, cancel := re.service.withTimeout(ctx)
	defer cancel()
	return re.service.logic.Load(ctx, re.of.session, re.agentType)
}

// paused reports whether the user has to answer while the run is paused.
func (re *response) paused(ctx context.Context, pause chunk.Seq) (ends bool, err error) {
	if re.started > pause {
		return false, nil // a turn may have many pauses
	}
	state, err := re.look(ctx)
	if err == nil {
		re.started = state.Run.StartSeq
	}
	return err == nil && !state.InFlight() && re.started <= pause, err
}
