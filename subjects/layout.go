package subjects

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

const (
	defaultPrefix = "tr"

	// maxPrefix bounds the prefix in bytes: with it the longest subject has
	// about 350 bytes, and stream names stay below the server's 255.
	maxPrefix = 128

	// maxPartitions bounds P. Each partition is a stream, and with replicas a
	// Raft group, of which a server carries about a thousand.
	maxPartitions = 1024
)

// Layout says how the names of one Tailrace begin and over how many streams
// its sessions are spread. The zero Layout is ready for use. All programs that
// share a log must have the same one.
type Layout struct {
	// Prefix begins every subject, and in capitals every stream and bucket.
	// It is one or more tokens with dots between. Defaults to "tr".
	Prefix string

	// Partitions is how many streams hold the log. A tree lives in one of
	// them, chosen by a hash of its root, so the number cannot be changed
	// while there are sessions. Defaults to 1, at most 1024.
	Partitions int

	// SnapshotBucket is the key-value bucket of the folds. Empty: the one that is
	// named after Prefix. It is another one after a rebuild beside the live one.
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

// Validate names the field that is wrong and its bounds. Subject, Tree and
// Command call it; the names that cannot fail do not.
func (l Layout) Validate() error {
	l = l.withDefaults()
	if l.Partitions < 1 || l.Partitions > maxPartitions {
		return fmt.Errorf("Partitions is %d, want 1 to %d", l.Partitions, maxPartitions)
	}
	if len(l.Prefix) > maxPrefix {
		return fmt.Errorf("Prefix has %d bytes, want at most %d", len(l.Prefix), maxPrefix)
	}
	if problem := tokenProblem(l.SnapshotBucket); l.SnapshotBucket != "" && problem != "" {
		return fmt.Errorf("SnapshotBucket %q %s", clip(l.SnapshotBucket), problem)
	}
	if l.Prefix == defaultPrefix {
		return nil
	}
	// The server and its clients keep subjects that begin with $ (which is no
	// token character) and _ (_INBOX, _GR_, _R_) for themselves.
	if l.Prefix[0] == '_' {
		return fmt.Errorf("Prefix %q: subjects that begin with _ are reserved by NATS", l.Prefix)
	}
	for tok := range strings.SplitSeq(l.Prefix, ".") {
		if problem := tokenProblem(tok); problem != "" {
			return fmt.Errorf("Prefix %q: token %q %s", clip(l.Prefix), clip(tok), problem)
		}
	}
	return nil
}

// PartitionCount is Partitions with its default.
func (l Layout) PartitionCount() int {
	return max(1, l.withDefaults().Partitions)
}

// Partition is the number of the stream that holds the tree of s: FNV-1a 32 of
// "<tenant>.<root>" modulo Partitions. That is what a server computes with
// {{partition(P)}} on a subject of just these two tokens.
func (l Layout) Partition(s chunk.Session) int {
	h := fnv1a(fnvOffset, s.Tenant)
	h = fnv1a(h, ".")
	h = fnv1a(h, s.Root)
	return int(uint64(h) % uint64(l.PartitionCount()))
}

// The hash is spelt out because Parse computes it for every message of the
// log, and hash/fnv would allocate a copy of both names each time.
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

// Stream is the name of the stream of partition p: TR_CHUNKS_<p>.
func (l Layout) Stream(p int) string { return l.ChunkStreams() + strconv.Itoa(p) }

// ChunkStreams is what the names of all partitions begin with: TR_CHUNKS_.
func (l Layout) ChunkStreams() string { return l.name("_CHUNKS_") }

// Snapshots is the name of the key-value bucket of the folds: TR_SNAPSHOTS, or
// SnapshotBucket.
func (l Layout) Snapshots() string {
	if l.SnapshotBucket != "" {
		return l.SnapshotBucket
	}
	return l.name("_SNAPSHOTS")
}

// Objects is the name of the object bucket of what is too large for a value:
// TR_OBJECTS.
func (l Layout) Objects() string { return l.name("_OBJECTS") }

// CommandStream is the name of the work queue: TR_COMMANDS.
func (l Layout) CommandStream() string { return l.name("_COMMANDS") }

// DeadLetterStream is the name of the stream of messages that could not be
// folded: TR_DEADLETTERS.
func (l Layout) DeadLetterStream() string { return l.name("_DEADLETTERS") }

// name is a stream name. Dots are not allowed in one; should two prefixes meet
// in the same name (a.b and a_b), topology refuses the second, because its
// streams listen on other subjects.
func (l Layout) name(suffix string) string {
	return strings.ToUpper(strings.ReplaceAll(l.withDefaults().Prefix, ".", "_")) + suffix
}
