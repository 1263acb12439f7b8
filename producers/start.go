package producers

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// A StartOption is a choice of one Start.
type StartOption func(*startOptions)

type startOptions struct {
	agentType string
	takeOver  bool
	behind    *chunk.Position
	announced chunk.SubagentStart
}

// defaultAgentType is the AgentType of runs that were given none.
const defaultAgentType = "agent"

// AgentType is the name of the agent's definition, which Say and the run's own
// records carry. Defaults to "agent".
func AgentType(name string) StartOption {
	return func(o *startOptions) { o.agentType = name }
}

// TakeOver starts the run even if the one before is still open, and fences that
// one: nothing it writes is stored any more. Mode "takeover" implies it; the
// option is for modes that say something else, such as "from_checkpoint".
func TakeOver() StartOption {
	return func(o *startOptions) { o.takeOver = true }
}

// Behind starts the run only if last is still the session's last record, else
// Start is refused with ErrMoved and nothing is written. It is for who decided
// from a snapshot what to start. Without it:
//  1. a worker sees a session that waits for its command, and is frozen,
//  2. another one does the command, from the first word to the end,
//  3. the first goes on, and opens again what has ended.
//
// Only the ordinal of last counts.
func Behind(last chunk.Position) StartOption {
	return func(o *startOptions) { o.behind = &last }
}

const (
	modeExecute  = "execute"
	modeTakeover = "takeover"
)

// Start opens a run of s: it writes run as a run_started record with the next
// epoch, by compare-and-set, and returns the session's new writer. The session
// needs no making. An empty RunID is minted, an empty Mode is "execute"; Epoch
// is filled in.
//
// Behind refuses a session that has moved on with ErrMoved.
//
// A session whose last record neither ends nor pauses its stream is refused
// with ErrRunning, unless the run takes over. Of two that start at once one
// wins; the other is refused, or fences the winner when it takes over.
//
// Other errors are those of a Run. After chunk.ErrUnknownOutcome the
// run_started may be in the log; starting again finds out (ErrRunning if it is).
//
// The Run is yours to Close. ctx ends the start, not the run.
func (p *Producer) Start(ctx context.Context, s chunk.Session, run chunk.RunStarted, opts ...StartOption) (*Run, error) {
	o := startOptions{agentType: defaultAgentType}
	for _, opt := range opts {
		opt(&o)
	}
	if run.RunID == "" {
		run.RunID = mint()
	}
	if run.Mode == "" {
		run.Mode = modeExecute
	}
	o.takeOver = o.takeOver || run.Mode == modeTakeover
	log, err := newNATSLog(p.link, p.js, p.cfg.Layout, s)
	if err != nil {
		return nil, &NotStoredError{Session: s, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: %w", chunk.ErrInvalid, err)}
	}
	r := newRun(p.cfg, s, log, o)
	if err := p.adopt(r); err != nil {
		log.close()
		return nil, &NotStoredError{Session: s, Type: chunk.TypeRunStarted, Cause: err}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)() //nolint:contextcheck // Producer.Close ends the run, and with it this start
	if err := r.start(ctx, run, o); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// newRun is a Run that has not started yet.
func newRun(cfg Config, s chunk.Session, log sessionLog, o startOptions) *Run {
	ctx, cancel := context.WithCancel(context.Background())
	return &Run{
		session:   s,
		agentType: o.agentType,
		announced: o.announced,
		cfg:       cfg,
		log:       log,
		slog:      cfg.Log.With("session", s.String()),
		ctx:       ctx,
		cancel:    cancel,
		wake:      make(chan struct{}, 1),
		cleaning:  make(chan struct{}, 1),
		queue: queue{
			linger:   max(0, cfg.Linger),
			maxDelta: min(cfg.MaxDelta, cfg.MaxChunk/8), // a byte of text has up to six of JSON
			limit:    cfg.Queue,
			maxBytes: cfg.QueueBytes,
		},
	}
}

// mint is a new id: 128 random bits in a form that is a token of a subject.
func mint() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// head is where a session's log ends.
type head struct {
	pos   chunk.Position
	epoch chunk.Epoch
	typ   chunk.Type   // "" when the log has no record
	mark  *chunk.Chunk // the truncated record that is the last, nil otherwise
	next  chunk.Seq    // what a writer must expect: differs from pos.Seq after a foreign message
}

// idle reports whether no run is open.
func (h head) idle() bool {
	return h.typ == "" || h.typ.Terminal() || h.typ == chunk.TypeStreamPaused
}

// start writes the run_started. Losing a race means reading the head again: the
// session may have another writer now, and its place has moved in any case.
func (r *Run) start(ctx context.Context, run chunk.RunStarted, o startOptions) error {
	nonce := mint()
	deadline := time.Now().Add(r.cfg.Patience)
	for {
		h, err := r.readHead(ctx)
		if err != nil {
			return &NotStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: err}
		}
		if o.behind != nil && h.pos.Ordinal != o.behind.Ordinal {
			return &NotStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: it is at record %d, not %d", ErrMoved, h.pos.Ordinal, o.behind.Ordinal)}
		}
		if !h.idle() && !o.takeOver {
			return &RunningError{Session: r.session, Epoch: h.epoch, Last: h.pos, Type: h.typ}
		}
		if err := r.finishCleanup(ctx, h); err != nil {
			return &NotStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: err}
		}
		err = r.writeStart(ctx, h, run, nonce)
		if _, lost := errors.AsType[*overtaken](err); !lost {
			return err
		}
		// Too many at once, or a run that writes as fast as we read: a moment at
		// random, then again.
		if time.Now().After(deadline) || !pause(ctx, delay(busy, 0)) {
			return &NotStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("other writers were faster every time for %s", r.cfg.Patience)}
		}
	}
}

// maxEpoch is the last number that JSON readers of other languages keep exact.
const maxEpoch = 1<<53 - 1

// writeStart tries once to be the record after h. The error is *overtaken if
// something else was.
func (r *Run) writeStart(ctx context.Context, h head, run chunk.RunStarted, nonce string) error {
	if h.epoch >= maxEpoch || h.pos.Ordinal >= maxEpoch {
		return &NotStoredError{Session: r.session, Type: chunk.TypeRunStarted, Cause: fmt.Errorf("%w: the session is at epoch %d, ordinal %d: nothing comes after that", chunk.ErrInvalid, h.epoch, h.pos.Ordinal)}
	}
	r.epoch, r.runID = h.epoch+1, run.RunID
	run.Epoch = int64(r.epoch)
	it, err := r.prepareWhole(r.chunk(run))
	if err != nil {
		return r.notStored(chunk.Chunk{Body: run}, err)
	}
	r.pos = chunk.Position{Seq: h.next, Ordinal: h.pos.Ordinal}
	m, err := r.encode(it)
	if err != nil {
		return r.notStored(chunk.Chunk{Body: run}, err)
	}
	// Two that start at once write the same id; for equal runs even the bytes
	// are the same. Only this tells a lost acknowledgement from a lost race.
	m.header[headerWriter] = []string{nonce}
	seq, err := r.storing(m).run(ctx)
	if err != nil {
		if _, lost := errors.AsType[*overtaken](err); lost {
			return err
		}
		return r.explain(it, err)
	}
	r.pos = chunk.Position{Seq: seq, Ordinal: h.pos.Ordinal + 1}
	return nil
}

// readHead finds the end of the session, waiting out what can be waited out.
func (r *Run) readHead(ctx context.Context) (head, error) {
	var h head
	err := r.persist(ctx, func(ctx context.Context) (err error) {
		h, err = r.readHeadOnce(ctx)
		return err
	})
	return h, err
}

func (r *Run) readHeadOnce(ctx context.Context) (head, error) {
	m, err := r.log.last(ctx)
	if errors.Is(err, errNoMessage) {
		return r.rememberedHead(ctx, 0)
	}
	if err != nil {
		return head{}, err
	}
	rec, err := codec.Decode(r.session, m.seq, m.stored, m.header, m.data)
	if err != nil {
		r.slog.LogAttrs(ctx, slog.LevelWarn, "the session ends in a message that is no record; it is read from its start", slog.Any("error", err))
		return r.scanHead(ctx, m.seq)
	}
	return headAt(rec)
}

func headAt(rec chunk.Record) (head, error) {
	h := head{pos: rec.Position(), epoch: rec.Epoch, typ: rec.Type, next: rec.Seq}
	if rec.Type == chunk.TypeTruncated {
		c, err := rec.Decode()
		if err != nil {
			return head{}, fmt.Errorf("%w: the last record, sequence %d: %w", errBadHead, rec.Seq, err)
		}
		h.mark = &c
	}
	return h, nil
}

// scanHead finds the last record when the last message is none. Such a message
// was put there by somebody without this package; it has no ordinal and readers
// pass it over, so the session goes on behind it. Refusing instead would let one
// stray message close a session until it expires.
func (r *Run) scanHead(ctx context.Context, through chunk.Seq) (head, error) {
	var h head
	for m, err := range r.log.scan(ctx, scanRange{through: through}) {
		if err != nil {
			return head{}, err
		}
		rec, err := codec.Decode(r.session, m.seq, m.stored, m.header, m.data)
		if err != nil || rec.Epoch < h.epoch {
			continue
		}
		if h, err = headAt(rec); err != nil {
			return head{}, err
		}
	}
	if h.typ == "" {
		return r.rememberedHead(ctx, through)
	}
	h.next = through
	return h, nil
}

// rememberedHead is where the session stood when the log had it.
func (r *Run) rememberedHead(ctx context.Context, next chunk.Seq) (head, error) {
	h := head{next: next}
	if r.cfg.Heads == nil {
		return h, nil
	}
	pos, epoch, err := r.cfg.Heads.Head(ctx, r.session)
	if err != nil {
		return head{}, fmt.Errorf("where the session stood before it expired: %w", err)
	}
	h.pos.Ordinal, h.epoch = pos.Ordinal, epoch
	return h, nil
}

// errBadHead is what no waiting changes.
var errBadHead = errors.New("cannot be read")

// persist does f until it succeeds, fails for good, or Patience is over.
func (r *Run) persist(ctx context.Context, f func(context.Context) error) error {
	deadline := time.Now().Add(r.cfg.Patience)
	for n := 0; ; n++ {
		err := f(ctx)
		if err == nil || final(err) || !time.Now().Before(deadline) || !pause(ctx, delay(unknown, n)) {
			return err
		}
	}
}

// final errors of a read or a delete.
func final(err error) bool {
	if api, ok := errors.AsType[*apiError](err); ok {
		return api.Code >= 400 && api.Code < 500 && api.Code != http.StatusTooManyRequests
	}
	return errors.Is(err, errConnClosed) || errors.Is(err, errPermission) || errors.Is(err, errBadHead) || errors.Is(err, errNoMessage)
}
