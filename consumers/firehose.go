package consumers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// FirehoseConfig says what a Firehose delivers and how it remembers.
type FirehoseConfig struct {
	// Name makes the firehose durable: the server remembers under this name, in
	// every partition, what was handled. Programs with the same name share the
	// work: one of them has a partition, the others stand by. A token, see
	// subjects.CheckToken. Empty is ephemeral: nothing is remembered.
	Name string

	// Tenant restricts it to the sessions of one tenant. Empty is all.
	Tenant string

	// Types restricts it to these types. Empty is all. The others are read and
	// dropped here.
	Types []chunk.Type

	// FromNow lets an ephemeral firehose, and a durable one that is used for the
	// first time, begin at the present end. Otherwise they begin at the oldest
	// record there is.
	FromNow bool

	// Commit is called before records are acknowledged, when not nil: once it
	// has returned nil, everything handled in that partition may be forgotten by
	// the server. A sink that writes in batches does it here. The context is not
	// cancelled together with that of Run, so that what was handled can be kept;
	// it lasts half of AckWait.
	Commit func(ctx context.Context) error

	// CommitEvery is how many records are handled before they are committed and
	// acknowledged at the latest. Defaults to 100, at most half of Batch.
	CommitEvery int

	// CommitAfter is how long a handled record waits at most for that. Defaults
	// to 200 ms, at most a quarter of AckWait.
	CommitAfter time.Duration

	// Batch is how many records the server sends ahead of their
	// acknowledgement. Defaults to 512.
	Batch int

	// AckWait is when the server thinks that a record was lost on its way and
	// sends it again. Handling that takes longer than this costs only that: the
	// second copy is recognised. Defaults to 30 seconds, at least 1.
	AckWait time.Duration

	// Takeover is after what silence of the program that has a partition the
	// server gives it to one that stands by. Defaults to 10 seconds, at least
	// four heartbeats.
	Takeover time.Duration
}

func (c FirehoseConfig) withDefaults(heartbeat time.Duration) FirehoseConfig {
	if c.Batch == 0 {
		c.Batch = 512
	}
	if c.CommitEvery == 0 {
		c.CommitEvery = max(1, min(100, c.Batch/2))
	}
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.CommitAfter == 0 {
		c.CommitAfter = min(200*time.Millisecond, c.AckWait/4)
	}
	if c.Takeover == 0 {
		c.Takeover = max(10*time.Second, 4*heartbeat)
	}
	c.Types = slices.Clone(c.Types)
	return c
}

func (c FirehoseConfig) validate(heartbeat time.Duration) error {
	if c.Name != "" {
		if err := subjects.CheckToken("firehose", c.Name); err != nil {
			return err
		}
	}
	switch {
	case c.Batch < 2 || c.Batch > 10_000:
		return fmt.Errorf("Batch is %d, want 2 to 10000", c.Batch)
	case c.CommitEvery < 1 || c.CommitEvery > c.Batch/2:
		return fmt.Errorf("CommitEvery is %d, want 1 to %d, half of Batch", c.CommitEvery, c.Batch/2)
	case c.AckWait < time.Second:
		return fmt.Errorf("AckWait is %s, want at least 1s", c.AckWait)
	case c.CommitAfter <= 0 || c.CommitAfter > c.AckWait/4:
		return fmt.Errorf("CommitAfter is %s, want more than 0 and at most %s, a quarter of AckWait", c.CommitAfter, c.AckWait/4)
	case c.Takeover < 4*heartbeat:
		return fmt.Errorf("Takeover is %s, want at least %s, four heartbeats", c.Takeover, 4*heartbeat)
	}
	return nil
}

// Firehose delivers every record of a filter at least once, those of one
// session in order.
type Firehose struct {
	reader  *Reader
	cfg     FirehoseConfig
	filters []string // by partition
}

// Firehose prepares one. It does not ask the server for anything. The error
// names the field that is wrong.
func (r *Reader) Firehose(cfg FirehoseConfig) (*Firehose, error) {
	cfg = cfg.withDefaults(r.cfg.Heartbeat)
	if err := cfg.validate(r.cfg.Heartbeat); err != nil {
		return nil, err
	}
	f := &Firehose{reader: r, cfg: cfg}
	for p := range r.cfg.Layout.PartitionCount() {
		filter := r.cfg.Layout.AllFilter(p)
		if cfg.Tenant != "" {
			var err error
			if filter, err = r.cfg.Layout.TenantFilter(p, cfg.Tenant); err != nil {
				return nil, err
			}
		}
		f.filters = append(f.filters, filter)
	}
	return f, nil
}

// Run delivers until ctx ends, handle or Commit fails, or the log is gone; it
// returns that error, and never nil. handle is called by one goroutine per
// partition: with several of them it must be safe for concurrent use. Within a
// partition, and so within a session, the calls come in the order of the log.
//
// A record is acknowledged after handle returned nil and Commit, if there is
// one, after it. A record whose handle failed, and those after it, are
// delivered again by the next Run of a durable firehose. So is, once, what was
// handled and not yet acknowledged when a program died: at least once, not
// exactly once. The key for a sink that wants that is the session with epoch
// and ordinal.
//
// A *chunk.TruncatedError, reason recreated, says that the stream was deleted
// and made again; the next Run begins at its beginning. An ephemeral firehose
// that retention has overtaken ends with reason expired; a durable one says so
// in the log and goes on with what is left.
func (f *Firehose) Run(ctx context.Context, handle func(context.Context, chunk.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(f.filters))
	var loops sync.WaitGroup
	for p := range f.filters {
		loops.Go(func() {
			defer cancel() // one partition that cannot go on ends all
			errs[p] = f.runPartition(ctx, p, handle)
		})
	}
	loops.Wait()
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errs[0]
}

func (f *Firehose) runPartition(ctx context.Context, p int, handle func(context.Context, chunk.Record) error) error {
	stream := f.reader.cfg.Layout.Stream(p)
	hose := hose{Firehose: f, stream: stream, handle: handle}
	if f.cfg.Name == "" {
		return hose.runEphemeral(ctx, f.filters[p])
	}
	return hose.runDurable(ctx, f.filters[p])
}

// hose is the loop of one partition.
type hose struct {
	*Firehose

	stream string
	handle func(context.Context, chunk.Record) error
}

func (h *hose) runEphemeral(ctx context.Context, filter string) error {
	after := chunk.Seq(0)
	if h.cfg.FromNow {
		after = LiveTip
	}
	t := h.reader.newTape(tapeSpec{stream: h.stream, filter: filter, after: after, live: true, strict: true, patience: h.reader.cfg.Patience})
	defer t.close()
	err := t.open(ctx)
	for err == nil {
		var e entry
		if e, err = t.next(ctx); err == nil {
			err = h.deliver(ctx, &e)
		}
	}
	return truncation(err, t, chunk.Session{}, t.last())
}

// deliver hands one message over, if it is a record that is wanted.
func (h *hose) deliver(ctx context.Context, e *entry) error {
	if t := typeOf(e.header); t != "" && !h.wants(t) {
		return nil
	}
	s, err := h.reader.sessionOf(e.subject)
	if err == nil {
		var rec chunk.Record
		if rec, err = e.record(s); err == nil {
			if !h.wants(rec.Type) {
				return nil
			}
			return h.handle(ctx, rec)
		}
	}
	h.reader.passOver(Foreign{Stream: h.stream, Subject: e.subject, Seq: e.seq, Err: err})
	return nil
}

func (h *hose) wants(t chunk.Type) bool {
	return len(h.cfg.Types) == 0 || slices.Contains(h.cfg.Types, t)
}

// runDurable pulls from the consumer on the server that remembers.
func (h *hose) runDurable(ctx context.Context, filter string) error {
	d := &durable{
		hose: h,
		pull: pull{
			api:    h.reader.api,
			cfg:    h.reader.cfg,
			stream: h.stream,
			live:   true,
			batch:  h.cfg.Batch,
			bytes:  maxBytes,
			expiry: h.cfg.Takeover / 2,
		},
		filter: filter,
	}
	d.open()
	defer d.close()
	err := d.run(ctx)
	// What was handled is acknowledged, whatever it was that ended the loop.
	// Only a sink that did not keep it is more important than that.
	var refused *commitError
	if failed := d.settle(ctx); errors.As(failed, &refused) {
		err = failed
	}
	d.release(ctx)
	return err
}
