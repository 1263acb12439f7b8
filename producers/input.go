package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// input is the position in the input of the chunks that are emitted next.
type input struct {
	at            codec.InputPosition // as it is stored
	chunks, bytes int64               // see SetInput
}

func (i *input) whole() *codec.InputPosition {
	if i == nil {
		return nil
	}
	return &i.at
}

// part returns the position of a part of a split delta that ends behind size bytes of the text.
func (i *input) part(size int64) *codec.InputPosition {
	p := i.at
	p.Partial, p.Chunks, p.Bytes = true, i.chunks-1, i.bytes+size
	return &p
}

// SetInput sets the position in the input of the run that is stored with later records, until it is set again: everything of the input up to p is stored with the
// record and those before it. So a writer that continues the run, in this process or in another one, knows where: see Continue. A record that merges deltas has
// the position of the last of them. p.Chunks counts the chunks of the line up to the next one that is emitted, and p.Bytes the bytes of the text of that one that
// were stored before and are not emitted, also if p is not Partial.
//
// SetInput and the call that emits must not be concurrent with others.
func (r *Run) SetInput(p codec.InputPosition) {
	i := &input{at: p, chunks: p.Chunks, bytes: p.Bytes}
	if i.at.Bytes = 0; !p.Partial {
		i.at.Chunks = 0
	}
	r.input.Store(i)
}

// Stored returns the input position of the last record that this Run has stored, the zero one before the first, and the position of that record in the log.
func (r *Run) Stored() (codec.InputPosition, chunk.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.storedInput, r.pos
}

// Err returns the error that the next call of Emit would return because earlier chunks were not stored, without marking it as returned.
func (r *Run) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal != nil {
		return r.fatal
	}
	return r.unreported.first
}

// InputAt sets the input position of the run_started record, see Run.SetInput.
func InputAt(p codec.InputPosition) StartOption {
	return func(o *startOptions) { o.input = &p }
}

// KeepInput gives the records of a run the input position of the record that they follow, if that has one. It is for a writer that continues or ends a run in place
// of another one. Otherwise a client that writes the run, and repeats its lines after it has missed a response, would find none of them stored.
func KeepInput() StartOption {
	return func(o *startOptions) { o.keepInput = true }
}

// Head is the last record of a session.
type Head struct {
	chunk.Record // its Data is not set

	Chunk chunk.Chunk         // the record decoded; without a body if it is malformed
	Input codec.InputPosition // of the record, the zero one if it has none
	Full  bool                // the session is at a limit of Config: a further run could store nothing but its end

	end logEnd
}

// Idle reports whether no run of the session is open.
func (h Head) Idle() bool { return h.end.idle() }

// ErrNoRecord reports a session without a record in the log.
var ErrNoRecord = errors.New("session has no record in the log")

// Head reads the last record of a session, with retries. Without one it returns ErrNoRecord, and a Head with the ordinal and epoch of the stored position.
func (p *Producer) Head(ctx context.Context, s chunk.Session) (Head, error) {
	log, err := p.newNATSLog(s)
	if err != nil {
		return Head{}, fmt.Errorf("%w: %w", chunk.ErrInvalid, err)
	}
	defer log.close()
	r := newRun(p.cfg, s, log, startOptions{})
	defer r.cancel()
	end, err := r.readLogEnd(ctx)
	if err != nil {
		return Head{}, jsclient.NoStorage(err)
	}
	if end.typ == "" {
		return Head{Record: chunk.Record{Session: s, Epoch: end.epoch, Ordinal: end.pos.Ordinal}, Full: p.cfg.isFull(end), end: end}, ErrNoRecord
	}
	h := Head{Record: end.rec, Input: end.input, Full: p.cfg.isFull(end), end: end}
	h.Chunk, err = end.rec.Decode()
	h.Data = nil
	if err != nil {
		h.Chunk = chunk.Chunk{}
	}
	return h, nil
}

// isFull reports whether a session can store no chunk after h.
func (c Config) isFull(h logEnd) bool {
	return c.overLimit(chunk.TypeTextDelta, h.pos.Ordinal+1, h.bytes+1) != nil
}

// TreeInput is what the sessions of a tree have of the input of a run.
type TreeInput struct {
	Furthest codec.InputPosition
	Open     []chunk.Session // whose last record is of the run and does not end it, also a paused one
	Complete bool            // false if there may be others
}

// TreeInput returns what the sessions below a root have of a run, as some replica of the log has them. The error is temporary if that replica does not have the
// record at a sequence yet.
func (p *Producer) TreeInput(ctx context.Context, root chunk.Session, run string, atLeast chunk.Seq) (t TreeInput, err error) {
	filter, err := p.cfg.Layout.Tree(root)
	if err != nil {
		return t, fmt.Errorf("%w: %w", chunk.ErrInvalid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AttemptTimeout)
	defer cancel()
	var size int
	upTo, err := p.client.LastOfEach(ctx, p.cfg.Layout.Stream(p.cfg.Layout.Partition(root)), []string{filter}, func(m jsclient.Message) {
		size += len(m.Data)
		at, ok := codec.InputOf(m.Header, m.Data)
		if !ok || at.Run != run {
			return
		}
		if at.Compare(t.Furthest) > 0 {
			t.Furthest = at
		}
		if s, err := p.cfg.Layout.Parse(m.Subject); err == nil {
			rec, err := codec.Decode(codec.Stored{Session: s, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
			if err == nil && !rec.Type.Terminal() {
				t.Open = append(t.Open, s)
			}
		}
	})
	if err == nil && chunk.Seq(upTo) < atLeast {
		err = fmt.Errorf("sequence %d: the replica has %d", atLeast, upTo)
	}
	t.Complete = size < treeBytes
	return t, err
}

// treeBytes is less than the server sends in one response.
const treeBytes = 512 << 10

// Continue returns a writer of the open or paused run whose last record is h, which Head has returned, with the epoch of that run. It writes nothing before the
// first chunk. The writers of one epoch fence each other: each stores a record only directly after the last one that it knows, and otherwise gets chunk.ErrFenced,
// a *FencedError whose By is the epoch itself. Then read the Head again.
//
// run is the id of the run. Continue completes the deletes of a cleanup that was interrupted.
func (p *Producer) Continue(ctx context.Context, h Head, run string) (*Run, error) {
	log, err := p.newNATSLog(h.Session)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", chunk.ErrInvalid, err)
	}
	o := startOptions{agentType: h.Chunk.AgentType}
	if o.agentType == "" {
		o.agentType = defaultAgentType
	}
	r := newRun(p.cfg, h.Session, log, o)
	r.epoch, r.continues, r.runID = h.Epoch, h.Epoch, run
	r.pos, r.sessionBytes = chunk.Position{Seq: h.end.next, Ordinal: h.end.pos.Ordinal}, h.end.bytes
	r.step.Store(h.Chunk.Step)
	r.state = stateAfter(h.Type)
	if h.Input.Run != "" {
		r.SetInput(h.Input)
		r.storedInput = h.Input
	}
	if err := p.addRun(r); err != nil {
		log.close()
		return nil, &notStoredError{Session: h.Session, Cause: err}
	}
	if err := r.finishCleanup(ctx, h.end); err != nil {
		return nil, errors.Join(&notStoredError{Session: h.Session, Cause: err}, r.Close())
	}
	return r, nil
}

func stateAfter(typ chunk.Type) state {
	switch typ {
	case chunk.TypeStreamPaused:
		return paused
	case chunk.TypeStreamEnd:
		return ended
	case chunk.TypeStreamFailed:
		return failed
	}
	return active
}
