package subjects

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// MaxToken is the maximum length of a token in bytes. Four of them with the prefix stay far below the 4 KiB control line at which the server closes a
// connection.
const MaxToken = names.MaxToken

// Layout configures the names of one deployment and the number of its partitions. The zero Layout is ready for use. All processes that share a log must have
// the same Layout.
type Layout struct {
	// Prefix starts every subject, and in upper case every stream and bucket. It is one or more tokens separated by dots. Defaults to "tr".
	Prefix string

	// Partitions is the number of streams of the log. A tree is in one of them, selected by a hash of its root, so the number is fixed when the streams are created
	// (ADR 0043). Defaults to 1; at most 64.
	Partitions int

	// SnapshotBucket is the key-value bucket of the snapshots of partition 0, and the beginning of the names of those of the other partitions. If empty, its name is
	// derived from Prefix. After a rebuild into other buckets it is the name of the first of them.
	SnapshotBucket string
}

// Validate returns an error that names the invalid field and its bounds. The methods that return an error call it; the others do not.
func (l Layout) Validate() error { return names.Layout(l).Validate() }

// PartitionCount returns Partitions with its default.
func (l Layout) PartitionCount() int { return names.Layout(l).PartitionCount() }

// Partition returns the number of the stream that holds the tree of s: FNV-1a 32 of the tokens "<tenant>.<root>" modulo Partitions. A server computes the same number with
// {{partition(P)}} on a subject of just these two tokens.
func (l Layout) Partition(s chunk.Session) int { return names.Layout(l).Partition(s) }

// Stream returns the name of the stream of partition p: TR_CHUNKS_<p>.
func (l Layout) Stream(p int) string { return names.Layout(l).Stream(p) }

// Subject returns the literal subject of s: tr.chunks.<p>.<tenant>.<root>.<session>. The error is a chunk.ErrInvalid, or reports an invalid Layout.
func (l Layout) Subject(s chunk.Session) (string, error) { return names.Layout(l).Subject(s) }

// Tree returns the filter tr.chunks.<p>.<tenant>.<root>.* of all sessions under the root of s, including the root. The error is that of Subject.
func (l Layout) Tree(s chunk.Session) (string, error) { return names.Layout(l).Tree(s) }

// Parse is the inverse of Subject: it accepts exactly the output of Subject, in the partition of the session. The session shares the memory of the subject, but
// for ids that are escaped in it.
func (l Layout) Parse(subject string) (chunk.Session, error) { return names.Layout(l).Parse(subject) }

// CheckToken checks whether tok may be a token of a subject: 1 to 64 of the characters A-Z a-z 0-9 _ -. The error has the field, and is a chunk.ErrInvalid.
func CheckToken(field, tok string) error { return names.CheckToken(field, tok) }

// CheckID checks whether id may be the id of a session: 1 to 64 of the characters of a URI but the star, which is a wildcard in grants: A-Z a-z 0-9 and
// -._~:/?#[]@!$&'()+,;=%, and no segment of a path that is "." or "..", which clients and proxies remove from a URL. Subjects have it escaped, as
// docs/reference/log.md shows. The error has the field, and is a chunk.ErrInvalid. Source: https://www.rfc-editor.org/rfc/rfc3986#section-2
func CheckID(field, id string) error { return names.CheckID(field, id) }
