package topology

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
)

const (
	// apiLevel is the API level of nats-server 2.12. Older servers lack features that writers and the projector need, or have known bugs in them
	// (compare-and-set on replicated streams, pinned consumers).
	apiLevel   = 2
	oldestName = "2.12"
)

// Error codes of the server that explain describes.
const (
	codeNoPeers          jetstream.ErrorCode = 10005
	codeInsufficient     jetstream.ErrorCode = 10023
	codeMemoryExceeded   jetstream.ErrorCode = 10028
	codeStorageExceeded  jetstream.ErrorCode = 10047
	codeSubjectOverlap   jetstream.ErrorCode = 10065
	codeReplicasOnSingle jetstream.ErrorCode = 10074
	codeMaxBytesRequired jetstream.ErrorCode = 10113
)

// checkServer returns an error for a server that does not support the streams.
func checkServer(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return explain(js, "read the JetStream account", err)
	}
	if info.API.Level < apiLevel {
		return fmt.Errorf("nats-server %s is too old (JetStream API level %d): want %s or newer (level %d)",
			js.Conn().ConnectedServerVersion(), info.API.Level, oldestName, apiLevel)
	}
	limit, want := js.Conn().MaxPayload(), int64(max(cfg.MaxMsgSize, cfg.MaxSnapshot))
	if limit < want {
		return fmt.Errorf("nats-server takes messages of %d bytes at most, want %d: raise max_payload in its configuration, or lower MaxMsgSize and MaxSnapshot", limit, want)
	}
	return nil
}

// explain adds the object and the remedy to an error of JetStream.
func explain(js jetstream.JetStream, doing string, err error) error {
	var code jetstream.ErrorCode
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		code = api.ErrorCode
	}
	url := js.Conn().ConnectedUrlRedacted()
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("JetStream is not enabled for this account at %s: enable it for the account (jetstream: enabled), or use other credentials: %w", url, err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("nats-server at %s has no JetStream: start it with -js, or enable jetstream in its configuration: %w", url, err)
	case code == codeNoPeers:
		return fmt.Errorf("%s: the cluster has too few servers with JetStream and storage for the replicas: start the missing ones, or set Replicas to 1: %w", doing, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%s: no response from JetStream at %s: either it has no leader, or this user may not publish to $JS.API.>: %w", doing, url, err)
	case code == codeReplicasOnSingle:
		return fmt.Errorf("%s: nats-server at %s is a single server: set Replicas to 1, or connect to a cluster of three: %w", doing, url, err)
	case code == codeSubjectOverlap:
		return fmt.Errorf("%s: another stream of this account already listens on its subjects: remove that one, or choose another Layout.Prefix: %w", doing, err)
	case code == codeInsufficient, code == codeMemoryExceeded, code == codeStorageExceeded:
		return fmt.Errorf("%s: insufficient storage: raise max_file_store or lower MaxBytes: %w", doing, err)
	case code == codeMaxBytesRequired:
		return fmt.Errorf("%s: this account wants a size limit for every stream: set all MaxBytes (TAILRACE_STREAMS): %w", doing, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// subjectSpace returns the filters of all subjects of the layout.
func (c Config) subjectSpace() []string {
	return append(names.Layout(c.Layout).AllDeadLetters(), names.Layout(c.Layout).AllChunks(), names.Layout(c.Layout).AllCommands(), names.Layout(c.Layout).AllDeadlines(), names.Layout(c.Layout).AllAudit())
}

// partitionOf returns the partition whose stream has this name, if there is one.
func (c Config) partitionOf(stream string) (int, bool) {
	number, ok := strings.CutPrefix(stream, names.Layout(c.Layout).ChunkStreams())
	if !ok {
		return 0, false
	}
	p, err := strconv.Atoi(number)
	return p, err == nil && c.Layout.Stream(p) == stream
}
