package retention

import (
	"cmp"
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
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// SnapshotStore holds the snapshots. *jssnapshots.Store implements it.
type SnapshotStore interface {
	projector.Store

	// NextRevision returns a revision that is higher than that of every stored value of a session.
	NextRevision(ctx context.Context, s chunk.Session) (projector.Revision, error)

	// DeleteData removes the data of a session, other than its tombstone of Revision r, that was stored before a revision, and reports whether there was
	// any. With expire, because no process can add to the data any more, it sets the TTL of the tombstone.
	DeleteData(ctx context.Context, tombstone fold.Snapshot, r, before projector.Revision, expire bool) (bool, error)

	// DeleteEarlier removes what a session had before it was deleted and started again: life is the time of its first record now, in milliseconds. The epoch is
	// that of its first run, or of the deletion; 0 if it is not known. An object that a process began to write after a time is left, for it may be in use soon.
	DeleteEarlier(ctx context.Context, s chunk.Session, life int64, first chunk.Epoch, begun time.Time) error

	// StoredSessions returns the sessions under the root of s that have stored data.
	StoredSessions(ctx context.Context, s chunk.Session) ([]chunk.Session, error)

	// Forks returns the sessions that may be forks of a root session, and RemoveFork forgets one that was deleted.
	Forks(ctx context.Context, origin chunk.Session) ([]chunk.Session, error)
	RemoveFork(ctx context.Context, origin, fork chunk.Session) error

	// MaxAge returns the age since the last write at which the snapshot of a session is removed, 0 for unlimited. It exceeds the retention of the log.
	MaxAge(ctx context.Context) (time.Duration, error)

	// HeadsSavedBefore returns up to limit heads that were saved before a time, and the position of the next page; see jssnapshots.
	HeadsSavedBefore(ctx context.Context, before time.Time, limit int, after uint64) ([]projector.ExpiredHead, uint64, error)
}

// EraserConfig configures an Eraser. The zero EraserConfig is ready for production.
type EraserConfig struct {
	// Layout names the streams.
	Layout subjects.Layout

	// ChildDeleted, if not nil, is called with the parent of a sub-agent that was deleted alone: its call waits for the sub-agent.
	ChildDeleted func(ctx context.Context, parent chunk.Session) error

	// Expired, if not nil, is called for each session that is removed because of its age.
	Expired func()

	// Log, if not nil, gets the warnings of the queue of commands and of sweeps.
	Log *slog.Logger
}

// Eraser deletes sessions. Its methods may be called concurrently, also for one session and from several processes. It holds no resources.
type Eraser struct {
	client *jsclient.Client
	store  SnapshotStore
	reader *projector.Reader
	queue  *jscontrol.Queue
	inbox  *jscontrol.Inbox
	values *jsvalues.Store
	cfg    EraserConfig
	by     *chunk.Principal // the client that requests the deletion; nil if it is not known
	log    *slog.Logger
	host   func() time.Time // time.Now, another one in tests
}

// NewEraser returns an Eraser. It does not call the server. The error names the invalid field of cfg.
func NewEraser(js jetstream.JetStream, store SnapshotStore, cfg EraserConfig) (*Eraser, error) {
	if err := checkLayout(cfg.Layout); err != nil {
		return nil, err
	}
	queue, noQueue := jscontrol.NewQueue(js, jscontrol.QueueConfig{Layout: cfg.Layout, Log: cfg.Log})
	box, noBox := jscontrol.NewInbox(js, jscontrol.InboxConfig{Layout: cfg.Layout})
	log, noLog := consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log})
	if err := cmp.Or(noQueue, noBox, noLog); err != nil {
		return nil, err
	}
	client := jsclient.New(js)
	return &Eraser{client: client, values: jsvalues.New(client, cfg.Layout), store: store, reader: projector.NewReader(store, log), queue: queue, inbox: box, cfg: cfg, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), host: time.Now}, nil
}

// DeleteBy is Delete, with the client that requested it in the deletion record of each session.
func (e *Eraser) DeleteBy(ctx context.Context, s chunk.Session, by *chunk.Principal) error {
	bound := *e
	bound.by = by
	return bound.Delete(ctx, s)
}

// Delete removes s, the sub-agents that its open calls wait for, and if s is a root all sessions of its tree. After a nil error only the tombstones and last
// records remain, and for a moment what a projector or worker was writing: an object of a projector that was saving the session, which it removes when it finds
// the tombstone, and what the next sweep removes. The error is chunk.ErrUnknownSession if there is no such session. After any other error some data may remain:
// call Delete again. If a run that is fenced but has not noticed it yet calls a sub-agent, that is a new session; Delete also finds it as long as it finds other
// sessions of the tree, and a worker does not start it.
func (e *Eraser) Delete(ctx context.Context, s chunk.Session) error {
	if err := names.CheckSession(s); err != nil {
		return err
	}
	parent, err := e.parentOf(ctx, s)
	if err != nil {
		return err
	}
	found, done := false, make(map[chunk.Session]bool)
	for next := []chunk.Session{s}; len(next) > 0; {
		for _, one := range next {
			was, err := e.branch(ctx, one, false, done)
			if err != nil {
				return fmt.Errorf("delete %s: %w", one, err)
			}
			found = found || was
		}
		if next, err = e.others(ctx, s, done); err != nil {
			return fmt.Errorf("delete %s: %w", s, err)
		}
	}
	if !found {
		return chunk.ErrUnknownSession
	}
	if parent != (chunk.Session{}) && e.cfg.ChildDeleted != nil {
		return e.cfg.ChildDeleted(ctx, parent)
	}
	return nil
}

// parentOf returns the session whose call waits for the sub-agent s, zero if it is not known or s is a root.
func (e *Eraser) parentOf(ctx context.Context, s chunk.Session) (parent chunk.Session, err error) {
	if s == s.Tree() {
		return parent, nil
	}
	snap, err := e.head(ctx, s)
	if err == nil && snap.Run.Parent != nil {
		parent = s.Child(snap.Run.Parent.SessionID)
	}
	return parent, err
}

// branch deletes a session after the sub-agents that its open calls wait for, which may have nothing but a command: a process that crashes between them finds
// them again. A sub-agent is awaited: a worker may be about to start it. It reports whether there was any data.
func (e *Eraser) branch(ctx context.Context, s chunk.Session, awaited bool, done map[chunk.Session]bool) (found bool, err error) {
	if done[s] {
		return false, nil
	}
	done[s] = true
	snap, err := e.head(ctx, s)
	if err != nil {
		return false, err
	}
	for _, call := range snap.OpenCalls() {
		if call.Child == nil || names.CheckSession(s.Child(call.Child.Session)) != nil {
			continue
		}
		was, err := e.branch(ctx, s.Child(call.Child.Session), true, done)
		if err != nil {
			return found, err
		}
		found = found || was
	}
	was, err := e.one(ctx, s, awaited, runsOf(snap))
	if err == nil {
		err = e.forgetFork(ctx, snap)
	}
	return found || was, err
}

// head returns the snapshot of a session without its messages. That of a session that does not exist is empty, and that of one whose records cannot be folded
// has what could be: it is deleted nevertheless, and a worker does not start a sub-agent that no call waits for.
func (e *Eraser) head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := e.reader.Head(ctx, s)
	if err == nil || ctx.Err() != nil || errors.Is(err, chunk.ErrUnknownSession) {
		return snap, ctx.Err()
	}
	e.log.WarnContext(ctx, "open calls of a deleted session not known", slog.String("session", s.String()), slog.Any("error", err))
	return snap, nil
}

// others returns the sessions of the tree of a root that are not done, some twice.
func (e *Eraser) others(ctx context.Context, s chunk.Session, done map[chunk.Session]bool) ([]chunk.Session, error) {
	if s != s.Tree() {
		return nil, nil
	}
	all, err := e.store.StoredSessions(ctx, s)
	if err != nil {
		return nil, err
	}
	filter, err := e.cfg.Layout.Tree(s)
	if err != nil {
		return nil, err
	}
	state, err := e.client.State(ctx, e.stream(s), filter)
	if err != nil {
		return nil, err
	}
	for subject := range state.Subjects {
		if session, err := e.cfg.Layout.Parse(subject); err == nil {
			all = append(all, session)
		}
	}
	return slices.DeleteFunc(all, func(one chunk.Session) bool { return done[one] }), nil
}

func (e *Eraser) stream(s chunk.Session) string {
	return e.cfg.Layout.Stream(e.cfg.Layout.Partition(s))
}

// one deletes one session and reports whether there was any data. With fence, it appends a record although there may be no data. The uploads for its runs are removed,
// and those for its commands and messages that wait.
func (e *Eraser) one(ctx context.Context, s chunk.Session, fence bool, runs []string) (bool, error) {
	d := deletion{Eraser: e, session: s}
	var err error
	if d.subject, err = e.cfg.Layout.Subject(s); err != nil {
		return false, err
	}
	// Before them the messages that wait: a process that finds the end of the log would request their runs.
	waiting, err := e.inbox.Queued(ctx, s)
	if err != nil {
		return false, err
	}
	for _, q := range waiting {
		runs = append(runs, q.Command.RunID)
	}
	if err := e.inbox.DeleteQueued(ctx, s); err != nil {
		return false, err
	}
	// First the commands, which could restart the session: a command is redelivered when its worker is fenced, and another worker would resume the
	// session from the log. A worker that has got a command before, and has read that there is no data, is fenced by a record. It is appended before the
	// command is removed, so that the next Delete finds it if this process dies then, and after that, for a worker that has read the first one.
	queued, err := e.queue.SessionCommands(ctx, s)
	if err != nil {
		return false, err
	}
	for _, c := range queued {
		runs = append(runs, c.RunID)
	}
	if d.fence = fence || len(queued) > 0; d.fence {
		if err := d.end(ctx); err != nil {
			return false, err
		}
	}
	if d.fence, err = e.queue.DeleteSession(ctx, s); err != nil {
		return false, err
	}
	d.found = d.found || d.fence
	if err := d.end(ctx); err != nil {
		return false, err
	}
	if err := d.orphans(ctx); err != nil {
		return false, err
	}
	if err := d.writeTombstone(ctx); err != nil {
		return false, err
	}
	if d.last.Seq > 0 {
		purged, err := e.purge(ctx, "log", e.stream(s), d.subject, uint64(d.last.Seq))
		if err != nil {
			return false, err
		}
		d.found = d.found || purged
	}
	if err := errors.Join(e.purgeCopies(ctx, s), e.values.DeleteUploads(ctx, s, runs)); err != nil {
		return false, err
	}
	if d.revision == 0 {
		return d.found, nil // unknown session
	}
	cleared, err := e.store.DeleteData(ctx, d.tombstone, d.revision, d.revision, false)
	return d.found || cleared, err
}

// purgeCopies removes the dead letters of a session, and the inbox of its runs. Commands stay: one may be for a new run of the session.
func (e *Eraser) purgeCopies(ctx context.Context, s chunk.Session) error {
	layout := e.cfg.Layout
	deadLetters, err := names.Layout(layout).DeadLetters(s)
	if err != nil {
		return err
	}
	if _, err := e.purge(ctx, "dead letters", names.Layout(layout).DeadLetterStream(), deadLetters, 0); err != nil {
		return err
	}
	_, err = e.inbox.DeleteSession(ctx, s)
	return err
}

// purge removes the messages of a subject or filter below a sequence, 0 for all, and reports whether there were any.
func (e *Eraser) purge(ctx context.Context, what, stream, filter string, below uint64) (bool, error) {
	n, err := e.client.PurgeRetry(ctx, retryTimeout, stream, filter, below)
	if err != nil {
		return false, fmt.Errorf("purge the %s: %w", what, err)
	}
	return n > 0, nil
}

// deletion is the deletion of one session.
type deletion struct {
	*Eraser

	session   chunk.Session
	subject   string
	last      chunk.Position // of the last record, zero if the log is empty
	epoch     chunk.Epoch    // of the last record
	tombstone fold.Snapshot
	revision  projector.Revision // of the tombstone
	found     bool

	// fence says that a worker may be about to start a run after the end that it has read: that there is nothing, or a deletion record. The next record makes
	// it look again.
	fence bool

	// interrupted says that the log ends with a deletion record without a tombstone: another process has removed commands, and may have died before it could
	// append the second record.
	interrupted bool
}

// deletionRecordTTL is how long the record stays in the log, which may have a lower maximum age. It fences a writer that is stalled, and every attached reader gets
// it, also through an edge that has to reconnect. A consumer of all records that was stopped for less reads it and deletes its copy. The tombstone stays longer: for
// 72 hours, which begin with a sweep.
const deletionRecordTTL = 48 * time.Hour

// end appends the last record to the log, unless it is there already or the session does not exist.
func (d *deletion) end(ctx context.Context) error {
	for first := true; ; first = false {
		at, isEnd, err := d.locate(ctx)
		if err != nil || isEnd && (!first || !d.interrupted) {
			return err
		}
		d.found = true
		// After a nil error locate reads the position of the record; after a conflict, the new end of the log.
		err = d.write(ctx, at)
		d.fence = d.fence && err != nil
		if err != nil && (!errors.Is(err, jsclient.ErrConflict) || ctx.Err() != nil) {
			return fmt.Errorf("end the log: %w", err)
		}
	}
}

// sessionEnd is the end of a session.
type sessionEnd struct {
	seq     uint64 // of its last message
	ordinal chunk.Ordinal
	epoch   chunk.Epoch
	input   codec.InputPosition // of the last message
}

// locate returns the end of the session from its log, or from its snapshot head if the log has no record of it. isEnd reports that nothing is to be fenced, and
// that the last record is the deletion record, or that the session has neither a record nor a head.
func (d *deletion) locate(ctx context.Context) (p sessionEnd, isEnd bool, err error) {
	head, revision, err := d.store.Load(ctx, d.session)
	if err != nil && revision == 0 && !errors.Is(err, projector.ErrNoSnapshot) {
		return p, false, err
	}
	p.ordinal, p.epoch = head.Position.Ordinal, head.Epoch
	m, err := d.client.Last(ctx, d.stream(d.session), d.subject)
	if errors.Is(err, jsclient.ErrNotFound) {
		if head.Deleted() {
			d.last, d.epoch = chunk.Position{}, head.Epoch
		}
		return p, !d.fence && (revision == 0 || head.Deleted()), nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read the log: %w", err)
	}
	p.seq = m.Seq
	p.input, _ = codec.InputOf(m.Header, m.Data)
	rec, malformed := codec.Decode(codec.Stored{Session: d.session, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
	if malformed != nil {
		return p, false, nil //nolint:nilerr // a malformed message has no position; that of the head applies
	}
	p.ordinal, p.epoch = max(p.ordinal, rec.Ordinal), max(p.epoch, rec.Epoch)
	if rec.IsDeletion() {
		d.last, d.epoch = rec.Position(), rec.Epoch
		d.interrupted = !head.Deleted() || head.Position.Ordinal < rec.Ordinal
		return p, !d.fence, nil
	}
	return p, false, nil
}

// write appends the last record to the log, by compare-and-set with its end.
func (d *deletion) write(ctx context.Context, at sessionEnd) error {
	code, text := chunk.CodeSessionDeleted, "the session was deleted"
	c := chunk.Chunk{
		AgentID: d.session.ID, AgentType: "tailrace", Timestamp: time.Now().UnixMilli(),
		Body:  chunk.StreamFailed{Error: text, ErrorDetail: &chunk.ErrorDetail{Message: text, Code: &code}},
		Extra: control.ByMember(d.by),
	}
	m, err := codec.Encode(codec.Envelope{Session: d.session, Epoch: at.epoch + 1, Ordinal: at.ordinal + 1}, c)
	if err != nil {
		return err
	}
	if at.input.Run != "" { // a client that repeats the lines of the run must not store them again
		m.SetInput(at.input)
	}
	msg := &nats.Msg{Subject: d.subject, Header: nats.Header(m.Header), Data: m.Data}
	msg.Header.Set(jetstream.MsgTTLHeader, deletionRecordTTL.String())
	_, err = d.client.Put(ctx, jsclient.Put{Msg: msg, ExpectedSeq: &at.seq, RetryTimeout: retryTimeout})
	return err
}

// orphans looks for data of a session that has neither log nor head: a projector crashed after it had saved messages and before it saved the head, while
// the rest was deleted.
func (d *deletion) orphans(ctx context.Context) error {
	if d.found || d.epoch != 0 {
		return nil
	}
	stored, err := d.store.StoredSessions(ctx, d.session)
	if d.found = slices.Contains(stored, d.session); err != nil || !d.found {
		return err
	}
	d.fence = true // the sweep knows a session that starts again by its first ordinal
	return d.end(ctx)
}

// writeTombstone replaces the head by the tombstone, whatever the head is by then.
func (d *deletion) writeTombstone(ctx context.Context) error {
	for {
		head, revision, err := d.store.Load(ctx, d.session)
		switch {
		case err != nil && revision == 0 && !errors.Is(err, projector.ErrNoSnapshot):
			return err
		case err == nil && head.Deleted() && head.Position.Ordinal >= d.last.Ordinal:
			d.tombstone, d.revision = head, revision
			return nil
		case d.last == (chunk.Position{}) && !d.found:
			return nil // no data, no tombstone
		}
		d.tombstone = fold.NewTombstone(d.session, d.last, d.epoch)
		d.found = d.found || revision != 0 && !head.Deleted()
		d.revision, err = d.store.Save(ctx, d.tombstone, revision)
		if !errors.Is(err, projector.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
