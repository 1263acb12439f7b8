package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
)

// response is one response with a message. The Edge reads the records and writes the frames; the response has what depends on the state of the chat. It does not
// keep that state, because it may be open for hours.
type response struct {
	service   *Service
	of        chat
	agentType string
	plan      *conversation.Stream

	awaited  string // the run that the response waits for: it was requested, and its records may not have begun. "" if it waits for none, or the run has begun
	reported bool   // see reportWait

	// The next two are of a response that was announced before its run began.
	next   chunk.Ordinal // of the run, if no other record is before it
	inputs int           // number of messages of the user

	earlier []string // see earlierCalls
}

func (s *Service) newResponse(of chat, plan *conversation.Stream, state *conversation.State) *response {
	re := &response{service: s, of: of, agentType: state.AgentType, plan: plan, awaited: plan.Run, earlier: earlierCalls(state)}
	if state.Opening() {
		re.next, re.inputs = state.Position.Ordinal+1, len(state.Command.Input)
	}
	return re
}

// serve responds with the message of a plan, or returns the problem.
func (s *Service) serve(
	w http.ResponseWriter, r *http.Request, of chat, plan *conversation.Stream, state *conversation.State, counts *requestCounts,
) *httpkit.Problem {
	re := s.newResponse(of, plan, state)
	defer func() {
		if plan.Ahead != nil {
			plan.Ahead.Drop()
		}
	}()
	turn := re.turn(state)
	turn.Opened, turn.Closed, turn.Sent = counts.opened, counts.closed, func() { counts.sent(re.awaited == "") }
	p := s.serveTurn(w, r, of, turn)
	if p == streamLost && r.Method == http.MethodGet {
		s.metrics.resumed(streamLost.Label())
		w.WriteHeader(http.StatusNoContent) // the snapshot has the rest of the message
		return nil
	}
	return p
}

// serveTurn writes a turn.
func (s *Service) serveTurn(w http.ResponseWriter, r *http.Request, of chat, turn sseedge.Turn) *httpkit.Problem {
	ctx, leave, ok := s.surface.Streams.Enter(r.Context())
	if !ok {
		return draining
	}
	defer leave()
	turn.Session, turn.View = of.session, of.view
	w.Header().Set("X-Session-Id", of.id)
	return s.edge.ServeTurn(ctx, w, r, turn)
}

// turn returns the turn of the response, without what counts and shows that it waits.
func (re *response) turn(state *conversation.State) sseedge.Turn {
	plan := re.plan
	t := sseedge.Turn{
		Dialect: dialect.AISDK, Replay: true, AISDK: re.service.cfg.Dialect, Run: plan.Run, MessageID: plan.MessageID,
		Waits: plan.Queued || state.Opening(), Start: state.TurnStart, Through: state.MaxSeq, Ended: !state.InFlight(), Earlier: re.earlier,
		Continues: plan.Show == conversation.ShowTail, Own: plan.Show == conversation.ShowNew, Steps: plan.Steps, Decided: plan.Decided,
		Head:    func(dst []byte) []byte { return appendRejections(dst, plan.Rejected) },
		Timeout: re.service.logic.RequestTimeout(), HistoryBytes: re.service.historyBytes,
		Follow: re.follow, Failed: re.failed, Begun: re.begun, Paused: re.paused, Waiting: re.appendWaiting,
	}
	t.After.Seq = plan.After
	switch {
	case plan.Show == conversation.ShowEmpty:
		t.Frames = re.emptyTurn()
	case t.Waits:
		t.After = state.Position
	default:
		t.Opening = openingOf(state)
	}
	return t
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
	case errors.Is(err, sseedge.ErrUnfinished):
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
	re.awaited = ""
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
	state, err := re.look(ctx)
	return err == nil && !state.InFlight() && state.Run.StartSeq <= pause, err
}

// appendWaiting checks the run that is awaited.
func (re *response) appendWaiting(ctx context.Context, dst []byte) ([]byte, error) {
	waiting, err := re.check(ctx)
	switch {
	case errors.Is(err, errWithdrawn):
		return append(dst, re.emptyTurn()...), io.EOF
	case err != nil || waiting == nil:
		return dst, err
	}
	return appendNotice(dst, waiting, re.of.view.Hidden().RunIDs), nil
}
