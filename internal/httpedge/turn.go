package httpedge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/langgraph"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// Turn is a response with one turn of a root session, for a surface that has requested a run.
type Turn struct {
	Session chunk.Session
	Dialect string
	View    *view.Chat // nil shows everything

	// Waits says that the turn, or its next run, may not have begun; with Replay, that the turn has not. Otherwise a session that is complete at After has no
	// further turn: the response is 204.
	Waits bool

	// After is the position of the root after which the response begins. Its Ordinal is 0 for a client's cursor, of which Anchor is a part. The next record of the
	// root begins the turn, unless one of the other fields is set. Continues says that the turn at this position is not over: then its earlier records are read
	// first. Whole says that After is the record that began the turn: the response begins with it.
	After     chunk.Position
	Anchor    chunk.Anchor
	Continues bool
	Whole     bool

	// Open says that the response has one turn after the other, and no end: of langgraph, whose clients take an end for a failure. If the log no longer has the record
	// that began the turn, the response begins with the record after Present. LangGraph selects its events.
	Open      bool
	Present   chunk.Position
	LangGraph langgraph.WriterConfig

	// Run is the run that begins the turn, "" if it has begun. If the turn before is not over at After, the response has the rest of it, too: clients that fold
	// several turns of one response only, as those of AG-UI do. With Replay it may also be the next run of the turn.
	Run string

	// MessageID is that of the answer, "" if it is not known.
	MessageID string

	// HeldResults are calls of which the client has the results as messages of its own. Only AG-UI has such clients.
	HeldResults []string

	// Waiting is called with each heartbeat until Run has begun, on the goroutine of the request, and appends frames. io.EOF ends the response after them, and
	// another error aborts it. nil appends nothing.
	Waiting func(ctx context.Context, dst []byte) ([]byte, error)

	// Replay says that the response is one message of the AI SDK, in the form of AISDK. The records of the turn up to Through are read before it begins, and are
	// written merged and without removed records. The following fields are of such a response.
	Replay bool
	AISDK  aisdk.Options

	// Start is the position of the record that began the turn, and Opening that record, nil if its members are not known; the log is not read for it. Ended says that
	// nothing follows Through until the user does something.
	Start   chunk.Position
	Opening *chunk.Record
	Through chunk.Seq
	Ended   bool

	// Own says that the client has a message of its own, in which it shows a number of steps and calls with a decision and without an outcome: the response has
	// the records after it. Head appends frames after its start.
	Own     bool
	Steps   int
	Decided []string
	Head    func(dst []byte) []byte

	// Frames, if not nil, are the whole response: there is no turn.
	Frames []byte

	// Begun is called when Run begins; with Open, when a turn begins. It returns the id of the answer and the calls of earlier turns if they were not known, otherwise "". An error aborts the
	// response.
	Begun func(ctx context.Context, rec chunk.Record, started chunk.RunStarted) (messageID string, earlier []string, err error)

	// Paused reports whether the pause of the turn at a sequence ends the response, because the user has to answer. The client sends no answer while a response
	// is open; and it does not reconnect after one that ended, so the pause must not end it if the run continues without the user.
	Paused func(ctx context.Context, pause chunk.Seq) (ends bool, err error)

	// Follow opens the records of the session and its sub-agents after a position, through a sequence that the session has; see hub.Hub.Follow.
	Follow func(ctx context.Context, after chunk.Position, through chunk.Seq) (turnCursor, error)

	// Timeout bounds the reads before the response. HistoryBytes bounds the records of a turn that are kept in memory until they are written; a longer turn is read
	// several times.
	Timeout      time.Duration
	HistoryBytes int

	// Failed returns the problem for an error before the response begins, which may be ErrUnfinished.
	Failed func(ctx context.Context, err error) *httpkit.Problem

	// Opened, Sent and Closed are called when the response begins, when frames were written, and when it has ended. begun reports whether Run has begun, if there is
	// one. Such a response is not counted as an event stream.
	Opened func()
	Sent   func(begun bool)
	Closed func(reason string)
}

// ServeTurn waits for the turn and writes it in its dialect. The caller has reserved the stream, and the context of r ends when it drains. The response is aborted
// if the turn cannot be written to its end.
func (e *Edge) ServeTurn(w http.ResponseWriter, r *http.Request, of Turn) *httpkit.Problem {
	ctx := r.Context()
	req := hub.Request{Session: of.Session}
	if !of.Replay {
		req.Encoding, req.After, req.Anchor, req.KeepOpen, req.Await = hub.RecordEncoding, of.After, of.Anchor, of.Waits, true
		of.AISDK = e.cfg.AISDK
	}
	v := newSubscription(e, req)
	t := newTurn(v, &of)
	v.source = t
	s := &stream{edge: e, turn: t, subscriptions: []*subscription{v}}
	defer s.detach()
	ended, p := e.attach(ctx, r, s)
	if p != nil {
		return p
	}
	if ended {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.serve(ctx, w, r.ProtoMajor)
	return nil
}

// turn is the source of one turn in a dialect other than the native one: the clients of the dialects fold a response into one answer. A client gets the next turn
// from its next response.
type turn struct {
	*subscription

	of      *Turn
	records turnCursor
	writer  codec.Writer // nil before the turn begins
	frames  []byte
	over    bool // the response is over

	awaited   string // the run whose turn is the last of the response, "" if it has begun
	messageID string // of the answer of the first turn that begins; "": it is read
	turns     dialect.Turns
	state     *turnState // nil with Turn.Replay

	// deferred is a pause that does not end the response, because the run continues without the user, see Turn.Paused. If it turns out to wait for the user after
	// all, the pause is written then, at the position of the last record.
	deferred *chunk.Record
	last     chunk.Cursor

	// Of a message of the AI SDK, see Turn.Replay. Its writer gets the records themselves, to determine which of them belong to the message and when the response ends,
	// and the view is applied last.
	out     *aisdk.MessageWriter // the writer
	history history

	ahead  []byte       // records before those of the cursor
	rest   *hub.Cursor  // of the records of the turn that the client has, nil when the writer has them all
	primed bool         // the writer has them all, and none after them
	at     chunk.Cursor // of the last record without frames
	sent   chunk.Seq    // the last position that the client has
}

// turnCursor is the position of one reader of records in hub.RecordEncoding. *hub.Cursor implements it.
type turnCursor = interface {
	Poll(ctx context.Context) (hub.Batch, <-chan struct{}, error)
	Close()
}

func newTurn(v *subscription, of *Turn) *turn {
	t := &turn{subscription: v, of: of, awaited: of.Run, messageID: of.MessageID, sent: of.After.Seq}
	switch {
	case !of.Replay:
		t.state = new(turnState)
	case !of.Waits:
		t.newMessage(of.MessageID)
	}
	return t
}

// attach opens the cursor. The clients know no event that moves them to another position: if the log cannot serve theirs, they are rejected and load the snapshot.
func (t *turn) attach(ctx context.Context) (err error) {
	if t.of.Replay {
		return t.readMessage(ctx)
	}
	t.cur, err = t.edge.hub.Subscribe(ctx, t.req)
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = t.await(ctx)
	}
	t.records = t.cur
	if err == nil && (t.of.Continues || t.of.Whole) {
		err = t.rewind(ctx)
	}
	if t.of.Open && (errors.Is(err, chunk.ErrTruncated) || errors.Is(err, errTurnUnknown)) {
		err = t.attachLive(ctx)
	}
	if errors.Is(err, chunk.ErrTruncated) || errors.Is(err, errTurnUnknown) {
		return errMovedPosition
	}
	return err
}

// await opens the cursor of a session without records in the log, of which a snapshot is stored.
func (t *turn) await(ctx context.Context) error {
	snap, err := t.edge.readPosition(ctx, t.target(), true)
	switch {
	case err != nil:
		return err
	case t.req.After.Seq != snap.StreamSequence:
		return errMovedPosition
	case over(snap):
		return hub.ErrEnded
	}
	req := t.req
	req.After, req.StreamEpoch, req.Await = position(snap), "", true
	t.cur, err = t.edge.hub.Subscribe(ctx, req)
	return err
}

// attachLive opens the cursor at the end of the session.
func (t *turn) attachLive(ctx context.Context) (err error) {
	t.subscription.detach()
	t.req.After, t.req.Anchor, t.req.Await = t.of.Present, 0, true
	t.sent, t.writer, t.turns, t.pending = t.of.Present.Seq, nil, dialect.Turns{}, nil
	t.cur, err = t.edge.hub.Subscribe(ctx, t.req)
	t.records = t.cur
	return err
}

// rewind gives the writer the record that opened the turn of the client, and opens a cursor of the others that the client has.
func (t *turn) rewind(ctx context.Context) (err error) {
	if t.sent == 0 {
		return nil
	}
	if *t.state, err = t.edge.turnAt(ctx, t.of.Session, t.sent); err != nil {
		return err
	}
	opening := t.state.opening
	t.state.opening = chunk.Record{}
	if t.of.Whole {
		err = t.take(ctx, &hub.Batch{}, &opening)
		t.pending, t.frames = t.frames, nil
		return err
	}
	if err := t.takeEarlier(ctx, &opening); err != nil {
		return err
	}
	if opening.Seq == t.sent {
		t.primed = true
		return nil
	}
	req := t.req
	req.After, req.Anchor, req.Await, req.KeepOpen = t.state.start, 0, false, false
	t.rest, err = t.edge.hub.Subscribe(ctx, req)
	return err
}

// prime gives the writer the next records that the client has. They come from the hub, like those after the cursor: the clients of a session share what is read
// of the log, and a turn may take long to read, because the response has begun. It returns a channel to wait for, so that the response has heartbeats meanwhile
// and ends when its context or its credential does.
func (t *turn) prime(ctx context.Context) (<-chan struct{}, error) {
	batch, wait, err := t.rest.Poll(ctx)
	switch {
	case errors.Is(err, io.EOF): // a cleanup has removed the record of the client
		t.setPrimed()
		return pollAgain, nil
	case err != nil || wait != nil:
		return wait, err
	}
	records := hub.ReadRecords(batch.Frames, t.of.Session.Tree())
	for records.Next() && records.Record.Seq <= t.sent {
		if err := t.takeEarlier(ctx, &records.Record); err != nil {
			return nil, err
		}
	}
	if records.Err == nil && t.rest.Position().Seq >= t.sent {
		t.setPrimed()
	}
	return pollAgain, records.Err
}

func (t *turn) setPrimed() {
	t.rest.Close()
	t.rest, t.primed = nil, true
}

// pollAgain is closed.
var pollAgain = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// takeEarlier takes a record that the client has.
func (t *turn) takeEarlier(ctx context.Context, rec *chunk.Record) error {
	err := t.take(ctx, nil, rec)
	t.frames, t.over = t.frames[:0], false // a turn may be long, and was not over
	return err
}

func (t *turn) detach() {
	if t.rest != nil {
		t.rest.Close()
		t.rest = nil
	}
	if t.of.Replay && t.records != nil {
		t.records.Close()
		t.records = nil
	}
}

// poll returns the next frames, see subscription.poll.
func (t *turn) poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	t.frames = t.frames[:0]
	switch {
	case t.rest != nil:
		wait, err := t.prime(ctx)
		return hub.Batch{}, wait, incomplete(err)
	case t.over:
		return hub.Batch{}, nil, io.EOF
	}
	batch := hub.Batch{Frames: t.ahead}
	if t.ahead = nil; batch.Frames == nil {
		var wait <-chan struct{}
		var err error
		if batch, wait, err = t.records.Poll(ctx); err != nil && t.of.Replay {
			err = incomplete(err) // these records have no end
		}
		if err != nil || wait != nil {
			return batch, wait, err
		}
	}
	records := hub.ReadRecords(batch.Frames, t.of.Session.Tree())
	batch.Records = 0
	for !t.over && records.Next() {
		if err := t.take(ctx, &batch, &records.Record); err != nil {
			return hub.Batch{}, nil, incomplete(err)
		}
	}
	if batch.Frames = t.frames; t.over {
		return batch, nil, io.EOF
	}
	return batch, nil, records.Err
}

// take appends the frames of a record.
func (t *turn) take(ctx context.Context, batch *hub.Batch, rec *chunk.Record) error {
	if rec.Session == t.of.Session {
		takeRun := t.takeRun
		if t.of.Replay {
			takeRun = t.takeAwaited
		}
		if err := takeRun(ctx, rec); err != nil || t.over {
			return err
		}
		if rec.Type == chunk.TypeRunStarted {
			t.deferred = nil
		}
	}
	if t.writer == nil {
		return nil // of an earlier turn, or of a sub-agent that ends after its turn
	}
	if t.primed {
		t.primed, t.frames = false, t.writer.Resume(t.frames)
	}
	before := len(t.frames)
	if batch == nil || t.of.Paused == nil {
		t.append(rec)
	} else if err := t.write(ctx, rec); err != nil {
		return err
	}
	if batch != nil && t.of.Dialect == dialect.LangGraph {
		if err := t.fillState(ctx, before); err != nil {
			return err
		}
	}
	if len(t.frames) == before { // it does not end a response: its client would come back with the same cursor
		t.at = rec.Cursor()
		return nil
	}
	t.over = t.writer.Done() && !t.of.Open && (t.awaited == "" || t.of.Replay)
	if batch != nil {
		t.sent = rec.Seq
		batch.Records++
	}
	return nil
}

// takeRun begins and ends turns with a record of the session.
func (t *turn) takeRun(ctx context.Context, rec *chunk.Record) error {
	opens, inputs := t.turns.Opens(rec)
	isLast := t.awaited == "" && !t.of.Open
	if t.turns.Run() == t.awaited {
		t.awaited = ""
	}
	if !opens {
		return nil
	}
	if t.writer != nil && !t.primed && !t.writer.Done() {
		t.frames = t.writer.Append(t.frames, *rec) // ends the turn before
		if isLast {
			t.over = true // the record belongs to the next response: then it is the first after the cursor
			return nil
		}
	}
	t.primed = false
	if t.of.Open && t.of.Begun != nil {
		if _, _, err := t.of.Begun(ctx, *rec, chunk.RunStarted{}); err != nil {
			return err
		}
	}
	return t.beginTurn(ctx, rec, inputs)
}

// beginTurn creates the writer of the turn that a record opens. inputs is the number of user messages of the turn.
func (t *turn) beginTurn(ctx context.Context, rec *chunk.Record, inputs int) error {
	turn := dialects.Turn{Session: t.of.Session, AISDK: t.of.AISDK, HeldResults: t.of.HeldResults, LangGraph: t.of.LangGraph}
	switch {
	case t.messageID != "":
		turn.MessageID, t.messageID = t.messageID, ""
	case t.state.start.Seq == rec.Seq:
		turn.MessageID, turn.State, turn.AISDK.Earlier = fold.MessageID(t.state.answer), t.state.before, t.state.earlier
	case rec.Ordinal == t.state.at.Ordinal+1:
		turn.MessageID, turn.State, turn.AISDK.Earlier = fold.MessageID(t.state.messages+inputs), t.state.now, t.state.open
	default:
		at, err := t.edge.turnAt(ctx, t.of.Session, rec.Seq)
		if err != nil && (!t.of.Open || !errors.Is(err, errTurnUnknown)) {
			return err
		}
		turn.MessageID, turn.State, turn.AISDK.Earlier = fold.MessageID(at.answer), at.before, at.earlier
	}
	if t.of.View != nil {
		turn.State = nil // it may have what the view hides
	}
	t.writer = dialects.NewWriter(t.of.Dialect, turn)
	return nil
}

// write appends the frames of a record that the client does not have. A pause is written if it ends the response, see Turn.Paused.
func (t *turn) write(ctx context.Context, rec *chunk.Record) error {
	t.last = rec.Cursor()
	pauses := rec.Type == chunk.TypeStreamPaused
	if pauses && rec.Session == t.of.Session {
		t.deferred = cloned(rec)
	} else {
		t.append(rec)
	}
	if !pauses || t.deferred == nil {
		return nil // a sub-agent waits while its parent is running
	}
	ends, err := t.of.Paused(ctx, t.deferred.Seq)
	if err != nil || !ends {
		return err // the run continues without the user, or has continued already
	}
	end := t.atTheEnd(*t.deferred)
	t.append(&end)
	t.deferred = nil
	if w, ok := t.writer.(*aisdk.MessageWriter); ok && t.of.View != nil {
		t.frames = w.Finish(t.frames) // what the user has to answer may be hidden from this client, and it must be able to send a message
	}
	return nil
}

// fillState writes the state of the session into its place in the frames after an offset, if they have one: see langgraph.WriterConfig.
func (t *turn) fillState(ctx context.Context, after int) error {
	at := bytes.IndexByte(t.frames[after:], langgraph.StateMark)
	if at < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.edge.cfg.AttachTimeout)
	defer cancel()
	read, hold, err := readWithin(ctx, t.edge.reads, func(ctx context.Context) (fold.Content, error) {
		return t.edge.readContent(ctx, t.of.Session, snapshotQuery{partial: true})
	})
	defer hold.release()
	if err == nil {
		t.frames = slices.Replace(t.frames, after+at, after+at+1, rawjson.Get(langgraph.AppendState(nil, langgraph.State{Content: t.of.View.Snapshot(read)}), "values")...)
	}
	return err
}

// append appends what the view shows of a record.
func (t *turn) append(rec *chunk.Record) {
	t.frames = appendShown(t.frames, t.of.View, rec, t.writer)
}

// appendShown appends what a view shows of a record, which is all of it if the view is nil.
func appendShown(dst []byte, v *view.Chat, rec *chunk.Record, to codec.Writer) []byte {
	if v == nil {
		return to.Append(dst, *rec)
	}
	if shown, ok := v.Record(*rec); ok {
		return to.Append(dst, shown)
	}
	return to.Hide(dst, *rec)
}

// skipped returns the position of records without frames that the client does not have yet.
func (t *turn) skipped() hub.Batch {
	if t.of.Replay || t.of.Open || t.at.Seq <= t.sent {
		return hub.Batch{}
	}
	t.sent = t.at.Seq
	return hub.Batch{SkipTo: t.at}
}

// waiting returns what Turn.Waiting shows.
func (t *turn) waiting(ctx context.Context) (frames []byte, err error) {
	if t.of.Waiting == nil || t.awaited == "" {
		return nil, nil
	}
	return t.of.Waiting(ctx, nil)
}

// unknown ends the subscription: no dialect has an event for a session that does not exist.
func (t *turn) unknown() { t.done = true }

func (t *turn) form() string { return t.of.Dialect }

var errMovedPosition = errors.New("the log no longer has the records after the cursor, or those of its turn before it")

// incomplete returns an error that ends a response before its end. io.EOF ends it as complete, and a store or a log has it in its error if a server has closed the
// connection.
func incomplete(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, err.Error())
	}
	return err
}
