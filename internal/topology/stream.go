package topology

import (
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/names"
)

const (
	// chunkWindow is the duplicate window of the streams of the log. Producers send no message ids, so it only limits the cost of ids of other programs:
	// about 130 bytes of server memory each. The server accepts no less than 100 ms, and 0 means its default of 2 minutes.
	chunkWindow = time.Second

	// commandWindow is the duplicate window of the work queue: a command that is resent after a lost response is stored once.
	commandWindow = 2 * time.Minute

	// deadlineAge is the retention of deadlines: the longest delay (commands.MaxDelay), and two days for a worker to take it.
	deadlineAge = 32 * 24 * time.Hour

	// usageAge is the retention of the tokens of a day: a month, and some days for its bill.
	usageAge = 40 * 24 * time.Hour

	// partitionsKey is the metadata key of the number of partitions, in each stream of the log.
	partitionsKey = "tailrace.partitions"

	// snapshotsKey is the metadata key of the partition of a bucket of snapshots. A bucket can have the name of that of another partition in another layout.
	snapshotsKey = "tailrace.snapshots"

	unlimited = -1
)

// streamSpec is the required configuration of a stream.
type streamSpec struct {
	jetstream.StreamConfig

	fields   map[string]string    // setting to the field of Config that decides it
	unset    []string             // settings that Config leaves to the stream: differences matter only if they break a guarantee
	exact    []string             // limits of which a lower value breaks a guarantee of this stream
	reserved []string             // subjects of all streams
	live     *jetstream.RePublish // what a stream of the log may republish
}

// streams returns the required configurations of all streams.
func (c Config) streams() []streamSpec {
	var all []streamSpec
	for p := range c.Layout.PartitionCount() {
		all = append(all, c.chunks(p))
	}
	all = append(all, c.commands(), c.deadlines(), c.inbox(), c.credentials(), c.usage())
	for p := range c.Layout.PartitionCount() {
		all = append(all, c.snapshots(p))
	}
	all = append(all, c.objects(), c.deadLetters(), c.audit())
	reserved := []string{names.Layout(c.Layout).AllInboxHints()}
	for p := range c.Layout.PartitionCount() {
		reserved = append(reserved, names.Layout(c.Layout).AllLive(p))
	}
	for _, stream := range all {
		reserved = append(reserved, stream.Subjects...)
	}
	for i := range all {
		all[i].reserved = reserved
	}
	return all
}

// stream returns the requirements of a stream, with what most streams have in common: no limit of the number of messages, and the size of a message of the log.
// field is that of its limits in Config.
func (c Config) stream(name, description, field string, limits Limits, subjects ...string) streamSpec {
	fields := map[string]string{
		subjectsSetting: "Layout", storageSetting: "Storage", replicasSetting: "Replicas", placementSetting: "Placement",
		maxBytesSetting: field + ".MaxBytes", maxMsgSizeSetting: "MaxMsgSize",
	}
	if limits.MaxAge != 0 {
		fields[maxAgeSetting] = field + ".MaxAge"
	}
	var unset []string
	for setting, field := range fields {
		if slices.Contains(c.unset, field) {
			unset = append(unset, setting)
		}
	}
	return streamSpec{fields: fields, unset: unset, StreamConfig: jetstream.StreamConfig{
		Name:              name,
		Description:       description,
		Subjects:          subjects,
		Retention:         jetstream.LimitsPolicy,
		Storage:           c.Storage,
		Placement:         c.Placement,
		Replicas:          c.Replicas,
		Discard:           jetstream.DiscardOld,
		MaxBytes:          limits.MaxBytes,
		MaxAge:            limits.MaxAge,
		MaxMsgs:           unlimited,
		MaxMsgsPerSubject: unlimited,
		MaxMsgSize:        c.MaxMsgSize,
		MaxConsumers:      unlimited,
		Duplicates:        commandWindow,
	}}
}

// boundConsumers makes a stream refuse consumers beyond Config.MaxConsumers.
func (c Config) boundConsumers(s *streamSpec) {
	s.MaxConsumers = c.MaxConsumers
	s.fields[maxConsumersSetting] = "MaxConsumers"
}

// chunks is one partition of the log. Single messages can be deleted, because the recovery of a run removes orphaned chunks. There are no message counters,
// fast batches, schedules or roll-ups, so that the headers of a message cannot do more than append it. Writers use atomic batches, see jsclient.SubjectPublisher.
func (c Config) chunks(p int) streamSpec {
	s := c.stream(c.Layout.Stream(p), "Tailrace: the log of sessions, partition "+strconv.Itoa(p), "Log", c.Log, names.Layout(c.Layout).AllFilter(p))
	c.boundConsumers(&s)
	s.Duplicates = chunkWindow
	s.AllowDirect = true
	s.AllowMsgTTL = true
	s.AllowAtomicPublish = true
	if s.live = jsinterest.Republish(c.Layout, p); c.Republish {
		s.RePublish = s.live
	}
	s.Metadata = map[string]string{partitionsKey: strconv.Itoa(c.Layout.PartitionCount())}
	return s
}

// commands is the work queue. If it is full it refuses new commands; it does not drop accepted ones.
func (c Config) commands() streamSpec {
	s := c.stream(names.Layout(c.Layout).CommandStream(), "Tailrace: commands that wait for a worker", "Commands", c.Commands, names.Layout(c.Layout).AllCommands())
	c.boundConsumers(&s)
	s.Retention = jetstream.WorkQueuePolicy
	s.Discard = jetstream.DiscardNew
	s.AllowDirect = true
	return s
}

// deadlines holds the deadlines of suspended runs. When a deadline is due, the server moves the message from its set to its due subject, and the
// acknowledgement of the worker removes it. It is not part of the work queue: a stream with schedules cannot refuse new messages when it is full, and a
// header can make it drop other messages (roll-ups), so it could lose accepted commands. Commands also need no retention as long as that of deadlines.
func (c Config) deadlines() streamSpec {
	s := c.stream(names.Layout(c.Layout).DeadlineStream(), "Tailrace: when to look at runs that wait", "Deadlines", c.Deadlines, names.Layout(c.Layout).AllDeadlines())
	c.boundConsumers(&s)
	s.exact = []string{maxAgeSetting, maxMsgsSetting, maxPerSubjectSetting} // the oldest deadlines would be lost
	s.Retention = jetstream.WorkQueuePolicy
	s.MaxAge = deadlineAge
	s.MaxMsgsPerSubject = 1
	s.AllowRollup = true
	s.AllowMsgSchedules = true
	return s
}

// values is the stream of a key-value bucket with the configuration that the client library requires; a test compares it with a bucket that the library
// creates.
func (c Config) values(bucket, description, field string, limits Limits) streamSpec {
	s := c.stream("KV_"+bucket, description, field, limits, "$KV."+bucket+".>")
	s.exact = []string{maxPerSubjectSetting}
	s.Discard = jetstream.DiscardNew
	s.MaxMsgsPerSubject = 1
	s.AllowRollup = true
	s.DenyDelete = true
	return s
}

// inbox is the stream of the bucket of answers and stop requests. Unlike a bucket of the library it has no direct reads, like objects: a stored answer must
// be visible to every later read. Stored messages are republished as hints for workers. A worker that subscribed to the subjects of the bucket itself would
// be notified before the answer is stored, and would not find it.
func (c Config) inbox() streamSpec {
	s := c.values(names.Layout(c.Layout).Inbox(), "Tailrace: what people say to runs", "Inbox", c.Inbox)
	s.RePublish = &jetstream.RePublish{Source: s.Subjects[0], Destination: names.Layout(c.Layout).AllInboxHints(), HeadersOnly: true}
	return s
}

// credentials is the stream of the bucket of revocations and tickets, each of which has a TTL. Like the inbox it has no direct reads, which a lagging replica
// may answer: a ticket that is spent must be spent for every later read. If it is full it refuses revocations; it does not drop one.
func (c Config) credentials() streamSpec {
	s := c.values(names.Layout(c.Layout).Credentials(), "Tailrace: revoked credentials and tickets", "Credentials", c.Credentials)
	s.exact = append(s.exact, maxAgeSetting) // a revocation that is removed early makes a token valid again
	s.AllowMsgTTL = true
	return s
}

// usage is the stream of the bucket of the tokens that tenants have used, one message for each tenant and day. It is not a stream of message counters: an increment
// is repeated without harm only while the server knows its id, see ADR 0031. Like the inbox it has no direct reads.
func (c Config) usage() streamSpec {
	s := c.values(names.Layout(c.Layout).Usage(), "Tailrace: tokens that tenants have used", "Usage", c.Usage)
	s.exact = append(s.exact, maxAgeSetting) // a number that is removed within its day would be the whole budget again
	s.MaxAge = usageAge
	return s
}

// snapshots is the stream of the bucket of heads and messages of partition p. The head of a deleted session has a TTL.
func (c Config) snapshots(p int) streamSpec {
	s := c.values(names.Layout(c.Layout).SnapshotsOf(p), "Tailrace: snapshots of sessions, partition "+strconv.Itoa(p), "Snapshots", Limits{MaxBytes: c.Snapshots.MaxBytes})
	s.fields[snapshotAgeSetting], s.fields[maxMsgSizeSetting] = "Snapshots.MaxAge", "MaxSnapshot"
	if slices.Contains(c.unset, "Snapshots.MaxAge") {
		s.unset = append(s.unset, snapshotAgeSetting)
	}
	s.exact = append(s.exact, maxAgeSetting, maxMsgSizeSetting) // a snapshot outlives the log, and is split by MaxSnapshot
	s.MaxMsgSize = c.MaxSnapshot
	s.AllowDirect = true
	s.AllowMsgTTL = true
	s.Metadata = map[string]string{snapshotsKey: strconv.Itoa(p)}
	if p == 0 {
		s.Metadata[jsclient.MaxAgeKey] = max(0, c.Snapshots.MaxAge).String()
	}
	return s
}

// objects is the stream of the bucket of large values. Unlike a bucket of the library it has no direct reads, which a lagging replica may answer: a missing
// object must be a deleted one.
func (c Config) objects() streamSpec {
	bucket := names.Layout(c.Layout).Objects()
	s := c.stream("OBJ_"+bucket, "Tailrace: what is too large for a snapshot's bucket", "Objects", c.Objects, "$O."+bucket+".C.>", "$O."+bucket+".M.>")
	s.exact = []string{maxAgeSetting, maxMsgSizeSetting}
	s.Discard = jetstream.DiscardNew
	s.MaxMsgSize = unlimited
	s.AllowRollup = true
	return s
}

// deadLetters is the stream of messages that could not be folded. It is read from the leader only, so that no read returns a deleted entry.
func (c Config) deadLetters() streamSpec {
	s := c.stream(names.Layout(c.Layout).DeadLetterStream(), "Tailrace: messages of the log that could not be folded", "DeadLetters", c.DeadLetters, names.Layout(c.Layout).AllDeadLetters()...)
	s.exact = []string{maxMsgSizeSetting} // it holds any message of the log
	s.MaxMsgSize = c.MaxMsgSize + HeaderReserve
	s.Duplicates = chunkWindow
	return s
}

// audit is the stream of the audit log. It is append only: the server refuses to delete or purge its messages, and does not let an update allow that again.
// If it is full it refuses events; it does not drop those of earlier acts for new ones.
func (c Config) audit() streamSpec {
	s := c.stream(names.Layout(c.Layout).AuditStream(), "Tailrace: acts and refused accesses", "Audit", c.Audit, names.Layout(c.Layout).AllAudit())
	s.Discard = jetstream.DiscardNew
	s.DenyDelete = true
	s.DenyPurge = true
	return s
}
