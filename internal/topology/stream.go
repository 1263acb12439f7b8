package topology

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// chunkWindow is how long a stream of the log remembers message ids. Our
	// writers send none, so it only bounds what a stranger's ids can cost:
	// about 130 bytes of the server's memory each, for this long. The server
	// takes no less than 100 ms, and 0 means its default of 2 minutes.
	chunkWindow = time.Second

	// commandWindow is how long the work queue does: a command sent again
	// after a lost answer is one command.
	commandWindow = 2 * time.Minute

	// deadlineAge is how long the server keeps a deadline: the longest that can be
	// set (commands.MaxDelay) and two days for a worker to come.
	deadlineAge = 32 * 24 * time.Hour

	// partitionsKey holds, in each stream of the log, the number of partitions
	// it was made for.
	partitionsKey = "tailrace.partitions"

	unlimited = -1
)

// wanted is a stream as it should be.
type wanted struct {
	jetstream.StreamConfig

	fields map[string]string // setting to the field of Config that decides it
}

// streams are all streams as they should be.
func (c Config) streams() []wanted {
	var all []wanted
	for p := range c.Layout.PartitionCount() {
		all = append(all, c.chunks(p))
	}
	return append(all, c.commands(), c.deadlines(), c.inbox(), c.snapshots(), c.objects(), c.deadLetters())
}

// chunks is one partition of the log. It may delete single messages, because
// recovering a run takes orphaned chunks back; it has no message counters,
// batches, schedules or roll-ups, so that a header cannot make it do more than
// append.
func (c Config) chunks(p int) wanted {
	stream := jetstream.StreamConfig{
		Name:              c.Layout.Stream(p),
		Description:       "Tailrace: the log of sessions, partition " + strconv.Itoa(p),
		Subjects:          []string{c.Layout.AllFilter(p)},
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxAge:            c.MaxAge,
		MaxBytes:          limit(c.MaxBytes),
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      c.MaxConsumers,
		Duplicates:        chunkWindow,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Metadata:          map[string]string{partitionsKey: strconv.Itoa(c.Layout.PartitionCount())},
	}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxAgeSetting:       "MaxAge",
		maxBytesSetting:     "MaxBytes",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// commands is the work queue. When it is full it refuses new commands: it does
// not drop one that it has accepted.
func (c Config) commands() wanted {
	stream := jetstream.StreamConfig{
		Name:              c.Layout.CommandStream(),
		Description:       "Tailrace: commands that wait for a worker",
		Subjects:          []string{c.Layout.AllCommands()},
		Retention:         jetstream.WorkQueuePolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardNew,
		MaxAge:            c.CommandMaxAge,
		MaxBytes:          unlimited,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      c.MaxConsumers,
		Duplicates:        commandWindow,
		AllowDirect:       true,
	}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxAgeSetting:       "CommandMaxAge",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// deadlines is where a worker is reminded of a run that waits. The server moves
// a message from its set to its due subject when its time comes, and the worker's
// acknowledgement removes it. It is not part of the work queue: a stream with
// schedules cannot refuse new messages when it is full, and a header can make it
// drop others (roll-ups), neither of which accepted commands could live with.
// Nor has a waiting command a reason to last as long as a deadline.
func (c Config) deadlines() wanted {
	stream := jetstream.StreamConfig{
		Name:              c.Layout.DeadlineStream(),
		Description:       "Tailrace: when to look at runs that wait",
		Subjects:          []string{c.Layout.AllDeadlines()},
		Retention:         jetstream.WorkQueuePolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxAge:            deadlineAge,
		MaxBytes:          unlimited,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      c.MaxConsumers,
		Duplicates:        commandWindow,
		AllowRollup:       true,
		AllowMsgSchedules: true,
	}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// values is the stream behind a bucket of values, with what the client library
// demands of one: a test compares it with what the library makes.
func (c Config) values(bucket, description string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + bucket,
		Description:       description,
		Subjects:          []string{"$KV." + bucket + ".>"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardNew,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: 1,
		MaxConsumers:      unlimited,
		Duplicates:        commandWindow,
		AllowRollup:       true,
		DenyDelete:        true,
	}
}

// inbox is the stream behind the bucket of what people say to runs. It is the
// library's but for direct reads, as with objects: an answer that somebody has
// stored must be there for whoever looks afterwards. What was stored is
// published again as a hint for workers. A worker that listened to the bucket's
// own subjects would hear of an answer before it is stored, look, and find
// nothing.
func (c Config) inbox() wanted {
	stream := c.values(c.Layout.Inbox(), "Tailrace: what people say to runs")
	stream.MaxAge = c.InboxMaxAge
	stream.MaxBytes = limit(c.InboxMaxBytes)
	stream.MaxMsgSize = c.MaxMsgSize
	stream.RePublish = &jetstream.RePublish{Source: stream.Subjects[0], Destination: c.Layout.AllInboxHints(), HeadersOnly: true}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxAgeSetting:     "InboxMaxAge",
		maxBytesSetting:   "InboxMaxBytes",
		maxMsgSizeSetting: "MaxMsgSize",
	}}
}

// snapshots is the stream behind the bucket of heads. That of a deleted session
// has a TTL.
func (c Config) snapshots() wanted {
	stream := c.values(c.Layout.Snapshots(), "Tailrace: snapshots of sessions")
	stream.MaxBytes = limit(c.SnapshotMaxBytes)
	stream.MaxMsgSize = c.MaxSnapshot
	stream.AllowDirect = true
	stream.AllowMsgTTL = true
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxBytesSetting:   "SnapshotMaxBytes",
		maxMsgSizeSetting: "MaxSnapshot",
	}}
}

// objects is the stream behind the bucket of what is too large for a value. It is
// the library's but for direct reads: these may be answered by a replica that
// lags, and an object that is not there must be one that was deleted.
func (c Config) objects() wanted {
	bucket := c.Layout.Objects()
	stream := jetstream.StreamConfig{
		Name:              "OBJ_" + bucket,
		Description:       "Tailrace: what is too large for a snapshot's bucket",
		Subjects:          []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardNew,
		MaxBytes:          limit(c.ObjectMaxBytes),
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        unlimited,
		MaxConsumers:      unlimited,
		Duplicates:        commandWindow,
		AllowRollup:       true,
	}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting: "Layout",
		storageSetting:  "Storage",
		replicasSetting: "Replicas",
		maxBytesSetting: "ObjectMaxBytes",
	}}
}

// deadLetters is the stream of messages that could not be folded. It is read from
// the leader only, so that a letter that was dropped is gone for whoever looks.
func (c Config) deadLetters() wanted {
	stream := jetstream.StreamConfig{
		Name:              c.Layout.DeadLetterStream(),
		Description:       "Tailrace: messages of the log that could not be folded",
		Subjects:          c.Layout.AllDeadLetters(),
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxAge:            c.DeadLetterMaxAge,
		MaxBytes:          c.DeadLetterMaxBytes,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        c.MaxMsgSize + HeaderRoom,
		MaxConsumers:      unlimited,
		Duplicates:        chunkWindow,
	}
	return wanted{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxAgeSetting:     "DeadLetterMaxAge",
		maxBytesSetting:   "DeadLetterMaxBytes",
		maxMsgSizeSetting: "MaxMsgSize",
	}}
}

// limit turns our 0 into the server's way to say unlimited.
func limit(n int64) int64 {
	if n == 0 {
		return unlimited
	}
	return n
}
