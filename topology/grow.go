package topology

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Grow lets sessions begin in the newest generation of partitions of the layout: it closes the partitions of the earlier ones. Ensure must have created all
// streams, and all processes must have the layout: a writer with an earlier one is refused from then on, and a reader with an earlier one does not find the
// sessions that begin. It is idempotent, and may be repeated after an error or by several programs at once. It returns the streams that it has closed.
//
// A partition is closed in three steps, which allow a writer to decide from the mark of the stream and one read where a session is:
//
//  1. the stream takes other subjects, and stores what it gets there under the subjects of before: a writer that does not know that gets no response,
//  2. the leader is asked to refuse a message, and then to purge nothing: what it got before the change is stored when it has done both,
//  3. the metadata has the mark of a closed partition.
func Grow(ctx context.Context, js jetstream.JetStream, cfg Config) (closed []string, err error) {
	if err := Check(ctx, js, cfg); err != nil {
		return nil, err
	}
	client, layout := jsclient.New(js), cfg.withDefaults().Layout
	for p := range layout.PartitionCount() {
		if layout.Generation(p) == len(layout.Earlier) {
			break
		}
		name := layout.Stream(p)
		changed, err := closePartition(ctx, js, client, cfg.withDefaults().chunks(p))
		if err != nil {
			return closed, fmt.Errorf("close %s: %w", name, err)
		}
		if changed {
			closed = append(closed, name)
		}
	}
	return closed, nil
}

// closePartition closes one stream, and reports whether it was open.
func closePartition(ctx context.Context, js jetstream.JetStream, client *jsclient.Client, want streamSpec) (bool, error) {
	stream, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, want.Name) })
	if err != nil {
		return false, err
	}
	cfg := stream.CachedInfo().Config
	if cfg.Metadata[jsclient.ClosedKey] != "" {
		return false, nil
	}
	if !want.isClosed(cfg) {
		cfg.Subjects, cfg.SubjectTransform = []string{want.closed.Source}, want.closed
		if err := update(ctx, js, cfg); err != nil {
			return false, err
		}
	}
	if err := client.Flush(ctx, retryTimeout, want.Name, want.closed.Source); err != nil {
		return false, err
	}
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[jsclient.ClosedKey] = time.Now().UTC().Format(time.RFC3339)
	return true, update(ctx, js, cfg)
}

func update(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	_, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.UpdateStream(ctx, cfg) })
	return err
}

// isClosed reports whether a stream takes the subjects of a closed partition.
func (w streamSpec) isClosed(got jetstream.StreamConfig) bool {
	return w.closed != nil && len(got.Subjects) == 1 && got.Subjects[0] == w.closed.Source && got.SubjectTransform != nil && *got.SubjectTransform == *w.closed
}
