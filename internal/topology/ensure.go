package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Ensure creates missing streams and compares existing ones. It is idempotent, and several programs may call it concurrently. If an existing stream differs
// so that a guarantee does not hold, it returns a *DiffError and creates nothing; Differences has the other ones; other errors describe what the server
// lacks. If ctx has no deadline, each request is retried for some seconds.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	diffs, missing, err := compareAll(ctx, js, cfg)
	if err != nil {
		return err
	}
	defer func() { cfg.observe(diffs) }()
	if err := diffError(diffs); err != nil {
		return err
	}
	for _, want := range missing {
		different, err := create(ctx, js, want)
		if err != nil {
			return err
		}
		diffs = append(diffs, different...)
	}
	return diffError(diffs)
}

// Streams returns what Ensure creates: the configuration of each stream and of the streams of the buckets. The error names the wrong field of cfg.
func Streams(cfg Config) ([]jetstream.StreamConfig, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var all []jetstream.StreamConfig
	for _, stream := range cfg.streams() {
		all = append(all, stream.StreamConfig)
	}
	return all, nil
}

// Check compares like Ensure and creates nothing: a missing stream is a difference too.
func Check(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	diffs, err := Differences(ctx, js, cfg)
	if err != nil {
		return err
	}
	cfg.observe(diffs)
	return diffError(diffs)
}

func (c Config) observe(diffs []Difference) {
	if c.OnDifferences != nil {
		c.OnDifferences(diffs)
	}
}

// Differences compares like Check and returns the differences of all classes, in the order of the streams. The error says that the server lacks something,
// or could not be asked.
func Differences(ctx context.Context, js jetstream.JetStream, cfg Config) ([]Difference, error) {
	diffs, missing, err := compareAll(ctx, js, cfg)
	for _, want := range missing {
		diffs = append(diffs, isMissing(want))
	}
	return diffs, err
}

// checkConcurrency bounds the requests of CheckEach that wait for a response at the same time, and checkTimeout each of them: a stream without a leader
// does not respond, and must not keep the others from being reported.
const (
	checkConcurrency = 4
	checkTimeout     = 2 * time.Second
)

// CheckEach compares the streams one by one, for a process that watches them: it calls report for each, possibly concurrently, with nil, a *DiffError, or
// why the stream cannot be used: it did not respond, or has no leader. It sends one request for each stream and does not retry; a stream whose turn has not
// come when ctx ends is not reported. OnDifferences is called if all streams were compared. The error names the wrong field of cfg.
func CheckEach(ctx context.Context, js jetstream.JetStream, cfg Config, report func(stream string, err error)) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	waiting := make(chan struct{}, checkConcurrency)
	var checking sync.WaitGroup
	streams := cfg.streams()
	compared := make([][]Difference, len(streams))
	for i, want := range streams {
		waiting <- struct{}{}
		checking.Go(func() {
			if ctx.Err() == nil {
				diffs, err := checkStream(ctx, js, want, cfg.OnInfo)
				if err == nil {
					compared[i], err = diffs, diffError(diffs)
				}
				report(want.Name, err)
			}
			<-waiting
		})
	}
	checking.Wait()
	if !slices.ContainsFunc(compared, func(diffs []Difference) bool { return diffs == nil }) {
		cfg.observe(slices.Concat(compared...))
	}
	return nil
}

// checkStream returns the differences of one stream, not nil if it was compared.
func checkStream(ctx context.Context, js jetstream.JetStream, want streamSpec, onInfo func(*jetstream.StreamInfo)) ([]Difference, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return []Difference{isMissing(want)}, nil
	case err != nil:
		return nil, explain(js, "read stream "+want.Name, err)
	}
	info := stream.CachedInfo()
	if info.Cluster != nil && info.Cluster.Leader == "" { // a replica has responded
		return nil, fmt.Errorf("stream %s: %w", want.Name, errNoLeader)
	}
	if onInfo != nil {
		onInfo(info)
	}
	return append([]Difference{}, compare(info.Config, want)...), nil
}

var errNoLeader = errors.New("no leader: fewer than half of its replicas are connected")

func isMissing(want streamSpec) Difference {
	return Difference{
		Class:  Breaks,
		Stream: want.Name,
		Got:    "is missing",
		Want:   "a stream that listens on " + want.Subjects[0],
		Remedy: "run `tailrace setup`",
	}
}

// compareAll checks the server and compares its streams. It returns all differences, and the missing streams.
func compareAll(ctx context.Context, js jetstream.JetStream, cfg Config) (diffs []Difference, missing []streamSpec, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	if err := checkServer(ctx, js, cfg); err != nil {
		return nil, nil, err
	}
	streams := cfg.streams()
	if diffs, err = conflictingStreams(ctx, js, cfg, streams); err != nil {
		return nil, nil, err
	}
	for _, want := range streams {
		stream, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) {
			return jsclient.Asked(jsclient.New(js), "STREAM.INFO."+want.Name, func() (jetstream.Stream, error) { return js.Stream(ctx, want.Name) })
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			missing = append(missing, want)
		case err != nil:
			return nil, nil, explain(js, "read stream "+want.Name, err)
		default:
			diffs = append(diffs, compare(stream.CachedInfo().Config, want)...)
		}
	}
	return diffs, missing, nil
}

// create creates one stream, with a new epoch. If another program has created it first, with another epoch, create compares that one. On a cluster it may not
// exist on all servers yet.
func create(ctx context.Context, js jetstream.JetStream, want streamSpec) ([]Difference, error) {
	cfg := want.StreamConfig
	cfg.Metadata = map[string]string{jsclient.EpochKey: jsclient.NewEpoch()}
	maps.Copy(cfg.Metadata, want.Metadata)
	stream, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		stream, err := js.CreateStream(ctx, cfg)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, want.Name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				err = errCreating
			}
		}
		return stream, err
	})
	if err != nil {
		return nil, explain(js, "create stream "+want.Name, err)
	}
	// Compare also a stream that was just created: a server that does not know a setting drops it without an error.
	return compare(stream.CachedInfo().Config, want), nil
}

// retryTimeout is the retry budget of a request if its context has no deadline.
const retryTimeout = 20 * time.Second

// errCreating reports a stream that another program is creating.
var errCreating = errors.New("another program is creating the stream")

// withRetry repeats a request that gets no response: a stream that another program is just creating has no leader for some seconds. It repeats one that finds too
// few servers: those of a cluster that has just started replace routes, and one without a route counts as missing. Other errors are returned immediately.
func withRetry(ctx context.Context, ask func(context.Context) (jetstream.Stream, error)) (jetstream.Stream, error) {
	policy := jsclient.Policy{For: retryTimeout, Final: func(err error) bool {
		return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errCreating) && !errors.Is(err, &jetstream.APIError{ErrorCode: codeNoPeers})
	}}
	if deadline, ok := ctx.Deadline(); ok {
		policy.For = time.Until(deadline)
	}
	return jsclient.Retry(ctx, policy, ask)
}

// conflictingStreams returns streams that take subjects of the layout and do not belong to it: streams of a larger number of partitions, or of another
// program.
func conflictingStreams(ctx context.Context, js jetstream.JetStream, cfg Config, wanted []streamSpec) ([]Difference, error) {
	var diffs []Difference
	for _, subjects := range cfg.subjectSpace() {
		list := js.StreamNames(ctx, jetstream.WithStreamListSubject(subjects))
		for name := range list.Name() {
			if slices.ContainsFunc(wanted, func(w streamSpec) bool { return w.Name == name }) {
				continue
			}
			diffs = append(diffs, cfg.isConflicting(name, subjects))
		}
		if err := list.Err(); err != nil {
			return nil, explain(js, "list the streams on "+subjects, err)
		}
	}
	return diffs, nil
}

func (c Config) isConflicting(name, subjects string) Difference {
	d := Difference{
		Class:  Breaks,
		Risk:   "messages are stored twice, or where no reader finds them",
		Stream: name,
		Got:    "listens on " + subjects,
		Want:   "no other stream there",
		Remedy: "delete it or take these subjects from it",
	}
	if p, ok := c.partitionOf(name); ok {
		d.Want = fmt.Sprintf("partitions 0 to %d only", c.Layout.PartitionCount()-1)
		d.Remedy = fmt.Sprintf("set Layout.Partitions to more than %d, or delete the stream if it has no session", p)
	}
	return d
}

// diffError returns the differences of class Breaks as an error.
func diffError(diffs []Difference) error {
	var breaking []Difference
	for _, d := range diffs {
		if d.Class == Breaks {
			breaking = append(breaking, d)
		}
	}
	if len(breaking) == 0 {
		return nil
	}
	return &DiffError{Differences: breaking}
}
