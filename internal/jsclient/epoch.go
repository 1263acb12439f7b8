package jsclient

import (
	"context"
	"crypto/rand"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// EpochKey is the metadata key of a stream with its epoch.
const EpochKey = "tailrace.epoch"

// NewEpoch returns a random epoch with 80 bits.
func NewEpoch() string { return strings.ToLower(rand.Text()[:16]) }

// EpochOf returns the epoch of a stream. A stream without one in its metadata, which another tool has created, has its creation time as its epoch. A malformed one,
// which a client could not send back in a cursor, counts as missing.
func EpochOf(info *jetstream.StreamInfo) string {
	if epoch := info.Config.Metadata[EpochKey]; chunk.IsStreamEpoch(epoch) {
		return epoch
	}
	return strconv.FormatInt(info.Created.UnixNano(), 36)
}

// RenewEpoch writes a new epoch into the metadata of a stream. The other settings stay as the server has them when the request begins; an operator must not
// change them at the same moment.
func (c *Client) RenewEpoch(ctx context.Context, stream string) error {
	info, err := c.info(ctx, stream, "", 0)
	if err != nil {
		return err
	}
	cfg := info.Config
	cfg.Metadata = map[string]string{}
	maps.Copy(cfg.Metadata, info.Config.Metadata)
	cfg.Metadata[EpochKey] = NewEpoch()
	_, err = c.js.UpdateStream(ctx, cfg)
	return err
}

// MaxAgeKey is the metadata key of the stream of the bucket of snapshots of partition 0 with the retention of a snapshot since the last record of its session, a
// duration; 0s is unlimited. A sweep applies it, not the server.
const MaxAgeKey = "tailrace.max-age"
