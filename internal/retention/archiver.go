package retention

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// ArchiverConfig configures an Archiver. The zero ArchiverConfig is ready for production.
type ArchiverConfig struct {
	// Layout names the log and the bucket.
	Layout subjects.Layout

	// MinAge is the time since the end of a session after which Sweep archives it. Defaults to 24 hours.
	MinAge time.Duration

	// MinMessages is the smallest number of messages of a session that Sweep archives: a few are read from the log as quickly. Defaults to 200.
	MinMessages int

	// RetryTimeout is the retry budget of one request. After that, the archive or the sweep fails. Defaults to 30 seconds.
	RetryTimeout time.Duration

	// Log, if not nil, gets the reasons why sessions are not archived.
	Log *slog.Logger
}

func (c ArchiverConfig) withDefaults() ArchiverConfig {
	if c.MinAge == 0 {
		c.MinAge = 24 * time.Hour
	}
	if c.MinMessages == 0 {
		c.MinMessages = 200
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = 30 * time.Second
	}
	c.Log = orDiscard(c.Log)
	return c
}

func (c ArchiverConfig) validate() error {
	switch {
	case c.MinAge < 0:
		return fmt.Errorf("MinAge is %s, want more than 0", c.MinAge)
	case c.MinMessages < 1:
		return fmt.Errorf("MinMessages is %d, want at least 1", c.MinMessages)
	case c.RetryTimeout < 0:
		return fmt.Errorf("RetryTimeout is %s, want more than 0", c.RetryTimeout)
	}
	return checkLayout(c.Layout)
}

// Archiver writes archives. Its methods may be called concurrently, and several Archivers may work on the same log. It holds no resources.
type Archiver struct {
	cfg    ArchiverConfig
	client *jsclient.Client
	reader *consumers.Reader // of the log only

	mu            sync.Mutex        // guards notArchivable
	notArchivable map[string]uint64 // by subject: sessions that Sweep could not archive, and their last message then
}

// NewArchiver returns an Archiver. It does not call the server. The error names the invalid field of cfg.
func NewArchiver(js jetstream.JetStream, cfg ArchiverConfig) (*Archiver, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	reader, err := consumers.New(js, consumers.Config{
		Layout: cfg.Layout, Log: cfg.Log,
		OnMalformed: func(consumers.Malformed) {}, // readers of the session report it; here it only prevents the archive
	})
	if err != nil {
		return nil, err
	}
	return &Archiver{cfg: cfg, client: jsclient.New(js), reader: reader, notArchivable: make(map[string]uint64)}, nil
}

// ErrNotArchivable reports a session that cannot be archived: a part of its log cannot be read, because the first records have expired, records are missing
// or messages are malformed; or the session has changed meanwhile.
var ErrNotArchivable = errors.New("session cannot be archived")

// Archive archives the present log of s, whether or not a run is open, unless the archive has it already. It reports whether it wrote an archive. The errors
// are ErrNotArchivable, chunk.ErrUnknownSession, and those of NATS: a refusal, or no response within RetryTimeout.
func (c *Archiver) Archive(ctx context.Context, s chunk.Session) (bool, error) {
	j, err := c.job(s)
	if err != nil {
		return false, err
	}
	if err := j.begin(ctx); err != nil {
		return false, err
	}
	if j.fits(j.old, j.before) {
		return false, nil
	}
	return true, j.run(ctx)
}

// archiveJob is one session being archived.
type archiveJob struct {
	*Archiver

	session  chunk.Session
	log      string // stream of the log
	subject  string // in it
	stream   string // of the bucket
	index    string // subject of the index in it
	segments string // subject of the segments

	revision uint64 // of the old index, 0 when there is none
	found    *archive.Index
	old      *archive.Index // found, if it is complete
	before   logState
	written  []uint64 // segments that this job has stored
}

// logState is the state of a session in the log, as the leader has it.
type logState struct {
	created  time.Time
	messages uint64
	last     jsclient.Message
}

func (c *Archiver) job(s chunk.Session) (*archiveJob, error) {
	l := c.cfg.Layout
	j := &archiveJob{Archiver: c, session: s, log: l.Stream(l.Partition(s)), stream: archive.Stream(l)}
	var err error
	if j.subject, err = l.Subject(s); err != nil {
		return nil, err
	}
	if j.index, err = archive.IndexKey(l, s); err != nil {
		return nil, err
	}
	j.segments, err = archive.SegmentsKey(l, s)
	return j, err
}

// begin reads the archive and the state of the log.
func (j *archiveJob) begin(ctx context.Context) (err error) {
	if err = j.readIndex(ctx); err == nil {
		j.before, err = j.readTail(ctx)
	}
	return err
}

// readIndex reads the present archive. An archive that cannot be read, or with a missing or extra segment, is replaced.
func (j *archiveJob) readIndex(ctx context.Context) error {
	m, err := j.client.LastRetry(ctx, j.cfg.RetryTimeout, j.stream, j.index)
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read archive of %s: %w", j.session, err)
	}
	j.revision = m.Seq
	if j.found, err = archive.ReadIndex(m.Data); err != nil {
		j.cfg.Log.Debug("archive unreadable", slog.Any("session", j.session), slog.Any("error", err))
		return nil
	}
	counts, err := j.counts(ctx, j.stream, j.segments)
	if err == nil && counts[j.segments] == uint64(len(j.found.Segments)) {
		j.old = j.found
	}
	return err
}

// readTail reads the number of messages, and then the last one.
func (j *archiveJob) readTail(ctx context.Context) (logState, error) {
	info, err := j.state(ctx, j.log, j.subject)
	if err != nil {
		return logState{}, err
	}
	last, err := j.client.LastRetry(ctx, j.cfg.RetryTimeout, j.log, j.subject)
	if errors.Is(err, jsclient.ErrNotFound) {
		return logState{}, chunk.ErrUnknownSession
	}
	return logState{created: info.Created, messages: info.Subjects[j.subject], last: last}, err
}

func (j *archiveJob) fits(x *archive.Index, now logState) bool {
	return x != nil && x.MatchesLog(now.created, now.messages, lastMessage(now.last))
}

func lastMessage(m jsclient.Message) archive.LastMessage {
	return archive.LastMessage{Seq: chunk.Seq(m.Seq), Stored: m.Stored.UnixNano()}
}

// run writes the segments, checks that they are what the log has, and then replaces the index. A process that crashes before that leaves segments that no
// index names; the next process that archives the session removes them.
func (j *archiveJob) run(ctx context.Context) error {
	x, err := j.pack(ctx)
	if err == nil {
		err = j.check(ctx, x)
	}
	if err == nil {
		err = j.commit(ctx, x)
	}
	if errors.Is(err, ErrNotArchivable) {
		return errors.Join(err, j.remove(ctx, j.written))
	}
	if err != nil {
		return err // the index may be stored, and name the segments of this job
	}
	return j.after(ctx, x)
}

// pack reads the session and stores those of its segments that are not stored yet.
func (j *archiveJob) pack(ctx context.Context) (*archive.Index, error) {
	x := archive.NewIndex(j.before.created, lastMessage(j.before.last))
	var p archive.Packer
	last := chunk.Seq(0)
	for rec, err := range j.reader.Replay(ctx, chunk.Range{Session: j.session}) {
		if errors.Is(err, chunk.ErrTruncated) {
			return nil, fmt.Errorf("%w: %w", ErrNotArchivable, err)
		}
		if err != nil {
			return nil, err
		}
		last = rec.Seq
		x.Messages++
		if full, ok := p.Add(rec); ok {
			if err := j.keep(ctx, x, full); err != nil {
				return nil, err
			}
		}
	}
	// The reader skips malformed messages, and may return a record that has just been deleted. So the number of records must be the number of messages
	// before, which proves that there was nothing else, and after (see check), which proves that all of them are still there.
	if x.Messages != j.before.messages || last != x.Last.Seq {
		return nil, fmt.Errorf("%w: %d records through %d of %d messages through %d", ErrNotArchivable, x.Messages, last, j.before.messages, x.Last.Seq)
	}
	if rest, ok := p.Flush(); ok {
		return x, j.keep(ctx, x, rest)
	}
	return x, nil
}

// keep adds a segment to the index, and stores it unless the old index has the same.
func (j *archiveJob) keep(ctx context.Context, x *archive.Index, p archive.Packed) error {
	if i := len(x.Segments); j.old != nil && i < len(j.old.Segments) {
		same := j.old.Segments[i]
		p.Seq = same.Seq
		if same == p.Segment {
			x.Segments = append(x.Segments, same)
			return nil
		}
	}
	at, err := j.client.Put(ctx, j.message(j.segments, p.Data))
	if err != nil {
		return fmt.Errorf("archive %s: %w", j.session, err)
	}
	p.Seq = at
	j.written = append(j.written, at)
	x.Segments = append(x.Segments, p.Segment)
	return nil
}

// check compares the archive with the present log.
func (j *archiveJob) check(ctx context.Context, x *archive.Index) error {
	now, err := j.readTail(ctx)
	if err != nil {
		return err
	}
	if !j.fits(x, now) {
		return fmt.Errorf("%w: the log has changed", ErrNotArchivable)
	}
	return nil
}

// commit replaces the index that begin has found.
func (j *archiveJob) commit(ctx context.Context, x *archive.Index) error {
	data, err := x.Bytes()
	if err != nil {
		return err
	}
	p := j.message(j.index, data)
	p.Msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	p.ExpectedSeq = &j.revision
	_, err = j.client.Put(ctx, p)
	if errors.Is(err, jsclient.ErrConflict) {
		return j.resolveConflict(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", j.session, err)
	}
	return nil
}

// message returns a message with an id, so that it can be sent more than once.
func (j *archiveJob) message(subject string, data []byte) jsclient.Put {
	header := nats.Header{jetstream.MsgIDHeader: {rand.Text()}}
	return jsclient.Put{
		Msg:    &nats.Msg{Subject: j.client.PublishSubject(subject), Header: header, Data: data},
		Stream: j.stream, RetryTimeout: j.cfg.RetryTimeout,
	}
}

// resolveConflict decides what a conflict of the index means: an earlier attempt was stored and the response was lost, or another process archives the
// session. That process may have found the index of this job meanwhile and reused its segments; those must stay.
func (j *archiveJob) resolveConflict(ctx context.Context, written []byte) error {
	m, err := j.client.LastRetry(ctx, j.cfg.RetryTimeout, j.stream, j.index)
	if err != nil && !errors.Is(err, jsclient.ErrNotFound) {
		return fmt.Errorf("read archive of %s: %w", j.session, err)
	}
	if bytes.Equal(m.Data, written) {
		return nil
	}
	if err == nil {
		other, err := archive.ReadIndex(m.Data)
		if err != nil { // of a later version: a process that can read it removes the segments
			return fmt.Errorf("check archive of %s: %w", j.session, err)
		}
		for _, segment := range other.Segments {
			j.written = slices.DeleteFunc(j.written, func(at uint64) bool { return at == segment.Seq })
		}
	}
	return fmt.Errorf("%w: another process does so", ErrNotArchivable)
}

// after removes the segments that the new index does not name, and then the whole archive if the session was deleted meanwhile: deleted data must not stay as
// a copy.
func (j *archiveJob) after(ctx context.Context, x *archive.Index) error {
	if err := j.deleteUnreferenced(ctx, x); err != nil {
		return err
	}
	now, err := j.readTail(ctx)
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
		return err
	}
	if now.messages < x.Messages || !now.created.Equal(x.Created) {
		return errors.Join(fmt.Errorf("%w: the session was deleted", ErrNotArchivable), j.forget(ctx))
	}
	return nil
}

// deleteUnreferenced removes the segments that x does not name. No other process can be about to name them: its index would have to replace the one that
// this job has replaced.
func (j *archiveJob) deleteUnreferenced(ctx context.Context, x *archive.Index) error {
	named := make(map[uint64]bool, len(x.Segments))
	for _, segment := range x.Segments {
		named[segment.Seq] = true
	}
	if j.old != nil {
		var replaced []uint64
		for _, segment := range j.old.Segments {
			if !named[segment.Seq] {
				replaced = append(replaced, segment.Seq)
			}
		}
		if err := j.remove(ctx, replaced); err != nil {
			return err
		}
	}
	counts, err := j.counts(ctx, j.stream, j.segments)
	if err != nil || counts[j.segments] == uint64(len(x.Segments)) {
		return err
	}
	for seq := uint64(1); ; seq++ { // a process has crashed before it removed them
		m, err := j.client.NextRetry(ctx, j.cfg.RetryTimeout, j.stream, j.segments, seq)
		if errors.Is(err, jsclient.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if seq = m.Seq; !named[seq] {
			if err := j.remove(ctx, []uint64{seq}); err != nil {
				return err
			}
		}
	}
}

// remove deletes segments. It ignores segments that are deleted already.
func (j *archiveJob) remove(ctx context.Context, seqs []uint64) error {
	for _, seq := range seqs {
		_, err := jsclient.Retry(ctx, jsclient.Policy{For: j.cfg.RetryTimeout}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, j.client.Delete(ctx, j.stream, seq)
		})
		if err != nil && !errors.Is(err, jsclient.ErrNotFound) {
			return fmt.Errorf("remove segment %d of %s: %w", seq, j.session, err)
		}
	}
	return nil
}

// forget removes the archive.
func (j *archiveJob) forget(ctx context.Context) error {
	keys, err := archive.Keys(j.cfg.Layout, j.session)
	if err != nil {
		return err
	}
	_, err = j.client.PurgeRetry(ctx, j.cfg.RetryTimeout, j.stream, keys, 0)
	return err
}
