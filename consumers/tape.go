package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// errFloor: messages that a strict tape had not delivered are gone.
var errFloor = errors.New("the floor of the stream has overtaken the reader")

// tapeSpec says what a tape reads.
type tapeSpec struct {
	stream string
	filter string    // "" is everything
	after  chunk.Seq // exclusive; LiveTip is the present end
	live   bool      // go on at the present end and wait; otherwise errEnd
	strict bool      // the floor of the stream must not pass the reader unseen
	share  int       // how many tapes share the memory of one read; 0 is one

	// patience of open; 0 is for as long as the context lasts.
	patience time.Duration
}

// tape gives the messages of a stream in order, each once, whatever happens to
// connections, servers and consumers on the way: nothing between two messages
// was skipped, except what the stream itself no longer has.
//
// It is a pull loop on an ephemeral consumer. The library's ordered consumer
// does nearly the same; these are the reasons why it is not used here:
//   - it begins anew at the old sequence in a stream that was deleted and made
//     again, and waits there in silence until the new one has grown past it,
//   - after a connection was lost it waits 1, 2, 4 … 10 seconds between its
//     attempts, where we promise to go on within one,
//   - its consumer stays on the server after Stop, and those of its resets are
//     deleted by goroutines nobody can wait for,
//   - it cannot say that the present end is reached without a second request.
//
// A tape belongs to one goroutine and starts none.
type tape struct {
	pull

	spec    tapeSpec
	replace func() // counts the consumers that had to be replaced

	state    streamState // when the tape was attached last
	floor    chunk.Seq   // first sequence of the stream when last asked
	begun    bool        // attached once
	given    *entry      // comes next, and the mark is there already
	mark     bookmark    // everything up to here was given out
	doubtful []string    // consumers that may still be there
	barren   int         // resets since the last message
	skips    int         // times that the server left something out since the last message
}

// last is the sequence up to which everything was given out.
func (t *tape) last() chunk.Seq { return t.mark.seq }

const (
	batchLive   = 500
	batchReplay = 1000

	// manyResets in a row are told to whoever reads the log of the program.
	manyResets = 10

	// inactive is when the server deletes a consumer whose reader died without
	// saying so.
	inactive = 30 * time.Second
)

func (r *Reader) newTape(spec tapeSpec) *tape {
	batch := batchReplay
	if spec.live {
		batch = batchLive
	}
	share := max(1, spec.share)
	return &tape{
		pull: pull{
			api:    r.api,
			cfg:    r.cfg,
			stream: spec.stream,
			live:   spec.live,
			batch:  batch / share,
			bytes:  maxBytes / share,
			expiry: expiryBeats * r.cfg.Heartbeat,
		},
		spec:    spec,
		replace: func() { r.resets.Add(1) },
		mark:    bookmark{seq: spec.after},
	}
}

// open attaches the tape for the first time. A tape must be closed even when
// open failed.
func (t *tape) open(ctx context.Context) error {
	t.pull.open()
	return t.reattach(ctx, t.spec.patience)
}

// close leaves nothing behind, neither here nor on the server.
func (t *tape) close() {
	t.leave()
	if t.consumer != "" {
		t.deleteConsumer(t.consumer)
		t.consumer = ""
	}
	t.deleteDoubtful()
	t.pull.close()
}

// next waits for the next message. The error is errEnd, errSilence, errRecreated,
// errFloor, that of ctx, or one of NATS that will not go away.
func (t *tape) next(ctx context.Context) (entry, error) {
	if e := t.given; e != nil {
		t.given = nil
		return *e, nil
	}
	for {
		e, err := t.pull.next(ctx)
		if err == nil && e.seq <= t.last() {
			continue
		}
		if err == nil {
			err = t.checkSkipped(ctx, &e)
		}
		if err == nil {
			t.mark.move(&e)
			t.barren, t.skips = 0, 0
			return e, nil
		}
		var gone *lostError
		if !errors.As(err, &gone) {
			return entry{}, err
		}
		if err := t.reset(ctx, gone.why); err != nil {
			return entry{}, err
		}
	}
}

// goOnWith makes m, which the leader has and the consumer did not deliver, the
// next message, and attaches anew behind it.
func (t *tape) goOnWith(ctx context.Context, m message) error {
	t.given = &entry{seq: m.seq, subject: m.subject, header: m.header, data: m.data, stored: m.time.UnixNano(), pending: 1}
	t.mark.move(t.given)
	return t.reset(ctx, "the leader has more")
}

// reset replaces the consumer by one that begins after the last message given
// out.
func (t *tape) reset(ctx context.Context, why string) error {
	t.replace()
	level := slog.LevelDebug
	if t.barren++; t.barren%manyResets == 0 { // it does attach, and then nothing comes: a missing permission looks like this
		level = slog.LevelWarn
	}
	t.cfg.Log.Log(ctx, level, "attaching anew to the log", slog.String("stream", t.stream),
		slog.Uint64("after", uint64(t.last())), slog.String("reason", why), slog.Int("inVain", t.barren))
	return t.reattach(ctx, 0)
}

// reattach tries until it succeeds, fails for good or patience is over; no
// patience is for as long as ctx lasts.
func (t *tape) reattach(ctx context.Context, patience time.Duration) error {
	t.detach()
	return t.persist(ctx, patience, t.attach, t.final)
}

// final: once begun, the limit of consumers passes (our own old one may count).
func (t *tape) final(err error) bool {
	if errors.Is(err, errRecreated) || errors.Is(err, errFloor) {
		return true
	}
	if t.begun && errors.Is(err, jetstream.ErrMaximumConsumersLimit) {
		return false
	}
	return final(err)
}

// attach makes a consumer and checks that it reads the same log as before.
func (t *tape) attach(ctx context.Context) error {
	if t.spec.after == LiveTip {
		state, err := t.api.state(ctx, t.stream)
		if err != nil {
			return err
		}
		t.mark.seq, t.spec.after = state.last, state.last
	}
	// A new name for each attempt. A cluster may give a consumer to a server that
	// has just died; asked again for the same one, it has nothing more to do, and
	// nobody answers until that server is back.
	t.detach()
	name, err := t.enter()
	if err != nil {
		return err
	}
	t.consumer = "reader-" + name
	c, err := t.api.js.CreateConsumer(ctx, t.stream, jetstream.ConsumerConfig{
		Name:              t.consumer,
		FilterSubject:     t.spec.filter,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(t.last()) + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: inactive,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return t.unlessGone(fmt.Errorf("read %s: %w", t.stream, err))
	}
	// In this order: a consumer lives and dies with its stream, so whatever it
	// delivers from now on is of the stream whose state we get here.
	state, err := t.api.state(ctx, t.stream)
	if err != nil {
		return t.unlessGone(err)
	}
	if err := t.compare(ctx, state); err != nil {
		return err
	}
	t.left = c.CachedInfo().NumPending
	t.state, t.begun = state, true
	t.deleteDoubtful()
	return nil
}

// unlessGone: a stream that we have read and that is missing now was deleted.
func (t *tape) unlessGone(err error) error {
	if t.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
		return errRecreated
	}
	return err
}

// compare holds the log against what was read of it before.
func (t *tape) compare(ctx context.Context, state streamState) error {
	if !t.mark.created.IsZero() && !state.created.Equal(t.mark.created) {
		return errRecreated
	}
	t.floor = state.first
	if t.spec.strict && state.first > t.last()+1 && t.last() > 0 {
		return errFloor
	}
	if !t.begun {
		t.mark.created = state.created
		return nil
	}
	return t.mark.compare(ctx, t.api, t.stream, state)
}

// detach gives the consumer up. A server that has no leader just now does not
// hear of it, and one that is still busy making the consumer deletes nothing;
// so the name is kept for a second try.
func (t *tape) detach() {
	t.leave()
	if t.consumer == "" {
		return
	}
	t.deleteConsumer(t.consumer)
	const most = 64
	if len(t.doubtful) < most {
		t.doubtful = append(t.doubtful, t.consumer)
	}
	t.consumer = ""
}

// deleteDoubtful is that second try, when the server has just answered.
func (t *tape) deleteDoubtful() {
	for _, name := range t.doubtful {
		t.deleteConsumer(name)
	}
	t.doubtful = nil
}

// deleteConsumer asks without a reply subject: nobody waits for the answer,
// and a server that does not get the request deletes the consumer for
// inactivity.
func (t *tape) deleteConsumer(name string) {
	err := t.api.nc.Publish(t.api.prefix+"CONSUMER.DELETE."+t.stream+"."+name, nil)
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		t.cfg.Log.Debug("leaving a consumer to the server's clean-up", slog.String("consumer", name), slog.Any("error", err))
	}
}
