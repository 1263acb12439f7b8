package sseedge

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// readDialect returns the dialect of a response: ?dialect=, or the parameter profile of the first type in Accept that has one. It is "" for the native one.
func (q query) readDialect(h http.Header) (string, *httpkit.Problem) {
	name := q.values.Get("dialect")
	if name == "" {
		name = profileOf(h)
	}
	switch {
	case name == "", name == dialect.Native:
		return "", nil
	case dialects.Writes(name):
		return name, nil
	}
	return "", badRequest(codeBadParameter, "unknown dialect", "dialect: want "+strings.Join(dialects.Written(), ", "))
}

func profileOf(h http.Header) string {
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept"), ","), ",") {
		if _, params, err := mime.ParseMediaType(part); err == nil && params["profile"] != "" {
			return params["profile"]
		}
	}
	return ""
}

// translation writes the records of a subscription in another dialect. Its output is one turn: the clients of the dialects fold a response into one answer. A
// client gets the next turn from its next response.
type translation struct {
	edge    *Edge
	dialect string
	session chunk.Session // whose turn is written
	view    *view.Chat    // nil shows everything

	held      []string // see TurnStream.HeldResults
	awaited   string   // the run whose turn is the last of the response, "" if it has begun
	messageID string   // of the answer of the first turn that begins; "": it is read

	writer dialect.Writer // nil before the turn begins
	turns  dialect.Turns
	turn   turnState
	begins bool // the first record after the cursor begins a turn
	whole  bool // the cursor is the record that began the turn, and the response begins with it
	done   bool // the response is over

	earlier *hub.Cursor // of the records of the turn that the client has, nil when the writer has them all
	primed  bool        // the writer has them all, and none after them

	frames []byte
	at     chunk.Cursor // of the last record without frames
	sent   chunk.Seq    // the last position that the client has
}

// newTranslation changes a request to one for whole records and returns what translates them, nil if the client reads the native dialect.
func (e *Edge) newTranslation(r *http.Request, req *hub.Request) (*translation, *httpkit.Problem) {
	q, p := readQuery(r.URL, "dialect")
	if p != nil {
		return nil, p
	}
	name, p := q.readDialect(r.Header)
	if name == "" || p != nil {
		return nil, p
	}
	if len(req.Filter.Types)+len(req.Filter.Exclude) > 0 || req.Filter.Agent != "" {
		return nil, badRequest(codeBadParameter, "a dialect has no filters", "types, exclude, agent: want none with dialect")
	}
	t := &translation{edge: e, dialect: name, view: e.cfg.Views.Get(req.Encoding).Chat(), sent: req.After.Seq}
	req.Encoding = hub.RecordEncoding
	return t, nil
}

// rewind gives the writer the record that opened the turn of the client, and opens a cursor of the others that the client has.
func (t *translation) rewind(ctx context.Context, v *subscription) (err error) {
	if t.sent == 0 {
		return nil
	}
	if t.turn, err = t.edge.turnAt(ctx, t.session, t.sent); err != nil {
		return err
	}
	opening := t.turn.opening
	t.turn.opening = chunk.Record{}
	if t.whole {
		err = t.take(ctx, &hub.Batch{}, &opening)
		v.pending, t.frames = t.frames, nil
		return err
	}
	if err := t.takeEarlier(ctx, &opening); err != nil {
		return err
	}
	if opening.Seq == t.sent {
		t.primed = true
		return nil
	}
	req := v.req
	req.After, req.Anchor, req.Await, req.KeepOpen = t.turn.start, 0, false, false
	t.earlier, err = t.edge.hub.Subscribe(ctx, req)
	return err
}

// prime gives the writer the next records that the client has. They come from the hub, like those after the cursor: the clients of a session share what is read
// of the log, and a turn may take long to read, because the response has begun. It returns a channel to wait for, so that the response has heartbeats meanwhile
// and ends when its context or its credential does.
func (t *translation) prime(ctx context.Context) (<-chan struct{}, error) {
	batch, wait, err := t.earlier.Poll(ctx)
	switch {
	case errors.Is(err, io.EOF): // a cleanup has removed the record of the client
		t.detach()
		t.primed = true
		return pollAgain, nil
	case err != nil || wait != nil:
		return wait, err
	}
	records := hub.ReadRecords(batch.Frames, t.session.Tree())
	for records.Next() && records.Record.Seq <= t.sent {
		if err := t.takeEarlier(ctx, &records.Record); err != nil {
			return nil, err
		}
	}
	if records.Err != nil {
		return nil, records.Err
	}
	if t.earlier.Position().Seq >= t.sent {
		t.detach()
		t.primed = true
	}
	return pollAgain, nil
}

// pollAgain is closed.
var pollAgain = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// takeEarlier takes a record that the client has.
func (t *translation) takeEarlier(ctx context.Context, rec *chunk.Record) error {
	err := t.take(ctx, nil, rec)
	t.frames, t.done = t.frames[:0], false // a turn may be long, and was not over
	return err
}

// detach ends the reading of earlier records.
func (t *translation) detach() {
	if t.earlier != nil {
		t.earlier.Close()
		t.earlier = nil
	}
}

// poll returns the next frames, see subscription.poll.
func (t *translation) poll(ctx context.Context, cur *hub.Cursor) (hub.Batch, <-chan struct{}, error) {
	switch {
	case t.earlier != nil:
		wait, err := t.prime(ctx)
		return hub.Batch{}, wait, err
	case t.done:
		return hub.Batch{}, nil, io.EOF
	}
	batch, wait, err := cur.Poll(ctx)
	if err == nil && wait == nil {
		batch, err = t.translate(ctx, batch)
	}
	return batch, wait, err
}

// translate replaces the records of a batch by the frames of the dialect.
func (t *translation) translate(ctx context.Context, batch hub.Batch) (hub.Batch, error) {
	records := hub.ReadRecords(batch.Frames, t.session.Tree())
	t.frames = t.frames[:0]
	batch.Records = 0
	for !t.done && records.Next() {
		if err := t.take(ctx, &batch, &records.Record); err != nil {
			return hub.Batch{}, err
		}
	}
	batch.Frames = t.frames
	return batch, records.Err
}

// take appends the frames of a record.
func (t *translation) take(ctx context.Context, batch *hub.Batch, rec *chunk.Record) error {
	if rec.Session == t.session {
		opens, inputs := t.turns.Opens(rec)
		isLast := t.awaited == ""
		if t.turns.Run() == t.awaited {
			t.awaited = ""
		}
		if opens && t.writer != nil && !t.primed && !t.writer.Done() {
			t.frames = t.writer.Append(t.frames, *rec) // ends the turn before
			if isLast {
				t.done = true // the record belongs to the next response: then it is the first after the cursor
				return nil
			}
		}
		if opens {
			if err := t.begin(ctx, rec, inputs); err != nil {
				return err
			}
			t.primed = false
		}
	}
	if t.writer == nil {
		return nil // of a sub-agent that ends after its turn
	}
	if t.primed {
		t.primed, t.frames = false, t.writer.Resume(t.frames)
	}
	before := len(t.frames)
	t.write(rec)
	if len(t.frames) == before { // it does not end a response: its client would come back with the same cursor
		t.at = rec.Cursor()
		return nil
	}
	t.done = t.writer.Done() && t.awaited == ""
	if batch != nil {
		t.sent = rec.Seq
		batch.Records++
	}
	return nil
}

// write appends what the view shows of a record.
func (t *translation) write(rec *chunk.Record) {
	if t.view == nil {
		t.frames = t.writer.Append(t.frames, *rec)
		return
	}
	if shown, ok := t.view.Record(*rec); ok {
		t.frames = t.writer.Append(t.frames, shown)
	} else {
		t.frames = t.writer.Hide(t.frames, *rec)
	}
}

// begin creates the writer of the turn that a record opens. inputs is the number of user messages of the turn.
func (t *translation) begin(ctx context.Context, rec *chunk.Record, inputs int) error {
	turn := dialects.Turn{Session: t.session, AISDK: t.edge.cfg.AISDK}
	switch {
	case t.messageID != "":
		turn.MessageID, t.messageID = t.messageID, ""
	case t.turn.start.Seq == rec.Seq:
		turn.MessageID, turn.State = fold.MessageID(t.turn.answer), t.turn.before
	case rec.Ordinal == t.turn.at.Ordinal+1:
		turn.MessageID, turn.State = fold.MessageID(t.turn.messages+inputs), t.turn.now
	default:
		at, err := t.edge.turnAt(ctx, t.session, rec.Seq)
		if err != nil {
			return err
		}
		turn.MessageID, turn.State = fold.MessageID(at.answer), at.before
	}
	if t.view != nil {
		turn.State = nil // it may have what the view hides
	}
	t.writer = dialects.NewWriter(t.dialect, turn)
	if w, ok := t.writer.(interface{ Omit(callIDs ...string) }); ok {
		w.Omit(t.held...)
	}
	return nil
}

// skipped returns the position of records without frames that the client does not have yet.
func (t *translation) skipped() hub.Batch {
	if t.at.Seq <= t.sent {
		return hub.Batch{}
	}
	t.sent = t.at.Seq
	return hub.Batch{SkipTo: t.at}
}

// setHeader sets the headers of a response in a dialect.
func (t *translation) setHeader(h http.Header) {
	for name, value := range dialects.Header(t.dialect) {
		h.Set(name, value)
	}
}

// attach opens the cursor of a subscription that is translated. Its clients know no event that moves them to another position: if the log cannot serve theirs,
// they are rejected and load the snapshot.
func (t *translation) attach(ctx context.Context, v *subscription) (err error) {
	v.cur, err = t.edge.hub.Subscribe(ctx, v.req)
	if errors.Is(err, chunk.ErrUnknownSession) {
		err = t.await(ctx, v)
	}
	if err == nil && !t.begins {
		err = t.rewind(ctx, v)
	}
	if errors.Is(err, chunk.ErrTruncated) || errors.Is(err, errTurnUnknown) {
		return errMovedPosition
	}
	return err
}

// await opens the cursor of a session without records in the log, of which a snapshot is stored.
func (t *translation) await(ctx context.Context, v *subscription) error {
	snap, err := t.edge.readPosition(ctx, v.target(), true)
	switch {
	case err != nil:
		return err
	case v.req.After.Seq != snap.StreamSequence:
		return errMovedPosition
	case over(snap):
		return hub.ErrEnded
	}
	req := v.req
	req.After, req.StreamEpoch, req.Await = position(snap), "", true
	v.cur, err = t.edge.hub.Subscribe(ctx, req)
	return err
}

// TurnStream is a response with one turn of a root session, for a surface that has requested a run.
type TurnStream struct {
	Session chunk.Session
	Dialect string
	View    *view.Chat // nil shows everything

	// Waits says that the turn, or its next run, may not have begun. Otherwise a session that is complete at After has no further turn: the response is 204.
	Waits bool

	// After is the position of the root after which the response begins. Its Ordinal is 0 for a client's cursor, of which Anchor is a part. The next record of the
	// root begins the turn, unless one of the other fields is set. Continues says that the turn at this position is not over: then its earlier records are read
	// first. Whole says that After is the record that began the turn: the response begins with it.
	After     chunk.Position
	Anchor    chunk.Anchor
	Continues bool
	Whole     bool

	// Run is the run that begins the turn, "" if it has begun. If the turn before is not over at After, the response has the rest of it, too: clients that fold
	// several turns of one response only, as those of AG-UI do.
	Run string

	// MessageID is that of the answer, "" if it is not known.
	MessageID string

	// Check is called with each heartbeat, on the goroutine of the request. Its error aborts the response. nil checks nothing.
	Check func(ctx context.Context) error

	// HeldResults are calls of which the client has the results as messages of its own. Only AG-UI has such clients.
	HeldResults []string
}

// ServeTurn waits for the turn and writes it in its dialect. The caller has reserved the stream, and ctx ends when it drains. The response is aborted if the turn
// cannot be written to its end.
func (e *Edge) ServeTurn(ctx context.Context, w http.ResponseWriter, r *http.Request, of TurnStream) *httpkit.Problem {
	req := hub.Request{Session: of.Session, Encoding: hub.RecordEncoding, After: of.After, Anchor: of.Anchor, KeepOpen: of.Waits, Await: true}
	v := newSubscription(e, req)
	v.translation = &translation{
		edge: e, dialect: of.Dialect, session: of.Session, view: of.View, sent: of.After.Seq, messageID: of.MessageID, held: of.HeldResults, awaited: of.Run,
		begins: !of.Continues && !of.Whole, whole: of.Whole,
	}
	s := &stream{edge: e, subscriptions: []*subscription{v}, check: of.Check}
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

var errMovedPosition = errors.New("the log no longer has the records after the cursor, or those of its turn before it")
