package topology

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// chunkWindow is the duplicate window of the streams of the log. Producers send no message ids, so it only limits the cost of ids of other programs:
	// about 130 bytes of server memory each. The server accepts no less than 100 ms, and 0 means its default of 2 minutes.
	chunkWindow = time.Second

	// commandWindow is the duplicate window of the work queue: a command that is resent after a lost response is stored once.
	commandWindow = 2 * time.Minute

	// deadlineAge is the retention of deadlines: the longest delay (commands.MaxDelay), and two days for a worker to take it.
	deadlineAge = 32 * 24 * time.Hour

	// partitionsKey is the metadata key of the number of partitions, in each stream of the log.
	partitionsKey = "tailrace.partitions"

	unlimited = -1
)

// streamSpec is the required configuration of a stream.
type streamSpec struct {
	jetstream.StreamConfig

	fields map[string]string // setting to the field of Config that decides it
}

// streams returns the required configurations of all streams.
func (c Config) streams() []streamSpec {
	var all []streamSpec
	for p := range c.Layout.PartitionCount() {
		all = append(all, c.chunks(p))
	}
	return append(all, c.commands(), c.deadlines(), c.inbox(), c.snapshots(), c.objects(), c.deadLetters())
}

// chunks is one partition of the log. Single messages can be deleted, because the recovery of a run removes orphaned chunks. There are no message counters,
// batches, schedules or roll-ups, so that the headers of a message cannot do more than append it.
func (c Config) chunks(p int) streamSpec {
	stream := jetstream.StreamConfig{
		Name:              c.Layout.Stream(p),
		Description:       "Tailrace: the log of sessions, partition " + strconv.Itoa(p),
		Subjects:          []string{c.Layout.AllFilter(p)},
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxAge:            c.MaxAge,
		MaxBytes:          c.MaxBytes,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      c.MaxConsumers,
		Duplicates:        chunkWindow,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		Metadata:          map[string]string{partitionsKey: strconv.Itoa(c.Layout.PartitionCount())},
	}
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxAgeSetting:       "MaxAge",
		maxBytesSetting:     "MaxBytes",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// commands is the work queue. If it is full it refuses new commands; it does not drop accepted ones.
func (c Config) commands() streamSpec {
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
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxAgeSetting:       "CommandMaxAge",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// deadlines holds the deadlines of suspended runs. When a deadline is due, the server moves the message from its set to its due subject, and the
// acknowledgement of the worker removes it. It is not part of the work queue: a stream with schedules cannot refuse new messages when it is full, and a
// header can make it drop other messages (roll-ups), so it could lose accepted commands. Commands also need no retention as long as that of deadlines.
func (c Config) deadlines() streamSpec {
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
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:     "Layout",
		storageSetting:      "Storage",
		replicasSetting:     "Replicas",
		maxMsgSizeSetting:   "MaxMsgSize",
		maxConsumersSetting: "MaxConsumers",
	}}
}

// values is the stream of a key-value bucket with the configuration that the client library requires; a test compares it with a bucket that the library
// creates.
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

// inbox is the stream of the bucket of answers and stop requests. Unlike a bucket of the library it has no direct reads, like objects: a stored answer must
// be visible to every later read. Stored messages are republished as hints for workers. A worker that subscribed to the subjects of the bucket itself would
// be notified before the answer is stored, and would not find it.
func (c Config) inbox() streamSpec {
	stream := c.values(c.Layout.Inbox(), "Tailrace: what people say to runs")
	stream.MaxAge = c.InboxMaxAge
	stream.MaxBytes = c.InboxMaxBytes
	stream.MaxMsgSize = c.MaxMsgSize
	stream.RePublish = &jetstream.RePublish{Source: stream.Subjects[0], Destination: c.Layout.AllInboxHints(), HeadersOnly: true}
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxAgeSetting:     "InboxMaxAge",
		maxBytesSetting:   "InboxMaxBytes",
		maxMsgSizeSetting: "MaxMsgSize",
	}}
}

// snapshots is the stream of the bucket of heads and messages. The head of a deleted session has a TTL.
func (c Config) snapshots() streamSpec {
	stream := c.values(c.Layout.Snapshots(), "Tailrace: snapshots of sessions")
	stream.MaxBytes = c.SnapshotMaxBytes
	stream.MaxMsgSize = c.MaxSnapshot
	stream.AllowDirect = true
	stream.AllowMsgTTL = true
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxBytesSetting:   "SnapshotMaxBytes",
		maxMsgSizeSetting: "MaxSnapshot",
	}}
}

// objects is the stream of the bucket of large values. Unlike a bucket of the library it has no direct reads, which a lagging replica may answer: a missing
// object must be a deleted one.
func (c Config) objects() streamSpec {
	bucket := c.Layout.Objects()
	stream := jetstream.StreamConfig{
		Name:              "OBJ_" + bucket,
		Description:       "Tailrace: what is too large for a snapshot's bucket",
		Subjects:          []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardNew,
		MaxBytes:          c.ObjectMaxBytes,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        unlimited,
		MaxConsumers:      unlimited,
		Duplicates:        commandWindow,
		AllowRollup:       true,
	}
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting: "Layout",
		storageSetting:  "Storage",
		replicasSetting: "Replicas",
		maxBytesSetting: "ObjectMaxBytes",
	}}
}

// deadLetters is the stream of messages that could not be folded. It is read from the leader only, so that no read returns a deleted entry.
func (c Config) deadLetters() streamSpec {
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
		MaxMsgSize:        c.MaxMsgSize + HeaderReserve,
		MaxConsumers:      unlimited,
		Duplicates:        chunkWindow,
	}
	return streamSpec{StreamConfig: stream, fields: map[string]string{
		subjectsSetting:   "Layout",
		storageSetting:    "Storage",
		replicasSetting:   "Replicas",
		maxAgeSetting:     "DeadLetterMaxAge",
		maxBytesSetting:   "DeadLetterMaxBytes",
		maxMsgSizeSetting: "MaxMsgSize",
	}}
}
