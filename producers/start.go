package producers

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// StartOption configures one Start.
type StartOption func(*startOptions)

type startOptions struct {
	agentType string
	takeOver  bool
	behind    *chunk.Position
	announced chunk.SubagentStart
	input     *codec.InputPosition // nil for none
	keepInput bool                 // see KeepInput
	trace     string               // see TraceParent
}

// defaultAgentType is the AgentType of runs without the option.
const defaultAgentType = "agent"

// AgentType sets the agent type of the chunks of EmitBody and of the records of the run itself. Defaults to "agent".
func AgentType(name string) StartOption {
	return func(o *startOptions) { o.agentType = name }
}

// TakeOver starts the run even if the previous one is open, and fences that one: no later write of it is stored. Mode "takeover" implies it; the option is
// for other modes, such as "from_checkpoint".
func TakeOver() StartOption {
	return func(o *startOptions) { o.takeOver = true }
}

// ExpectPosition starts the run only if last is still the last record of the session; otherwise Start returns ErrPositionMismatch and writes nothing. Use it
// if the decision to start is based on a snapshot. Without it:
//  1. worker A reads a session that waits for its command, and is suspended by its host,
//  2. worker B runs the command and ends the run,
//  3. worker A continues, and starts the completed run again.
//
// Only the ordinal of last counts.
func ExpectPosition(last chunk.Position) StartOption {
	return func(o *startOptions) { o.behind = &last }
}

// TraceParent adds a W3C traceparent, that of the span of the run, to the run_started record and to the records that end or pause the run, as the CloudEvents
// extension attribute. Consumers link to it. One that cannot be an attribute, or is empty, is left out.
func TraceParent(parent string) StartOption {
	return func(o *startOptions) { o.trace = parent }
}

const (
	modeExecute  = "execute"
	modeTakeover = "takeover"
)

// Start opens a run of s: it writes run as a run_started record with the next epoch, by compare-and-set, and returns the new writer of the session. A session
// needs no creation. Start generates an empty RunID, replaces an empty Mode by "execute", and fills in Epoch.
//
// With ExpectPosition, Start returns ErrPositionMismatch for a session with newer records.
//
// If the last record of the session neither ends nor pauses its stream, Start returns ErrRunning, unless the run takes over. Of two concurrent starts one
// succeeds; the other gets ErrRunning, or fences the first if it takes over.
//
// Other errors are those of a Run. After chunk.ErrUnknownOutcome the run_started record may be in the log; another Start returns ErrRunning if it is.
//
// Close the returned Run. ctx bounds the start, not the run.
func (p *Producer) Start(ctx context.Context, s chunk.Session, run chunk.RunStarted, opts ...StartOption) (*Run, error) {
	o := startOptions{agentType: defaultAgentType}
	for _, opt := range opts {
		opt(&o)
	}
	if run.RunID == "" {
		run.RunID = newID()
	}
	run.Mode = cmp.Or(run.Mode, modeExecute)
	o.takeOver = o.takeOver || run.Mode == modeTakeover
	log, err := p.newNATSLog(s)
	if err != nil {
		return nil, &notStoredError{Session: s, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: %w", chunk.ErrInvalid, err)}
	}
	r := newRun(p.cfg, s, log, o)
	if err := p.addRun(r); err != nil {
		log.close()
		return nil, &notStoredError{Session: s, Type: chunk.TypeRunStarted, Cause: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)() //nolint:contextcheck // Producer.Close ends the run, and with it this start
	if err := r.start(ctx, run, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// newRun returns a Run that is not started.
func newRun(cfg Config, s chunk.Session, log sessionLog, o startOptions) *Run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Run{
		session:   s,
		announced: o.announced,
		trace:     o.trace,
		cfg:       cfg,
		log:       log,
		slog:      cfg.Log.With("session", s.String()),
		ctx:       ctx,
		cancel:    cancel,
		wake:      make(chan struct{}, 1),
		cleaning:  make(chan struct{}, 1),
		queue: queue{
			pace:     cfg.Pace,
			maxDelta: min(cfg.MaxDelta, cfg.MaxChunk/8), // a byte of text takes up to six bytes of JSON
			limit:    cfg.MaxQueue,
			maxBytes: cfg.MaxQueueBytes,
		},
	}
	r.agentType.Store(new(o.agentType))
	if o.input != nil {
		r.SetInput(*o.input)
	}
	return r
}

// newID returns a new id: 128 random bits as a token of a subject.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// logEnd is the end of the log of a session.
type logEnd struct {
	pos   chunk.Position
	epoch chunk.Epoch
	bytes int64        // see chunk.Record.SessionBytes
	typ   chunk.Type   // "" if the log has no record
	mark  *chunk.Chunk // the last record if it is a truncation record, otherwise nil
	rec   chunk.Record // the last record
	input codec.InputPosition
	next  chunk.Seq // the sequence that a writer must expect: differs from pos.Seq after a malformed message
}

// idle reports whether no run is open.
func (h logEnd) idle() bool {
	return h.typ == "" || h.typ.Terminal() || h.typ == chunk.TypeStreamPaused || h.typ == chunk.TypeSessionForked
}

// start writes the run_started record. After a conflict it reads the end of the log again: the session may have another writer now.
func (r *Run) start(ctx context.Context, run chunk.RunStarted, o startOptions) error {
	nonce := newID()
	deadline := time.Now().Add(r.cfg.RetryTimeout)
	for {
		h, err := r.readLogEnd(ctx)
		if err != nil {
			return &notStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: err}
		}
		if o.behind != nil && h.pos.Ordinal != o.behind.Ordinal {
			return &notStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: last record is %d, want %d", ErrPositionMismatch, h.pos.Ordinal, o.behind.Ordinal)}
		}
		if !h.idle() && !o.takeOver {
			return &RunningError{Session: r.session, Epoch: h.epoch, Last: h.pos, Type: h.typ}
		}
		if o.keepInput && h.input.Run != "" {
			r.SetInput(h.input)
		}
		if err := r.finishCleanup(ctx, h); err != nil {
			return &notStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: err}
		}
		err = r.writeStart(ctx, h, run, nonce)
		if _, lost := errors.AsType[*conflictError](err); !lost {
			return err
		}
		// Several concurrent starts, or a run that writes as fast as this one reads: retry after a random delay.
		if time.Now().After(deadline) || wait.Sleep(ctx, delay(jsclient.Busy, 0)) != nil {
			return &notStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("conflicts with other writers for %s", r.cfg.RetryTimeout)}
		}
	}
}

// maxEpoch is the largest number that JSON readers of other languages represent exactly.
const maxEpoch = 1<<53 - 1

// writeStart writes the run_started record after h. The error is *conflictError if another message follows h.
func (r *Run) writeStart(ctx context.Context, h logEnd, run chunk.RunStarted, nonce string) error {
	if h.epoch >= maxEpoch || h.pos.Ordinal >= maxEpoch {
		return &notStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: epoch %d and ordinal %d are the last possible ones", chunk.ErrInvalid, h.epoch, h.pos.Ordinal)}
	}
	r.epoch, r.runID = h.epoch+1, run.RunID
	run.Epoch = int64(r.epoch)
	it, err := r.prepareWhole(ctx, r.chunk(run))
	if err != nil {
		return r.notStored(chunk.Chunk{Body: run}, err)
	}
	r.pos, r.sessionBytes = chunk.Position{Seq: h.next, Ordinal: h.pos.Ordinal}, h.bytes
	s := r.newOp()
	if err := r.encode(&s.m, it); err != nil {
		return r.notStored(chunk.Chunk{Body: run}, err)
	}
	// Two concurrent starts write the same id, and for equal runs the same bytes. Only the nonce distinguishes a lost acknowledgement from a conflict.
	s.m.messages[0].Header[headerWriter] = []string{nonce}
	seq, err := r.writeOp(ctx, s, it)
	if err != nil {
		return err
	}
	r.stats.count(s)
	r.pos, r.sessionBytes = chunk.Position{Seq: seq, Ordinal: h.pos.Ordinal + 1}, s.m.sessionBytes
	if it.input != nil {
		r.storedInput = *it.input
	}
	return nil
}

// writeOp writes a record that the pump does not write, and returns its sequence. The error is *conflictError if another message has its place.
func (r *Run) writeOp(ctx context.Context, s *publishOp, it *item) (chunk.Seq, error) {
	seq, err := s.run(ctx)
	if _, lost := errors.AsType[*conflictError](err); lost {
		return 0, err
	}
	if err != nil {
		err = r.wrapError(it, err)
	}
	r.observe(s, err)
	return seq, err
}

// readLogEnd returns the end of the log of the session, with retries.
func (r *Run) readLogEnd(ctx context.Context) (logEnd, error) {
	var h logEnd
	err := r.retry(ctx, func(ctx context.Context) (err error) {
		h, err = r.readHeadOnce(ctx)
		return err
	})
	return h, err
}

func (r *Run) readHeadOnce(ctx context.Context) (logEnd, error) {
	m, err := r.log.last(ctx)
	if errors.Is(err, jsclient.ErrNotFound) {
		return r.storedLogEnd(ctx, 0)
	}
	if err != nil {
		return logEnd{}, err
	}
	rec, err := codec.Decode(codec.Stored{Session: r.session, Seq: m.seq, At: m.stored, Header: m.header, Data: m.data})
	if err != nil {
		r.slog.LogAttrs(ctx, slog.LevelWarn, "last message malformed, session scanned", slog.Any("error", err))
		return r.scanLogEnd(ctx, m.seq)
	}
	return headAt(rec, m)
}

func headAt(rec chunk.Record, m message) (logEnd, error) {
	h := logEnd{pos: rec.Position(), epoch: rec.Epoch, bytes: rec.SessionBytes, typ: rec.Type, rec: rec, next: rec.Seq}
	h.input, _ = codec.InputOf(m.header, m.data)
	if rec.Type == chunk.TypeTruncated {
		c, err := rec.Decode()
		if err != nil {
			return logEnd{}, fmt.Errorf("%w: sequence %d: %w", errBadHead, rec.Seq, err)
		}
		h.mark = &c
	}
	return h, nil
}

// scanLogEnd finds the last record if the last message is malformed. Such a message was written without this package; it has no ordinal and readers skip it,
// so the session continues after it. With an error instead, one such message would block the session until it expires.
func (r *Run) scanLogEnd(ctx context.Context, through chunk.Seq) (logEnd, error) {
	var h logEnd
	for m, err := range r.log.scan(ctx, scanRange{through: through}) {
		if err != nil {
			return logEnd{}, err
		}
		rec, err := codec.Decode(codec.Stored{Session: r.session, Seq: m.seq, At: m.stored, Header: m.header, Data: m.data})
		if err != nil || rec.Epoch < h.epoch {
			continue
		}
		if h, err = headAt(rec, m); err != nil {
			return logEnd{}, err
		}
	}
	if h.typ == "" {
		return r.storedLogEnd(ctx, through)
	}
	h.next = through
	return h, nil
}

// storedLogEnd returns the stored position of a session that has no record in the log.
func (r *Run) storedLogEnd(ctx context.Context, next chunk.Seq) (logEnd, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.AttemptTimeout)
	defer cancel()
	pos, epoch, bytes, err := r.cfg.Positions.StoredPosition(ctx, r.session)
	if err != nil {
		return logEnd{}, fmt.Errorf("read the stored position: %w", err)
	}
	return logEnd{next: next, pos: chunk.Position{Ordinal: pos.Ordinal}, epoch: epoch, bytes: bytes}, nil
}

// errBadHead reports a last record that cannot be decoded, which no retry changes.
var errBadHead = errors.New("last record unreadable")

// retry calls f until it succeeds, returns a final error, or RetryTimeout is over.
func (r *Run) retry(ctx context.Context, f func(context.Context) error) error {
	deadline := time.Now().Add(r.cfg.RetryTimeout)
	for n := 0; ; n++ {
		err := f(ctx)
		if err == nil || final(err) || !time.Now().Before(deadline) || wait.Sleep(ctx, delay(jsclient.Unknown, n)) != nil {
			return err
		}
	}
}

// final reports whether a repeated read or delete would return the same error.
func final(err error) bool { return jsclient.Final(err) || errors.Is(err, errBadHead) }
