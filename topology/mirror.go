package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// MirrorConfig describes the mirrors of a deployment in another JetStream domain, that of a leaf node.
type MirrorConfig struct {
	// Layout names the streams.
	Layout subjects.Layout

	// HomeDomain is the JetStream domain of the streams.
	HomeDomain string

	// Replicas of each mirror: 1 or 3. Defaults to 1.
	Replicas int

	// Recreate creates all mirrors again. A mirror keeps what is deleted at home, such as the messages of a deleted session, until it is created again.
	Recreate bool
}

// Mirror is a mirror and what EnsureMirrors did.
type Mirror struct {
	Stream string
	Epoch  string // of the history that it has
	Result MirrorResult
}

// MirrorResult says what EnsureMirrors did with a mirror.
type MirrorResult string

// The results.
const (
	MirrorExists    MirrorResult = "exists"
	MirrorCreated   MirrorResult = "created"
	MirrorRecreated MirrorResult = "recreated"
)

// Mirrored returns the names of the streams that readers of sessions need: the log, and the buckets of snapshots and of large values.
func Mirrored(layout subjects.Layout) []string {
	c := Config{Layout: layout}
	var names []string
	for p := range layout.PartitionCount() {
		names = append(names, layout.Stream(p))
	}
	for p := range layout.PartitionCount() {
		names = append(names, c.snapshots(p).Name)
	}
	return append(names, c.objects().Name)
}

// EnsureMirrors creates the missing mirrors of the streams at home in the domain of local, under the same names, and calls report for each mirror. It creates a
// mirror again if the stream at home has another epoch than when the mirror was created: the server would append the records of the new history to those of the
// old one. It is idempotent; a stream with such a name that is not a mirror of home is an error, and stays.
func EnsureMirrors(ctx context.Context, home, local jetstream.JetStream, cfg MirrorConfig, report func(Mirror)) error {
	if err := cfg.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	for _, name := range Mirrored(cfg.Layout) {
		m, err := ensureMirror(ctx, home, local, cfg, name)
		if err != nil {
			return err
		}
		report(m)
	}
	return nil
}

func ensureMirror(ctx context.Context, home, local jetstream.JetStream, cfg MirrorConfig, name string) (Mirror, error) {
	origin, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return home.Stream(ctx, name) })
	if err != nil {
		return Mirror{}, explain(home, "read stream "+name+" of the domain "+cfg.HomeDomain, err)
	}
	want := mirrorOf(origin.CachedInfo(), cfg)
	m := Mirror{Stream: name, Epoch: want.Metadata[jsclient.EpochKey], Result: MirrorExists}
	stream, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return local.Stream(ctx, name) })
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		m.Result = MirrorCreated
	case err != nil:
		return m, explain(local, "read mirror "+name, err)
	default:
		got := stream.CachedInfo()
		if err := isMirror(got.Config, want); err != nil {
			return m, err
		}
		if epoch, _ := jsclient.EpochOf(got); epoch == m.Epoch && !cfg.Recreate {
			return m, nil
		}
		m.Result = MirrorRecreated
		if err := local.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return m, explain(local, "delete mirror "+name, err)
		}
	}
	if _, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return local.CreateStream(ctx, want) }); err != nil {
		return m, explain(local, "create mirror "+name, err)
	}
	return m, nil
}

// isMirror returns an error unless a stream is a mirror of the one at home.
func isMirror(got, want jetstream.StreamConfig) error {
	if got.Mirror == nil || got.Mirror.Name != want.Name || got.Mirror.External == nil || got.Mirror.External.APIPrefix != homeAPI(want.Mirror.Domain) {
		return fmt.Errorf("stream %s of the local domain is not a mirror of the domain %s: want another local domain, or delete the stream", got.Name, want.Mirror.Domain)
	}
	return nil
}

func homeAPI(domain string) string { return "$JS." + domain + ".API" }

// mirrorOf returns the configuration of the mirror of a stream. It has the limits and the metadata of the stream, with its epoch, so that cursors are valid on both
// sides. Three settings differ:
//   - Messages with a TTL do not expire earlier. The last record of a deleted session has one, and the server does not delete in a mirror what is deleted at
//     home: if the record expired, readers of the mirror would have the session again.
//   - A bucket has no limit of bytes: a bucket that is full refuses messages, and the mirror would stop. It has deleted values too, so it is larger than that at home.
//   - It may delete old messages: what is full at home is refused there.
func mirrorOf(origin *jetstream.StreamInfo, cfg MirrorConfig) jetstream.StreamConfig {
	c := origin.Config
	epoch, _ := jsclient.EpochOf(origin)
	metadata := maps.Clone(c.Metadata)
	maps.DeleteFunc(metadata, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") }) // of the server
	if metadata == nil {
		metadata = make(map[string]string)
	}
	metadata[jsclient.EpochKey] = epoch
	maxBytes := c.MaxBytes
	if c.Discard == jetstream.DiscardNew {
		maxBytes = unlimited
	}
	return jetstream.StreamConfig{
		Name:              c.Name,
		Description:       c.Description + " (mirror)",
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          max(1, cfg.Replicas),
		Discard:           jetstream.DiscardOld,
		MaxAge:            c.MaxAge,
		MaxBytes:          maxBytes,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: c.MaxMsgsPerSubject,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      c.MaxConsumers,
		Compression:       c.Compression,
		AllowDirect:       true,
		Metadata:          metadata,
		Mirror:            &jetstream.StreamSource{Name: c.Name, Domain: cfg.HomeDomain},
	}
}
