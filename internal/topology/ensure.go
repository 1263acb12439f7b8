package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Ensure creates what is missing and compares what is there. Calling it again,
// or from several programs at once, does no harm. When something that is there
// differs it returns a *DiffError and has created nothing; other errors say in
// a sentence what the server lacks. A ctx without deadline waits some seconds
// for each answer of the server.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	missing, err := check(ctx, js, cfg)
	if err != nil {
		return err
	}
	var diffs []Difference
	for _, want := range missing {
		different, err := create(ctx, js, want)
		if err != nil {
			return err
		}
		diffs = append(diffs, different...)
	}
	return diffError(diffs)
}

// Verify compares like Ensure and never creates: a stream that is missing is a
// difference too.
func Verify(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	missing, err := check(ctx, js, cfg)
	if err != nil {
		return err
	}
	var diffs []Difference
	for _, want := range missing {
		diffs = append(diffs, Difference{
			Stream: want.Name,
			Got:    "is missing",
			Want:   "a stream that listens on " + want.Subjects[0],
			Remedy: "run `tailrace up` or a program whose account may create streams",
		})
	}
	return diffError(diffs)
}

// check asks the server what it can and what it has. It returns the streams
// that do not exist yet.
func check(ctx context.Context, js jetstream.JetStream, cfg Config) ([]wanted, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkServer(ctx, js, cfg); err != nil {
		return nil, err
	}
	streams := cfg.streams()
	diffs, err := strangers(ctx, js, cfg, streams)
	if err != nil {
		return nil, err
	}
	var missing []wanted
	for _, want := range streams {
		stream, err := patiently(ctx, func() (jetstream.Stream, error) { return js.Stream(ctx, want.Name) })
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			missing = append(missing, want)
		case err != nil:
			return nil, explain(js, "look at stream "+want.Name, err)
		default:
			diffs = append(diffs, compare(stream.CachedInfo().Config, want)...)
		}
	}
	return missing, diffError(diffs)
}

// create makes one stream. Another program may make it first: the server
// accepts the second request when both want the same, and otherwise this is
// the moment to compare.
func create(ctx context.Context, js jetstream.JetStream, want wanted) ([]Difference, error) {
	stream, err := patiently(ctx, func() (jetstream.Stream, error) {
		stream, err := js.CreateStream(ctx, want.StreamConfig)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, want.Name)
		}
		return stream, err
	})
	if err != nil {
		return nil, explain(js, "create stream "+want.Name, err)
	}
	// Compare what the server made, too: one that does not know a setting
	// drops it without an error.
	return compare(stream.CachedInfo().Config, want), nil
}

// patiently asks again when nobody answered and ctx would wait. A stream that
// another program is just creating on a cluster has no leader for some seconds,
// and until it has one no question about it is answered.
func patiently(ctx context.Context, ask func() (jetstream.Stream, error)) (jetstream.Stream, error) {
	for attempt := 1; ; attempt++ {
		stream, err := ask()
		if attempt == questions || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return stream, err
		}
	}
}

// questions is how often something is asked that is not answered.
const questions = 4

// strangers finds streams that listen on our subjects and are none of ours:
// left over from a larger number of partitions, or somebody else's.
func strangers(ctx context.Context, js jetstream.JetStream, cfg Config, ours []wanted) ([]Difference, error) {
	var diffs []Difference
	for _, subjects := range cfg.subjectSpace() {
		list := js.StreamNames(ctx, jetstream.WithStreamListSubject(subjects))
		for name := range list.Name() {
			if slices.ContainsFunc(ours, func(w wanted) bool { return w.Name == name }) {
				continue
			}
			diffs = append(diffs, cfg.stranger(name, subjects))
		}
		if err := list.Err(); err != nil {
			return nil, explain(js, "list the streams on "+subjects, err)
		}
	}
	return diffs, nil
}

func (c Config) stranger(name, subjects string) Difference {
	d := Difference{
		Stream: name,
		Got:    "listens on " + subjects,
		Want:   "no other stream there",
		Remedy: "delete it or take these subjects from it",
	}
	if p, ok := c.partitionOf(name); ok {
		d.Want = fmt.Sprintf("partitions 0 to %d only", c.Layout.PartitionCount()-1)
		d.Remedy = fmt.Sprintf("set Layout.Partitions to more than %d, or move its sessions as the documentation of package topology describes", p)
	}
	return d
}

func diffError(diffs []Difference) error {
	if len(diffs) == 0 {
		return nil
	}
	return &DiffError{Differences: diffs}
}
