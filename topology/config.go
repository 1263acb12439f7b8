package topology

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/subjects"
)

const (
	// MaxChunk is the largest stored body of a chunk in bytes.
	MaxChunk = 512 << 10

	// HeaderReserve is the additional size of a message for its headers, which the server counts as part of it. A record has 300 bytes of headers, and
	// about 2 KiB with a trace context and the longest names; other producers of CloudEvents may need more.
	HeaderReserve = 16 << 10
)

// Off removes the limit of a Config field that supports it.
const Off = -1

// Config configures the streams. The zero Config is ready for one server. In every field 0 means the default, and Off (a negative number) is unlimited where
// the field supports it.
//
// Sizes (MaxBytes) and ages (MaxAge) are those of new streams: an operator may change them later, with `nats stream edit`. Of an existing stream they are compared with
// the fields that are set, so that a program that sets none accepts every size and age with which all guarantees hold.
type Config struct {
	// Layout names the streams and buckets and sets the number of partitions.
	Layout subjects.Layout

	// Replicas is 1, or 3 on a cluster, which tolerates the loss of one server. Defaults to 1.
	Replicas int

	// Storage defaults to files. Memory is for tests; it loses all data when the server stops.
	Storage jetstream.StorageType

	// MaxAge is the retention of records in the log. Defaults to 72 hours.
	MaxAge time.Duration

	// MaxBytes is the maximum size of each stream of the log; beyond it the oldest records are removed. Defaults to Off: limited by the disk only.
	MaxBytes int64

	// MaxMsgSize is the largest message of the log, of the work queue and of the inbox in bytes, headers included. Defaults to MaxChunk + HeaderReserve; the
	// server's max_payload must be as large.
	MaxMsgSize int32

	// MaxConsumers limits the consumers of each stream of the log: one per edge, projector and firehose, and one for each catch-up in progress. Each takes
	// about 25 KB of memory in the server. Defaults to 4096; the server's default of 1000 is too low for a fleet of edges after a restart.
	MaxConsumers int

	// Republish makes new streams of the log publish each stored message again, under subjects.Layout.AllLive, for edges that follow the sessions they serve and
	// not whole partitions. Such a stream takes about half as many messages per second. Streams that republish are accepted without Republish too.
	Republish bool

	// Placement, if not nil, is the cluster and the tags of the servers that get new streams. That of existing streams is the operator's decision.
	Placement *jetstream.Placement

	// CommandMaxAge is the age at which a command that no worker has taken expires, and CommandMaxBytes the maximum size of the work queue, beyond which
	// commands are refused. They default to 24 hours and Off: limited by the disk only.
	CommandMaxAge   time.Duration
	CommandMaxBytes int64

	// DeadlineMaxBytes is the maximum size of the stream of deadlines. Beyond it the oldest deadlines are lost: a stream with schedules cannot refuse messages.
	// Defaults to Off: limited by the disk only.
	DeadlineMaxBytes int64

	// InboxMaxAge is the retention of answers in the inbox, and InboxMaxBytes the maximum size of the inbox, beyond which writes are refused. They default
	// to 30 days and Off: limited by the disk only.
	InboxMaxAge   time.Duration
	InboxMaxBytes int64

	// CredentialMaxBytes is the maximum size of the bucket of revocations and tickets, beyond which they are refused. A revocation takes about 300 bytes for 30
	// days. Defaults to Off: limited by the disk only.
	CredentialMaxBytes int64

	// UsageMaxBytes is the maximum size of the bucket of used tokens, beyond which they are not stored. A tenant takes about 300 bytes a day, and 13 KiB if 256
	// processes or more work for it, for 40 days. Defaults to Off: limited by the disk only.
	UsageMaxBytes int64

	// SnapshotMaxAge is the retention of the snapshot of a session since its last record, at least MaxAge; Off is unlimited. It is in the metadata of the bucket of
	// partition 0 (jsclient.MaxAgeKey), and the sweep of a projector removes older ones: the messages of a session are written once, so a maximum age of the
	// stream would remove them before its head. Defaults to 90 days, or MaxAge if that is longer.
	SnapshotMaxAge time.Duration

	// SnapshotMaxBytes is the maximum size of each bucket of snapshots, beyond which writes are refused. Defaults to Off: limited by the disk only.
	SnapshotMaxBytes int64

	// ObjectMaxBytes is the maximum size of the bucket of large values, beyond which writes are refused. Defaults to Off: limited by the disk only.
	ObjectMaxBytes int64

	// DeadLetterMaxAge is the retention of messages that could not be folded. Defaults to 30 days.
	DeadLetterMaxAge time.Duration

	// DeadLetterMaxBytes is the maximum size of their stream, which the server reserves at once; beyond it the oldest are removed. Defaults to 64 MiB.
	DeadLetterMaxBytes int64

	// AuditMaxAge is the retention of the audit log, and AuditMaxBytes the maximum size of its stream, beyond which events are refused. They default to 90 days
	// and Off: limited by the disk only.
	AuditMaxAge   time.Duration
	AuditMaxBytes int64

	// OnDifferences, if not nil, gets the differences of all classes each time that Ensure or Check has compared the streams, also if there are none.
	OnDifferences func([]Difference)

	// OnInfo, if not nil, gets what the server has reported of each stream that CheckEach compares, possibly concurrently.
	OnInfo func(*jetstream.StreamInfo)

	// MaxSnapshot is the largest value in the bucket of snapshots in bytes, headers included. Defaults to 1 MiB, the default max_payload of the server.
	MaxSnapshot int32

	unset []string // the sizes and ages that withDefaults has set
}

// limitField is a field of Config with a size or an age of new streams.
type limitField struct {
	name     string
	value    *int64 // bytes or nanoseconds
	standard int64  // its default
	min      int64  // 0 if a value below 0 means the default
}

func limitFields(c *Config) []limitField {
	bytes := func(name string, value *int64) limitField {
		return limitField{name: name, value: value, standard: unlimited}
	}
	age := func(name string, value *time.Duration, standard, shortest time.Duration) limitField {
		return limitField{name: name, value: (*int64)(value), standard: int64(standard), min: int64(shortest)}
	}
	return []limitField{
		age("MaxAge", &c.MaxAge, 72*time.Hour, minAge),
		bytes("MaxBytes", &c.MaxBytes),
		age("CommandMaxAge", &c.CommandMaxAge, 24*time.Hour, commandWindow),
		bytes("CommandMaxBytes", &c.CommandMaxBytes),
		bytes("DeadlineMaxBytes", &c.DeadlineMaxBytes),
		age("InboxMaxAge", &c.InboxMaxAge, 30*24*time.Hour, commandWindow),
		bytes("InboxMaxBytes", &c.InboxMaxBytes),
		bytes("CredentialMaxBytes", &c.CredentialMaxBytes),
		bytes("UsageMaxBytes", &c.UsageMaxBytes),
		age("SnapshotMaxAge", &c.SnapshotMaxAge, max(90*24*time.Hour, c.MaxAge), 0),
		bytes("SnapshotMaxBytes", &c.SnapshotMaxBytes),
		bytes("ObjectMaxBytes", &c.ObjectMaxBytes),
		age("DeadLetterMaxAge", &c.DeadLetterMaxAge, 30*24*time.Hour, minAge),
		{name: "DeadLetterMaxBytes", value: &c.DeadLetterMaxBytes, standard: 64 << 20, min: 1 << 20},
		age("AuditMaxAge", &c.AuditMaxAge, 90*24*time.Hour, commandWindow),
		bytes("AuditMaxBytes", &c.AuditMaxBytes),
	}
}

func (c Config) withDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.MaxMsgSize == 0 {
		c.MaxMsgSize = MaxChunk + HeaderReserve
	}
	if c.MaxConsumers == 0 {
		c.MaxConsumers = 4096
	}
	if c.MaxSnapshot == 0 {
		c.MaxSnapshot = 1 << 20
	}
	for _, limit := range limitFields(&c) {
		switch {
		case *limit.value == 0:
			*limit.value, c.unset = limit.standard, append(c.unset, limit.name)
		case *limit.value < 0 && limit.min == 0:
			*limit.value = unlimited
		}
	}
	return c
}

// minAge is the shortest age of the records of a stream.
const minAge = time.Minute

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	switch {
	case c.Replicas != 1 && c.Replicas != 3:
		return fmt.Errorf("Replicas is %d, want 1 or 3", c.Replicas)
	case c.MaxMsgSize < HeaderReserve:
		return fmt.Errorf("MaxMsgSize is %d, want at least %d, the reserve for headers", c.MaxMsgSize, HeaderReserve)
	case c.MaxConsumers < 1:
		return fmt.Errorf("MaxConsumers is %d, want at least 1", c.MaxConsumers)
	case c.MaxSnapshot < HeaderReserve:
		return fmt.Errorf("MaxSnapshot is %d, want at least %d", c.MaxSnapshot, HeaderReserve)
	}
	for _, limit := range limitFields(&c) {
		switch {
		case limit.min == 0 || *limit.value >= limit.min:
		case *limit.value == Off:
			return fmt.Errorf("%s is unlimited, want at least %s", limit.name, time.Duration(limit.min))
		case strings.HasSuffix(limit.name, "Age"):
			return fmt.Errorf("%s is %s, want at least %s", limit.name, time.Duration(*limit.value), time.Duration(limit.min))
		default:
			return fmt.Errorf("%s is %d, want at least %d", limit.name, *limit.value, limit.min)
		}
	}
	if c.SnapshotMaxAge > 0 && c.SnapshotMaxAge < c.MaxAge {
		return fmt.Errorf("SnapshotMaxAge is %s, want unlimited or at least MaxAge, %s: a snapshot outlives the log", c.SnapshotMaxAge, c.MaxAge)
	}
	return nil
}
