package compact

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
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Compactor. The zero Config is ready for production.
type Config struct {
	// Layout names the log and the bucket.
	Layout subjects.Layout

	// After is how long ago a session has ended that Sweep archives. Defaults
	// to 24 hours.
	After time.Duration

	// Least is how many messages it has at least: a few are read from the log as
	// quickly. Defaults to 200.
	Least int

	// Every is the time between two sweeps of Run. Defaults to 10 minutes.
	Every time.Duration

	// Patience is how long a question is asked again while the server does not
	// answer, until the archive or the sweep is given up. Defaults to 30 seconds:
	// nobody waits for an archive.
	Patience time.Duration

	// Turn, if not nil, does the sweeps of Run, or leaves one out because another
	// process has done it; see turns.
	Turn func(ctx context.Context, sweep func(context.Context) error) error

	// Log is where the package speaks. Defaults to slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.After == 0 {
		c.After = 24 * time.Hour
	}
	if c.Least == 0 {
		c.Least = 200
	}
	if c.Every == 0 {
		c.Every = 10 * time.Minute
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	if c.Turn == nil {
		c.Turn = func(ctx context.Context, sweep func(context.Context) error) error { return sweep(ctx) }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.After < 0:
		return fmt.Errorf("After is %s, want more than 0", c.After)
	case c.Least < 1:
		return fmt.Errorf("Least is %d, want at least 1", c.Least)
	case c.Every < time.Second:
		return fmt.Errorf("Every is %s, want at least 1s", c.Every)
	case c.Patience < 0:
		return fmt.Errorf("Patience is %s, want more than 0", c.Patience)
	}
	return c.Layout.Validate()
}

// Compactor writes archives. Its methods may be called concurrently, and several
// Compactors may work on the same log. It holds nothing that would have to be
// closed.
type Compactor struct {
	cfg    Config
	js     jetstream.JetStream
	api    *jsapi.API
	reader *consumers.Reader // of the log alone

	mu    sync.Mutex        // guards unfit
	unfit map[string]uint64 // by subject: sessions that Sweep found unfit, and their last message then
}

// New makes a Compactor. It does not ask the server for anything. The error names
// the field of cfg that is wrong.
func New(js jetstream.JetStream, cfg Config) (*Compactor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	reader, err := consumers.New(js.Conn(), js, consumers.Config{
		Layout: cfg.Layout, Log: cfg.Log,
		OnForeign: func(consumers.Foreign) {}, // whoever reads the session says so; here it only is unfit
	})
	if err != nil {
		return nil, err
	}
	return &Compactor{cfg: cfg, js: js, api: jsapi.New(js), reader: reader, unfit: make(map[string]uint64)}, nil
}

// ErrUnfit reports a session that cannot be archived as it is: not all that the
// log has of it can be read, because its beginning has expired, something is
// missing, or messages are no records; or it has changed meanwhile.
var ErrUnfit = errors.New("the session cannot be archived")

// Compact archives what the log has of s at present, whether or not a run is
// open, unless its archive has that already. It reports whether it wrote one.
// Errors: ErrUnfit; chunk.ErrUnknownSession; those of NATS, when it has refused
// something or not answered for Patience.
func (c *Compactor) Compact(ctx context.Context, s chunk.Session) (bool, error) {
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

// job is one session being archived.
type job struct {
	*Compactor

	session  chunk.Session
	log      string // stream of the log
	subject  string // in it
	stream   string // of the bucket
	index    string // subject of the index in it
	segments string // subject of the segments

	revision uint64 // of the old index, 0 when there is none
	found    *archive.Index
	old      *archive.Index // found, when it is whole
	before   state
	written  []uint64 // segments of ours
}

// state is what the leader says of a session in the log.
type state struct {
	created  time.Time
	messages uint64
	last     jsapi.Message
}

func (c *Compactor) job(s chunk.Session) (*job, error) {
	l := c.cfg.Layout
	j := &job{Compactor: c, session: s, log: l.Stream(l.Partition(s)), stream: archive.Stream(l)}
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

// begin finds out what there is.
func (j *job) begin(ctx context.Context) (err error) {
	if err = j.readIndex(ctx); err == nil {
		j.before, err = j.look(ctx)
	}
	return err
}

// readIndex finds the archive that there is. One that cannot be read, or of which
// a segment is missing or left over, is replaced.
func (j *job) readIndex(ctx context.Context) error {
	m, err := j.api.LastWithin(ctx, j.cfg.Patience, j.stream, j.index)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("look for the archive of %s: %w", j.session, err)
	}
	j.revision = m.Seq
	if j.found, err = archive.ReadIndex(m.Data); err != nil {
		j.cfg.Log.Debug("an archive is of no use", slog.Any("session", j.session), slog.Any("error", err))
		return nil
	}
	there, err := j.counts(ctx, j.stream, j.segments)
	if err == nil && there[j.segments] == uint64(len(j.found.Segments)) {
		j.old = j.found
	}
	return err
}

// look asks for the number of messages, and then for the last one.
func (j *job) look(ctx context.Context) (state, error) {
	info, err := j.info(ctx, j.log, j.subject)
	if err != nil {
		return state{}, err
	}
	last, err := j.api.LastWithin(ctx, j.cfg.Patience, j.log, j.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return state{}, chunk.ErrUnknownSession
	}
	return state{created: info.Created, messages: info.State.Subjects[j.subject], last: last}, err
}

func (j *job) fits(x *archive.Index, now state) bool {
	return x != nil && x.Fits(now.created, now.messages, tail(now.last))
}

func tail(m jsapi.Message) archive.Tail {
	return archive.Tail{Seq: chunk.Seq(m.Seq), Stored: m.Time.UnixNano()}
}

// run writes the segments, makes sure that they are what the log has, and then
// writes the index over the old one. Who dies before that leaves segments that no
// index names, and the next one who archives the session removes them.
func (j *job) run(ctx context.Context) error {
	x, err := j.pack(ctx)
	if err == nil {
		err = j.check(ctx, x)
	}
	if err == nil {
		err = j.commit(ctx, x)
	}
	if errors.Is(err, ErrUnfit) {
		return errors.Join(err, j.remove(ctx, j.written))
	}
	if err != nil {
		return err // perhaps the index is there, and names what we have written
	}
	return j.after(ctx, x)
}

// pack reads the session and writes those segments of it that are not there yet.
func (j *job) pack(ctx context.Context) (*archive.Index, error) {
	x := archive.NewIndex(j.before.created, tail(j.before.last))
	var p archive.Packer
	last := chunk.Seq(0)
	for rec, err := range j.reader.Replay(ctx, j.session, chunk.Position{}) {
		if errors.Is(err, chunk.ErrTruncated) {
			return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
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
	// What is no record is not read, and what was deleted a moment ago may be. So
	// the number that was there before must be that of the records, and the number
	// after it, see check: the first says that nothing else was there, and the
	// second that all of it still is.
	if x.Messages != j.before.messages || last != x.Last.Seq {
		return nil, fmt.Errorf("%w: %d records through %d of %d messages through %d", ErrUnfit, x.Messages, last, j.before.messages, x.Last.Seq)
	}
	if rest, ok := p.Rest(); ok {
		return x, j.keep(ctx, x, rest)
	}
	return x, nil
}

// keep takes a segment into the index, and stores it unless the old index has the
// same.
func (j *job) keep(ctx context.Context, x *archive.Index, p archive.Packed) error {
	if i := len(x.Segments); j.old != nil && i < len(j.old.Segments) {
		same := j.old.Segments[i]
		p.At = same.At
		if same == p.Segment {
			x.Segments = append(x.Segments, same)
			return nil
		}
	}
	at, err := j.api.Put(ctx, j.message(j.segments, p.Data))
	if err != nil {
		return fmt.Errorf("archive %s: %w", j.session, err)
	}
	p.At = at
	j.written = append(j.written, at)
	x.Segments = append(x.Segments, p.Segment)
	return nil
}

// check holds the archive against the log as it is now.
func (j *job) check(ctx context.Context, x *archive.Index) error {
	now, err := j.look(ctx)
	if err != nil {
		return err
	}
	if !j.fits(x, now) {
		return fmt.Errorf("%w: it has changed", ErrUnfit)
	}
	return nil
}

// commit writes the index over the one that was found.
func (j *job) commit(ctx context.Context, x *archive.Index) error {
	data, err := x.Bytes()
	if err != nil {
		return err
	}
	p := j.message(j.index, data)
	p.Msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	p.After = &j.revision
	_, err = j.api.Put(ctx, p)
	if errors.Is(err, jsapi.ErrMoved) {
		return j.moved(ctx, data)
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", j.session, err)
	}
	return nil
}

// message is one that the server may be sent again when it does not answer.
func (j *job) message(subject string, data []byte) jsapi.Put {
	header := nats.Header{jetstream.MsgIDHeader: {rand.Text()}}
	return jsapi.Put{
		Msg:    &nats.Msg{Subject: j.api.Published(subject), Header: header, Data: data},
		Stream: j.stream, Patience: j.cfg.Patience,
	}
}

// moved finds out what a refused index means: it stands, because an earlier try
// was stored and the answer lost; or somebody else archives the session. He may
// have found ours in between and gone on from it, so segments of ours that he
// names are his.
func (j *job) moved(ctx context.Context, ours []byte) error {
	m, err := j.api.LastWithin(ctx, j.cfg.Patience, j.stream, j.index)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("look for the archive of %s: %w", j.session, err)
	}
	if bytes.Equal(m.Data, ours) {
		return nil
	}
	if err == nil {
		his, err := archive.ReadIndex(m.Data)
		if err != nil { // of a later version: who can read it tidies
			return fmt.Errorf("the archive of %s: %w", j.session, err)
		}
		for _, segment := range his.Segments {
			j.written = slices.DeleteFunc(j.written, func(at uint64) bool { return at == segment.At })
		}
	}
	return fmt.Errorf("%w: somebody else does", ErrUnfit)
}

// after removes what the new index does not name, and then the whole archive if
// the session was deleted under us: what somebody wanted gone must not come back
// as a copy.
func (j *job) after(ctx context.Context, x *archive.Index) error {
	if err := j.tidy(ctx, x); err != nil {
		return err
	}
	now, err := j.look(ctx)
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
		return err
	}
	if now.messages < x.Messages || !now.created.Equal(x.Created) {
		return errors.Join(fmt.Errorf("%w: it was deleted", ErrUnfit), j.forget(ctx))
	}
	return nil
}

// tidy removes segments that are not of x. Nobody else can be about to name them:
// his index would have to be written over the one that we have replaced.
func (j *job) tidy(ctx context.Context, x *archive.Index) error {
	ours := make(map[uint64]bool, len(x.Segments))
	for _, segment := range x.Segments {
		ours[segment.At] = true
	}
	if j.old != nil {
		var replaced []uint64
		for _, segment := range j.old.Segments {
			if !ours[segment.At] {
				replaced = append(replaced, segment.At)
			}
		}
		if err := j.remove(ctx, replaced); err != nil {
			return err
		}
	}
	there, err := j.counts(ctx, j.stream, j.segments)
	if err != nil || there[j.segments] == uint64(len(x.Segments)) {
		return err
	}
	for seq := uint64(1); ; seq++ { // somebody died here
		m, err := j.api.NextWithin(ctx, j.cfg.Patience, j.stream, j.segments, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if seq = m.Seq; !ours[seq] {
			if err := j.remove(ctx, []uint64{seq}); err != nil {
				return err
			}
		}
	}
}

// remove deletes segments. Those that are gone already are no error.
func (j *job) remove(ctx context.Context, seqs []uint64) error {
	if len(seqs) == 0 {
		return nil
	}
	stream, err := jsapi.Within(ctx, j.cfg.Patience, func(ctx context.Context) (jetstream.Stream, error) { return j.js.Stream(ctx, j.stream) })
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		_, err := jsapi.Within(ctx, j.cfg.Patience, func(ctx context.Context) (gone bool, err error) { return true, removeOne(ctx, stream, seq) })
		if err != nil {
			return fmt.Errorf("remove segment %d of %s: %w", seq, j.session, err)
		}
	}
	return nil
}

func removeOne(ctx context.Context, stream jetstream.Stream, seq uint64) error {
	refused := stream.DeleteMsg(ctx, seq)
	if refused == nil {
		return nil
	}
	_, err := stream.GetMsg(ctx, seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // for which the refusal has several words
		return nil
	case err != nil:
		return err
	}
	return refused
}

// forget removes the archive.
func (j *job) forget(ctx context.Context) error {
	keys, err := archive.Keys(j.cfg.Layout, j.session)
	if err != nil {
		return err
	}
	_, err = j.api.PurgeWithin(ctx, j.cfg.Patience, j.stream, keys, 0)
	return err
}
