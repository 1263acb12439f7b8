package topology

import (
	"cmp"
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

// Limits are the size in bytes and the age of a new stream or bucket. 0 is the default; Off is unlimited, which is the default of all sizes but one.
//
// An operator may change them later, with `nats stream edit`. Those of an existing stream are compared with the limits that are set, so that a program that sets
// none accepts every size and age with which all guarantees hold.
type Limits struct {
	MaxBytes int64
	MaxAge   time.Duration
}

// Config configures the streams. The zero Config is ready for one server. In every field 0 means the default.
type Config struct {
	// Layout names the streams and buckets and sets the number of partitions.
	Layout subjects.Layout

	// Replicas is 1, or 3 on a cluster, which tolerates the loss of one server. Defaults to 1.
	Replicas int

	// Storage defaults to files. Memory is for tests; it loses all data when the server stops.
	Storage jetstream.StorageType

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

	// Log are the limits of each stream of the log. The age defaults to 72 hours; beyond the size the oldest records are removed.
	Log Limits

	// Commands are those of the work queue. A command that no worker has taken expires after 24 hours by default; beyond the size commands are refused.
	Commands Limits

	// Deadlines have a size alone. Beyond it the oldest deadlines are lost: a stream with schedules cannot refuse messages.
	Deadlines Limits

	// Inbox are those of the bucket of answers and stop requests. The age defaults to 30 days; beyond the size writes are refused.
	Inbox Limits

	// Credentials, the bucket of revocations and tickets, have a size alone, beyond which they are refused. A revocation takes about 300 bytes for 30 days.
	Credentials Limits

	// Usage, the bucket of used tokens, has a size alone, beyond which they are not stored. A tenant takes about 300 bytes a day, and 13 KiB if 256 processes or more
	// work for it, for 40 days.
	Usage Limits

	// Snapshots are those of each bucket of snapshots. The age is that of a snapshot since the last record of its session, at least that of the log: 90 days by default,
	// or that of the log if it is longer. It is in the metadata of the bucket of partition 0 (jsclient.MaxAgeKey), and the sweep of a projector removes older snapshots:
	// the messages of a session are written once, so a maximum age of the stream would remove them before its head. Beyond the size writes are refused.
	Snapshots Limits

	// Objects, the bucket of large values, have a size alone, beyond which writes are refused.
	Objects Limits

	// DeadLetters are those of messages that could not be folded. The age defaults to 30 days, and the size, which the server reserves at once, to 64 MiB; beyond it
	// the oldest are removed.
	DeadLetters Limits

	// Audit are those of the audit log. The age defaults to 90 days; beyond the size events are refused.
	Audit Limits

	// OnDifferences, if not nil, gets the differences of all classes each time that Ensure or Check has compared the streams, also if there are none.
	OnDifferences func([]Difference)

	// OnInfo, if not nil, gets what the server has reported of each stream that CheckEach compares, possibly concurrently.
	OnInfo func(*jetstream.StreamInfo)

	// MaxSnapshot is the largest value in the bucket of snapshots in bytes, headers included. Defaults to 1 MiB, the default max_payload of the server.
	MaxSnapshot int32

	unset []string // the limits that withDefaults has set, such as Log.MaxAge
}

// limitField is one of Limits.
type limitField struct {
	name     string
	value    *int64 // bytes or nanoseconds
	standard int64  // its default
	min      int64  // 0 if a value below 0 is unlimited
}

func limitFields(c *Config) []limitField {
	size := func(name string, l *Limits) limitField {
		return limitField{name: name + ".MaxBytes", value: &l.MaxBytes, standard: unlimited}
	}
	age := func(name string, l *Limits, standard, shortest time.Duration) limitField {
		return limitField{name: name + ".MaxAge", value: (*int64)(&l.MaxAge), standard: int64(standard), min: int64(shortest)}
	}
	return []limitField{
		size("Log", &c.Log), age("Log", &c.Log, 72*time.Hour, minAge),
		size("Commands", &c.Commands), age("Commands", &c.Commands, 24*time.Hour, commandWindow),
		size("Deadlines", &c.Deadlines),
		size("Inbox", &c.Inbox), age("Inbox", &c.Inbox, 30*24*time.Hour, commandWindow),
		size("Credentials", &c.Credentials),
		size("Usage", &c.Usage),
		size("Snapshots", &c.Snapshots), age("Snapshots", &c.Snapshots, max(90*24*time.Hour, c.Log.MaxAge), 0),
		size("Objects", &c.Objects),
		{name: "DeadLetters.MaxBytes", value: &c.DeadLetters.MaxBytes, standard: 64 << 20, min: 1 << 20}, age("DeadLetters", &c.DeadLetters, 30*24*time.Hour, minAge),
		size("Audit", &c.Audit), age("Audit", &c.Audit, 90*24*time.Hour, commandWindow),
	}
}

func (c Config) withDefaults() Config {
	c.Replicas = cmp.Or(c.Replicas, 1)
	c.MaxMsgSize = cmp.Or(c.MaxMsgSize, MaxChunk+HeaderReserve)
	c.MaxConsumers = cmp.Or(c.MaxConsumers, 4096)
	c.MaxSnapshot = cmp.Or(c.MaxSnapshot, 1<<20)
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
		case strings.HasSuffix(limit.name, "MaxAge"):
			return fmt.Errorf("%s is %s, want at least %s", limit.name, time.Duration(*limit.value), time.Duration(limit.min))
		default:
			return fmt.Errorf("%s is %d, want at least %d", limit.name, *limit.value, limit.min)
		}
	}
	for name, l := range map[string]Limits{"Deadlines": c.Deadlines, "Credentials": c.Credentials, "Usage": c.Usage, "Objects": c.Objects} {
		if l.MaxAge != 0 {
			return fmt.Errorf("%s.MaxAge is %s, want none: their age is fixed", name, l.MaxAge)
		}
	}
	if age := c.Snapshots.MaxAge; age > 0 && age < c.Log.MaxAge {
		return fmt.Errorf("Snapshots.MaxAge is %s, want unlimited or at least Log.MaxAge, %s: a snapshot outlives the log", age, c.Log.MaxAge)
	}
	return nil
}
