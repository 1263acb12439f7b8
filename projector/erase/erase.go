package erase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Store is where snapshots are, as *kvstore.Store is one.
type Store interface {
	Load(ctx context.Context, s chunk.Session) (fold.Snapshot, projector.Revision, error)
	Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error)

	// Now is behind everything that is stored.
	Now(ctx context.Context) (projector.Revision, error)

	// Clear removes what a session has beside its grave of Revision r and was
	// stored before a place, and reports whether there was anything. When nobody
	// can add to that any more it lets the grave expire.
	Clear(ctx context.Context, grave fold.Snapshot, r, before projector.Revision) (bool, error)

	// Remains are the sessions under the root of s of which anything is stored.
	Remains(ctx context.Context, s chunk.Session) ([]chunk.Session, error)

	// Aged are heads that were saved before a time, in that order, and a place
	// to go on from; see kvstore.
	Aged(ctx context.Context, before time.Time, most int, after uint64) ([]projector.Aged, uint64, error)
}

// Config shapes an Eraser. The zero Config is ready for production.
type Config struct {
	// Layout names the streams.
	Layout subjects.Layout

	// TTL is how long a snapshot is kept when nobody writes to its session; it
	// must be longer than the log keeps records. Defaults to 0, for ever.
	TTL time.Duration

	// Turn, if not nil, does the sweeps of Run, or leaves one out because another
	// process has done it; see turns.
	Turn func(ctx context.Context, sweep func(context.Context) error) error

	// Log, if not nil, gets what goes wrong while sweeping.
	Log *slog.Logger
}

// Eraser deletes sessions. Its methods may be called concurrently, also for one
// session and from several processes. It holds nothing that would have to be
// closed.
type Eraser struct {
	js    jetstream.JetStream
	api   *jsapi.API
	store Store
	queue *commands.Queue
	inbox *inbox.Box
	cfg   Config
	now   func() time.Time // replaced by tests, for which two minutes are long
}

// New makes an Eraser. It does not ask the server for anything. The error names
// the field of cfg that is wrong.
func New(js jetstream.JetStream, store Store, cfg Config) (*Eraser, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	if cfg.TTL < 0 {
		return nil, fmt.Errorf("TTL is %s, want 0 (for ever) or more", cfg.TTL)
	}
	if cfg.Turn == nil {
		cfg.Turn = func(ctx context.Context, sweep func(context.Context) error) error { return sweep(ctx) }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	queue, err := commands.New(js, commands.Config{Layout: cfg.Layout, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(js, inbox.Config{Layout: cfg.Layout})
	if err != nil {
		return nil, err
	}
	return &Eraser{js: js, api: jsapi.New(js), store: store, queue: queue, inbox: box, cfg: cfg, now: time.Now}, nil
}

// Delete removes s, and if it is a root all sessions of its tree. After nil
// nothing of them is left but what says so to those who come late. The error is
// chunk.ErrUnknownSession when there is nothing; after any other some of it may
// be left: delete again. A sub-agent that is called by a run which has not
// noticed yet that it is fenced is a new session; it is found as long as others
// are.
func (e *Eraser) Delete(ctx context.Context, s chunk.Session) error {
	if err := subjects.CheckSession(s); err != nil {
		return err
	}
	found, done := false, make(map[chunk.Session]bool)
	for next := []chunk.Session{s}; len(next) > 0; {
		for _, one := range next {
			was, err := e.one(ctx, one)
			if err != nil {
				return fmt.Errorf("delete %s: %w", one, err)
			}
			found, done[one] = found || was, true
		}
		var err error
		if next, err = e.others(ctx, s, done); err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
	}
	if !found {
		return chunk.ErrUnknownSession
	}
	return nil
}

// others are the sessions of the tree of a root that are not done.
func (e *Eraser) others(ctx context.Context, s chunk.Session, done map[chunk.Session]bool) ([]chunk.Session, error) {
	if s != s.Tree() {
		return nil, nil
	}
	all, err := e.store.Remains(ctx, s)
	if err != nil {
		return nil, err
	}
	filter, err := e.cfg.Layout.Tree(s)
	if err != nil {
		return nil, err
	}
	stream, err := e.js.Stream(ctx, e.stream(s))
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		if session, err := e.cfg.Layout.Parse(subject); err == nil {
			all = append(all, session)
		}
	}
	var others []chunk.Session
	seen := make(map[chunk.Session]bool)
	for _, one := range all {
		if !done[one] && !seen[one] {
			seen[one] = true
			others = append(others, one)
		}
	}
	return others, nil
}

func (e *Eraser) stream(s chunk.Session) string {
	return e.cfg.Layout.Stream(e.cfg.Layout.Partition(s))
}

// one deletes one session and reports whether there was anything.
func (e *Eraser) one(ctx context.Context, s chunk.Session) (bool, error) {
	d := deletion{Eraser: e, session: s}
	var err error
	if d.subject, err = e.cfg.Layout.Subject(s); err != nil {
		return false, err
	}
	// First what would begin it anew: a command comes again when its worker is
	// fenced, and another worker would find a log that it may go on with.
	withdrawn, err := e.queue.Withdraw(ctx, s)
	if err != nil {
		return false, err
	}
	if err := d.end(ctx); err != nil {
		return false, err
	}
	if err := d.strays(ctx); err != nil {
		return false, err
	}
	if err := d.bury(ctx); err != nil {
		return false, err
	}
	if d.last.Seq > 0 {
		n, err := e.api.PurgeWithin(ctx, patience, e.stream(s), d.subject, uint64(d.last.Seq))
		if err != nil {
			return false, fmt.Errorf("purge the log: %w", err)
		}
		d.found = d.found || n > 0
	}
	if err := d.copies(ctx); err != nil {
		return false, err
	}
	if d.revision == 0 {
		return d.found || withdrawn, nil // nobody has heard of it
	}
	cleared, err := e.store.Clear(ctx, d.grave, d.revision, d.revision)
	return d.found || withdrawn || cleared, err
}

// archives removes the copy of the log. It comes after the log: who is writing
// one meanwhile looks there afterwards, and removes it himself.
func (d *deletion) archives(ctx context.Context) error {
	keys, err := archive.Keys(d.cfg.Layout, d.session)
	if err != nil {
		return err
	}
	if _, err := d.api.PurgeWithin(ctx, patience, archive.Stream(d.cfg.Layout), keys, 0); err != nil {
		return fmt.Errorf("purge the archive: %w", err)
	}
	return nil
}

// letters removes the messages of the session that could not be folded: they have
// what people said, too.
func (d *deletion) letters(ctx context.Context) error {
	letters, err := d.cfg.Layout.DeadLetters(d.session)
	if err != nil {
		return err
	}
	if _, err := d.api.PurgeWithin(ctx, patience, d.cfg.Layout.DeadLetterStream(), letters, 0); err != nil {
		return fmt.Errorf("purge the dead letters: %w", err)
	}
	return nil
}

// deletion is the deletion of one session.
type deletion struct {
	*Eraser

	session  chunk.Session
	subject  string
	last     chunk.Position // the record that ends it, zero when there is nothing
	epoch    chunk.Epoch    // of that
	grave    fold.Snapshot
	revision projector.Revision // of the grave
	found    bool
}

const (
	// farewell is how long the last record stays: until everybody who is attached
	// has got it, also through an edge that had to connect anew.
	farewell = 2 * time.Minute

	attempts = 5

	// patience is how long a purge waits for a stream that has no leader.
	patience = 10 * time.Second
)

// end writes the last record of the log, unless it is there already or there is
// nothing to end.
func (d *deletion) end(ctx context.Context) error {
	for failures := 0; ; {
		at, isEnd, err := d.look(ctx)
		if err != nil || isEnd {
			return err
		}
		d.found = true
		err = d.write(ctx, at)
		if err == nil {
			continue // look at it: that gives its place
		}
		if failures++; failures == attempts && !isConflict(err) || ctx.Err() != nil {
			return fmt.Errorf("end the log: %w", err)
		}
	}
}

// place is where a session stands.
type place struct {
	seq     uint64 // of its last message
	ordinal chunk.Ordinal
	epoch   chunk.Epoch
}

// look finds where the session stands: by its log, or, when that has forgotten,
// by its head. It is at its end when its last record says so, or when there is
// neither a record nor a head.
func (d *deletion) look(ctx context.Context) (p place, isEnd bool, err error) {
	head, revision, err := d.store.Load(ctx, d.session)
	if err != nil && revision == 0 && !errors.Is(err, projector.ErrNoSnapshot) {
		return p, false, err
	}
	p.ordinal, p.epoch = head.Position.Ordinal, head.Epoch
	m, err := d.api.Last(ctx, d.stream(d.session), d.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		if head.Deleted() {
			d.last, d.epoch = chunk.Position{}, head.Epoch
		}
		return p, revision == 0 || head.Deleted(), nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read the log: %w", err)
	}
	p.seq = m.Seq
	rec, notOurs := codec.Decode(d.session, chunk.Seq(m.Seq), m.Time, m.Header, m.Data)
	if notOurs != nil {
		return p, false, nil //nolint:nilerr // a message of somebody else: the head knows best
	}
	p.ordinal, p.epoch = max(p.ordinal, rec.Ordinal), max(p.epoch, rec.Epoch)
	if isFarewell(rec) {
		d.last, d.epoch = rec.Position(), rec.Epoch
		return p, true, nil
	}
	return p, false, nil
}

func isFarewell(rec chunk.Record) bool {
	if rec.Type != chunk.TypeStreamFailed {
		return false
	}
	c, err := rec.Decode()
	if err != nil {
		return false
	}
	failed, ok := c.Body.(chunk.StreamFailed)
	return ok && failed.ErrorDetail != nil && failed.ErrorDetail.Code != nil && *failed.ErrorDetail.Code == chunk.CodeSessionDeleted
}

// write puts the last record behind a place.
func (d *deletion) write(ctx context.Context, at place) error {
	why, text := chunk.CodeSessionDeleted, "the session was deleted"
	c := chunk.Chunk{
		AgentID: d.session.ID, AgentType: "tailrace", Timestamp: time.Now().UnixMilli(),
		Body: chunk.StreamFailed{Error: text, ErrorDetail: &chunk.ErrorDetail{Message: text, Code: &why}},
	}
	m, err := codec.Encode(d.session, at.epoch+1, at.ordinal+1, c, codec.FormatJSON)
	if err != nil {
		return err
	}
	_, err = d.js.PublishMsg(ctx, &nats.Msg{Subject: d.subject, Header: m.Header, Data: m.Data},
		jetstream.WithExpectLastSequencePerSubject(at.seq), jetstream.WithMsgTTL(farewell))
	return err
}

// isConflict: the writer was faster. It is soon the other way round.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10071 || api.ErrorCode == 10164)
}

// strays looks for what is stored of a session that has neither log nor head: a
// projector died between messages and head when the rest was deleted.
func (d *deletion) strays(ctx context.Context) error {
	if d.found || d.epoch != 0 {
		return nil
	}
	remains, err := d.store.Remains(ctx, d.session)
	d.found = slices.Contains(remains, d.session)
	return err
}

// bury puts the grave where the head is, whatever that is by now.
func (d *deletion) bury(ctx context.Context) error {
	for {
		head, revision, err := d.store.Load(ctx, d.session)
		switch {
		case err != nil && revision == 0 && !errors.Is(err, projector.ErrNoSnapshot):
			return err
		case err == nil && head.Deleted() && head.Position.Ordinal >= d.last.Ordinal:
			d.grave, d.revision = head, revision
			return nil
		case d.last == (chunk.Position{}) && !d.found:
			return nil // nothing to bury
		}
		d.grave = fold.Grave(d.session, d.last, d.epoch)
		d.found = d.found || revision != 0 && !head.Deleted()
		d.revision, err = d.store.Save(ctx, d.grave, revision)
		if !errors.Is(err, projector.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
