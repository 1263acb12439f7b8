package consumers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// FirehoseConfig shapes a Firehose.
type FirehoseConfig struct {
	// Name makes the firehose durable: the server stores its position in every partition under this name. Programs with the same name share the work: one of
	// them reads a partition, the others wait. A token, see subjects.CheckToken. Empty is ephemeral: no position is stored.
	Name string

	// Tenant limits it to the sessions of one tenant. Empty is all.
	Tenant string

	// Types limits it to these types. Empty is all. The client reads and drops the others.
	Types []chunk.Type

	// View, if not nil, returns what handle gets of a record, and false for a record that is left out, as one of another type is. Calls for several partitions
	// are concurrent.
	View func(chunk.Record) (shown chunk.Record, ok bool)

	// FromLatest makes an ephemeral firehose, and a durable one that is used for the first time, begin at the present end. Otherwise they begin at the
	// oldest record.
	FromLatest bool

	// After, if not empty, has the position in each partition after which an ephemeral firehose begins, see Firehose.Positions. Run ends with a
	// *chunk.TruncatedError with the reason recreated if the log is not the one of a position any more.
	After []PartitionPosition

	// Since, if not zero, makes an ephemeral firehose, and a durable one that is used for the first time, begin with the records that were stored then or
	// later.
	Since time.Time

	// Until, if not zero, ends Run before the first record that was stored then or later. It may not be in the future.
	Until time.Time

	// NoFollow ends Run at the end that each partition has when Run begins. The next Run of a durable firehose continues there.
	NoFollow bool

	// OnHandled, if not nil, is called once in a Run that ends by itself, when handle has got all records of the range: with Unconfirmed, some of them may wait for
	// their confirmation then.
	OnHandled func()

	// Commit, if not nil, is called before records are acknowledged: after it returns nil, the server does not deliver anything that was handled in
	// that partition again. A sink that writes in batches writes here. The context is not cancelled with that of Run, so that handled records can be
	// stored; it lasts half of AckWait.
	Commit func(ctx context.Context) error

	// Unconfirmed, if not 0, makes a durable firehose acknowledge a record when Confirm names it or a later one of its partition, and not when handle has
	// returned: handle only writes the record to a reader, which stores it later. It is the largest number of records of all partitions that are handled and
	// not confirmed; then handle is not called before the next confirmation. At most 10,000. Commit and DeadLetter must be nil.
	Unconfirmed int

	// CommitRecords is the maximum number of handled records before they are committed and acknowledged. Defaults to 100, at most half of Batch.
	CommitRecords int

	// CommitInterval is the longest time before a handled record is committed and acknowledged. Defaults to 200 ms, at most a quarter of AckWait.
	CommitInterval time.Duration

	// Batch is how many records the server sends ahead of their acknowledgement. Defaults to 512, or to Unconfirmed if that is more.
	Batch int

	// AckWait is the time after which the server redelivers an unacknowledged record. If handling takes longer, the firehose recognises and drops the
	// redelivery. Defaults to 30 seconds, at least 1.
	AckWait time.Duration

	// OnGap, if not nil, is called for records that the firehose cannot deliver because the log has lost them, before the record that follows them. Run
	// ends with its error. As for handle, calls of one partition come from one goroutine, and a Gap is repeated if the record after it is not
	// acknowledged. Every Gap is also logged and counted in Stats.
	OnGap func(ctx context.Context, g Gap) error

	// DeadLetter, if not nil, gets a record whose handle has failed MaxAttempts times; after it returns nil the record counts as handled. Run ends with
	// its error, and with that of handle at the third record in a row: then it is the sink that fails, and not a record. If DeadLetter is nil, the
	// first error of handle ends Run.
	DeadLetter func(ctx context.Context, rec chunk.Record, cause error) error

	// MaxAttempts is the number of calls of handle for one record before DeadLetter gets it. The delay between them grows from 100 ms to 10 s; it does not
	// delay other partitions. Defaults to 5.
	MaxAttempts int

	// TakeoverTimeout is the time without requests from the program that reads a partition after which the server assigns the partition to a waiting
	// program, with all records that are not acknowledged. Defaults to 2 seconds, at least 500 ms.
	TakeoverTimeout time.Duration
}

func (c FirehoseConfig) withDefaults() FirehoseConfig {
	c.Batch = cmp.Or(c.Batch, max(512, c.Unconfirmed))
	c.CommitRecords = cmp.Or(c.CommitRecords, max(1, min(100, c.Batch/2)))
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.CommitInterval = cmp.Or(c.CommitInterval, min(200*time.Millisecond, c.AckWait/4))
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.TakeoverTimeout = cmp.Or(c.TakeoverTimeout, 2*time.Second)
	c.Types, c.After = slices.Clone(c.Types), slices.Clone(c.After)
	return c
}

func (c FirehoseConfig) validate() error {
	if c.Name != "" {
		if err := subjects.CheckToken("firehose", c.Name); err != nil {
			return err
		}
	}
	switch {
	case c.Batch < 2 || c.Batch > 10_000:
		return fmt.Errorf("Batch is %d, want 2 to 10000", c.Batch)
	case c.CommitRecords < 1 || c.CommitRecords > c.Batch/2:
		return fmt.Errorf("CommitRecords is %d, want 1 to %d, half of Batch", c.CommitRecords, c.Batch/2)
	case c.AckWait < time.Second:
		return fmt.Errorf("AckWait is %s, want at least 1s", c.AckWait)
	case c.CommitInterval <= 0 || c.CommitInterval > c.AckWait/4:
		return fmt.Errorf("CommitInterval is %s, want more than 0 and at most %s, a quarter of AckWait", c.CommitInterval, c.AckWait/4)
	case c.MaxAttempts < 1:
		return fmt.Errorf("MaxAttempts is %d, want at least 1", c.MaxAttempts)
	case c.TakeoverTimeout < 500*time.Millisecond:
		return fmt.Errorf("TakeoverTimeout is %s, want at least 500ms", c.TakeoverTimeout)
	case c.Unconfirmed < 0 || c.Unconfirmed > 10_000:
		return fmt.Errorf("Unconfirmed is %d, want 0 to 10000", c.Unconfirmed)
	case c.Unconfirmed > 0 && (c.Name == "" || c.Commit != nil || c.DeadLetter != nil):
		return errors.New("Unconfirmed is set, want a Name, and neither Commit nor DeadLetter")
	}
	return nil
}

// Firehose delivers every record of a filter at least once, and those of one session in order.
type Firehose struct {
	reader  *Reader
	cfg     FirehoseConfig
	filters []string // by partition

	positions     []PartitionPosition // of an ephemeral firehose, by partition
	confirmations confirmations
	unhandled     atomic.Int64 // partitions of this Run whose range is not handled
	waiting       atomic.Bool  // this Run has reported that it waits for another reader
}

// Firehose returns a Firehose. It does not call the server. The error names the wrong field.
func (r *Reader) Firehose(cfg FirehoseConfig) (*Firehose, error) {
	cfg = cfg.withDefaults()
	if err := cmp.Or(cfg.validate(), cfg.validateRange(r.cfg.Layout.PartitionCount())); err != nil {
		return nil, err
	}
	f := &Firehose{reader: r, cfg: cfg}
	if cfg.Unconfirmed > 0 {
		f.confirmations.slots = make(chan struct{}, cfg.Unconfirmed)
		f.confirmations.partitions = make([]unconfirmed, r.cfg.Layout.PartitionCount())
	}
	for p := range r.cfg.Layout.PartitionCount() {
		filter := names.Layout(r.cfg.Layout).AllFilter(p)
		if cfg.Tenant != "" {
			var err error
			if filter, err = names.Layout(r.cfg.Layout).TenantFilter(p, cfg.Tenant); err != nil {
				return nil, err
			}
		}
		f.filters = append(f.filters, filter)
	}
	return f, nil
}

// Run delivers until ctx ends, handle, Commit, OnGap or DeadLetter fails, or the log is deleted; it returns that error. It returns nil at the end of a range of
// Until or NoFollow, with Unconfirmed when all records before it are confirmed, and never otherwise. handle is called by one
// goroutine for each partition: with several partitions it must be safe for concurrent use. Within a partition, and so within a session, the calls come in the
// order of the log.
//
// A record is acknowledged after handle and then Commit, if set, have returned nil; with Unconfirmed, when Confirm names it or a later one. The next Run of a durable firehose redelivers a record whose handle failed
// and those after it. It also redelivers records that were handled and not acknowledged when a program crashed: delivery is at least once, not exactly once.
// A sink that needs exactly once can use the session with epoch and ordinal as the key.
//
// A *chunk.TruncatedError with reason recreated reports that the stream was deleted and created again; the next Run begins at its start. If retention
// removes records before they are delivered, an ephemeral firehose ends with reason expired; a durable one reports a Gap and continues with the rest.
func (f *Firehose) Run(ctx context.Context, handle func(context.Context, chunk.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.waiting.Store(false)
	f.unhandled.Store(int64(len(f.filters)))
	f.positions = make([]PartitionPosition, len(f.filters))
	errs := make([]error, len(f.filters))
	var loops sync.WaitGroup
	for p := range f.filters {
		loops.Go(func() {
			if errs[p] = f.runPartition(ctx, p, handle); errs[p] != nil {
				cancel() // one partition that fails ends all
			}
		})
	}
	loops.Wait()
	first := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) })
	if first < 0 {
		return cmp.Or(errs...)
	}
	return errs[first]
}

func (f *Firehose) runPartition(ctx context.Context, p int, handle func(context.Context, chunk.Record) error) error {
	loop := partitionLoop{
		Firehose: f, partition: p, stream: f.reader.cfg.Layout.Stream(p), filter: f.filters[p], handle: handle, sessions: map[string]*ordinalChecker{},
	}
	if f.cfg.Name == "" {
		err := loop.runEphemeral(ctx)
		if err == nil {
			f.handledRange()
		}
		return err
	}
	return loop.runDurable(ctx)
}

// handledRange reports that the range of one partition is handled.
func (f *Firehose) handledRange() {
	if f.unhandled.Add(-1) == 0 && f.cfg.OnHandled != nil {
		f.cfg.OnHandled()
	}
}

// partitionLoop is the loop of one partition.
type partitionLoop struct {
	*Firehose

	partition   int
	stream      string
	filter      string
	handle      func(context.Context, chunk.Record) error
	before      func(context.Context, *jsreader.Entry) error // if not nil, called before handle gets a record
	sessions    map[string]*ordinalChecker                   // by subject, see checkOrdinal
	deadLetters int                                          // records in a row that could not be handled
}

// deliver calls handle if the message is a record of a wanted type.
func (l *partitionLoop) deliver(ctx context.Context, e *jsreader.Entry) error {
	if err := l.checkOrdinal(ctx, e); err != nil {
		return err
	}
	if t := typeOf(e.Header); t != "" && !l.wants(t) {
		return nil
	}
	s, err := l.reader.cfg.Layout.Parse(e.Subject)
	if err == nil {
		var rec chunk.Record
		if rec, err = decode(e.Message, s); err == nil {
			shown := l.wants(rec.Type)
			if shown && l.cfg.View != nil {
				rec, shown = l.cfg.View(rec)
			}
			if !shown {
				return nil
			}
			if l.before != nil {
				if err := l.before(ctx, e); err != nil {
					return err
				}
			}
			return l.attempt(ctx, rec)
		}
	}
	l.reader.skipMalformed(Malformed{Stream: l.stream, Subject: e.Subject, Seq: chunk.Seq(e.Seq), Err: err})
	return nil
}

func (l *partitionLoop) wants(t chunk.Type) bool {
	return len(l.cfg.Types) == 0 || slices.Contains(l.cfg.Types, t)
}
