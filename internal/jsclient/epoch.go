package jsclient

import (
	"context"
	"crypto/rand"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// EpochKey is the metadata key of a stream with its epoch.
const EpochKey = "tailrace.epoch"

// NewEpoch returns a random epoch with 80 bits.
func NewEpoch() string { return strings.ToLower(rand.Text()[:16]) }

// EpochOf returns the epoch of a stream and whether its metadata has it. A stream of an earlier build has none, and its creation time takes the place. A
// malformed one, which a client could not send back in a cursor, counts as missing.
func EpochOf(info *jetstream.StreamInfo) (epoch string, stored bool) {
	if epoch := info.Config.Metadata[EpochKey]; chunk.IsStreamEpoch(epoch) {
		return epoch, true
	}
	return EpochOfCreation(info.Created), false
}

// EpochOfCreation returns the epoch of a stream without one in its metadata, which was created at a time.
func EpochOfCreation(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// StoreEpoch writes the epoch of a stream into its metadata: a new one, or the present one if epoch is empty. It returns the epoch. The other settings stay as
// the server has them when the request begins; an operator must not change them at the same moment.
func (c *Client) StoreEpoch(ctx context.Context, stream, epoch string) (string, error) {
	info, err := c.info(ctx, stream, "", 0)
	if err != nil {
		return "", err
	}
	present, stored := EpochOf(&info.StreamInfo)
	if epoch == "" {
		epoch = present
	}
	if stored && epoch == present {
		return epoch, nil
	}
	cfg := info.Config
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[EpochKey] = epoch
	_, err = c.js.UpdateStream(ctx, cfg)
	return epoch, err
}
