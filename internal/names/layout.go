package names

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

const (
	defaultPrefix = "tr"

	// maxPrefix limits the prefix in bytes: with it the longest subject has about 600 bytes, and stream names stay below the server's limit of 255.
	maxPrefix = 128

	// maxPartitions limits the number of partitions. Each has a stream of the log and a bucket of snapshots, which are Raft groups with replicas.
	maxPartitions = 64
)

// Layout is a subjects.Layout.
type Layout struct {
	Prefix         string
	Partitions     int
	SnapshotBucket string
}

func (l Layout) withDefaults() Layout {
	if l.Prefix == "" {
		l.Prefix = defaultPrefix
	}
	if l.Partitions == 0 {
		l.Partitions = 1
	}
	return l
}

// Validate returns an error that names the invalid field and its bounds. The methods that return an error call it; the others do not.
func (l Layout) Validate() error {
	l = l.withDefaults()
	if l.Partitions < 1 || l.Partitions > maxPartitions {
		return fmt.Errorf("Partitions is %d, want 1 to %d", l.Partitions, maxPartitions)
	}
	if len(l.Prefix) > maxPrefix {
		return fmt.Errorf("Prefix has %d bytes, want at most %d", len(l.Prefix), maxPrefix)
	}
	if problem := idtoken.Problem(l.SnapshotBucket); l.SnapshotBucket != "" && problem != "" {
		return fmt.Errorf("SnapshotBucket %q %s", clip(l.SnapshotBucket), problem)
	}
	if l.Prefix == defaultPrefix {
		return nil
	}
	// The server and its clients reserve subjects that start with $ (not allowed in tokens) and _ (_INBOX, _GR_, _R_).
	if l.Prefix[0] == '_' {
		return fmt.Errorf("Prefix %q: subjects that begin with _ are reserved by NATS", l.Prefix)
	}
	for tok := range strings.SplitSeq(l.Prefix, ".") {
		if problem := idtoken.Problem(tok); problem != "" {
			return fmt.Errorf("Prefix %q: token %q %s", clip(l.Prefix), clip(tok), problem)
		}
	}
	return nil
}

// PartitionCount returns Partitions with its default.
func (l Layout) PartitionCount() int {
	return max(1, l.withDefaults().Partitions)
}

// Partition returns the number of the stream that holds the tree of s: FNV-1a 32 of the tokens "<tenant>.<root>" modulo Partitions. A server computes the same number with
// {{partition(P)}} on a subject of just these two tokens.
func (l Layout) Partition(s chunk.Session) int { return l.partitionOf(s.Tenant, idtoken.Of(s.Root)) }

// partitionOf is Partition for the tokens of a tenant and a root.
func (l Layout) partitionOf(tenant, root string) int {
	h := fnv1a(fnvOffset, tenant)
	h = fnv1a(h, ".")
	h = fnv1a(h, root)
	return int(uint64(h) % uint64(l.PartitionCount()))
}

// The hash is computed here because Parse needs it for every message of the log, and hash/fnv would allocate a copy of both names each time.
const (
	fnvOffset uint32 = 2166136261
	fnvPrime  uint32 = 16777619
)

func fnv1a(h uint32, s string) uint32 {
	for i := range len(s) {
		h ^= uint32(s[i])
		h *= fnvPrime
	}
	return h
}

// Stream returns the name of the stream of partition p: TR_CHUNKS_<p>.
func (l Layout) Stream(p int) string { return l.ChunkStreams() + strconv.Itoa(p) }

// ChunkStreams returns the prefix of the names of all partitions: TR_CHUNKS_.
func (l Layout) ChunkStreams() string { return l.name("_CHUNKS_") }

// Snapshots returns the name of the key-value bucket of the snapshots of partition 0: TR_SNAPSHOTS, or SnapshotBucket. It also has the leases of projectors and
// of their tasks.
func (l Layout) Snapshots() string {
	if l.SnapshotBucket != "" {
		return l.SnapshotBucket
	}
	return l.name("_SNAPSHOTS")
}

// SnapshotsOf returns the name of the key-value bucket of the snapshots of partition p: Snapshots for partition 0, and TR_SNAPSHOTS_<p> for the others. The
// bucket of partition 0 may have the snapshots of all partitions, see topology.
func (l Layout) SnapshotsOf(p int) string {
	if p == 0 {
		return l.Snapshots()
	}
	return l.Snapshots() + "_" + strconv.Itoa(p)
}

// Objects returns the name of the object bucket for data that is too large for a value: TR_OBJECTS.
func (l Layout) Objects() string { return l.name("_OBJECTS") }

// Values returns the beginning $O.TR_OBJECTS.C.v.<tenant>.<root>.<session> of the subjects of the large values of a session. The error is a *TokenError.
func (l Layout) Values(s chunk.Session) (string, error) {
	return valid(l.valuesOf(sessionTokens(s)), CheckSession(s))
}

// TenantValues returns the filter $O.TR_OBJECTS.C.v.<tenant>.> of the large values of a tenant, which may be * for all.
func (l Layout) TenantValues(tenant string) string { return l.valuesOf(tenant) + ".>" }

// AllUploads returns the filter $O.TR_OBJECTS.C.v.*.*.*.0.upload.> of the files of users whose messages no run has written yet.
func (l Layout) AllUploads() string { return l.valuesOf("*.*.*") + ".0.upload.>" }

// ParseValue returns the session of the subject of a large value, and what follows it. The error is a *ParseError.
func (l Layout) ParseValue(subject string) (s chunk.Session, rest string, err error) {
	tokens := strings.SplitN(strings.TrimPrefix(subject, l.valuesOf("")), ".", 4)
	if len(tokens) < 4 || !strings.HasPrefix(subject, l.valuesOf("")) {
		return s, "", newParseError(subject, "want "+l.valuesOf("<tenant>.<root>.<session>.…"), nil)
	}
	if s, err = parseSession(tokens[0], tokens[1], tokens[2]); err != nil {
		return s, "", newParseError(subject, err.Error(), err)
	}
	return s, tokens[3], nil
}

func (l Layout) valuesOf(tokens string) string { return "$O." + l.Objects() + ".C.v." + tokens }

// CommandStream returns the name of the work queue: TR_COMMANDS.
func (l Layout) CommandStream() string { return l.name("_COMMANDS") }

// DeadLetterStream returns the name of the stream of messages that could not be folded: TR_DEADLETTERS.
func (l Layout) DeadLetterStream() string { return l.name("_DEADLETTERS") }

// name returns a stream name. It must not contain dots. If two prefixes result in the same name (a.b and a_b), topology rejects the second, because its streams
// have other subjects.
func (l Layout) name(suffix string) string {
	return strings.ToUpper(strings.ReplaceAll(l.withDefaults().Prefix, ".", "_")) + suffix
}
