package archive

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// version is of the form of segments and index, and of what codec makes of a
// message: whoever changes either counts it up, and older archives fit no more.
const version = 1

// Index says what an archive has.
type Index struct {
	Version  int       `json:"version"`
	Created  time.Time `json:"created"` // of the stream of the log
	Messages uint64    `json:"messages"`
	Last     Tail      `json:"last"`
	Segments []Segment `json:"segments"`
}

// Tail is the last message of a session.
type Tail struct {
	Seq    chunk.Seq `json:"seq"`
	Stored int64     `json:"stored"` // Unix nanoseconds
}

// Segment is a run of neighbouring records that were packed together.
type Segment struct {
	At     uint64    `json:"at"` // sequence in the stream of the bucket
	First  chunk.Seq `json:"first"`
	Last   chunk.Seq `json:"last"`
	Count  int       `json:"count"`
	SHA256 string    `json:"sha256"` // of the segment, in hexadecimal digits
}

// NewIndex is an index of this version that names no segment yet.
func NewIndex(created time.Time, last Tail) *Index {
	return &Index{Version: version, Created: created, Last: last}
}

// Fits reports whether the log has exactly what the archive has. messages is how
// many the leader counts in the session, and last, which was asked for after
// that, its last one.
//
// What the log has up to the last archived message is some of what was archived:
// messages do not change, they only go. So when nothing follows, and the number
// is the same, it is all of it. The order of the two questions matters:
//  1. an archived message is lost, and the end is asked for: it is the archive's,
//  2. another message is stored,
//  3. the count is asked for: it is the archive's, and one of it is not there.
func (x *Index) Fits(created time.Time, messages uint64, last Tail) bool {
	return x.Version == version && x.Created.Equal(created) && x.Messages == messages && x.Last == last
}

// Bytes is the index as it is stored.
func (x *Index) Bytes() ([]byte, error) { return json.Marshal(x) }

// ReadIndex is the inverse of Bytes. An index of another version is none.
func ReadIndex(data []byte) (*Index, error) {
	var x Index
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("index of an archive: %w", err)
	}
	if x.Version != version {
		return nil, fmt.Errorf("index of an archive: version %d, want %d", x.Version, version)
	}
	return &x, nil
}

// Stream is the stream of the bucket.
func Stream(l subjects.Layout) string { return "OBJ_" + l.Objects() }

const (
	indexToken    = ".index"
	segmentsToken = ".segments"
)

// IndexKey is the subject of the index of s. The error is a *subjects.TokenError.
func IndexKey(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, indexToken) }

// SegmentsKey is the subject of the segments of s. The error is a *subjects.TokenError.
func SegmentsKey(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, segmentsToken) }

// Keys is the filter of all that an archive of s has. The error is a
// *subjects.TokenError.
func Keys(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, ".*") }

// TreeKeys is the filter of all archives of the tree of s, TreeIndexKeys that of
// their indexes. The error is a *subjects.TokenError.
func TreeKeys(l subjects.Layout, s chunk.Session) (string, error) { return treeKey(l, s, ".>") }

// TreeIndexKeys see TreeKeys.
func TreeIndexKeys(l subjects.Layout, s chunk.Session) (string, error) {
	return treeKey(l, s, ".*"+indexToken)
}

// IndexKeys is the filter of all indexes.
func IndexKeys(l subjects.Layout) string { return prefix(l) + "*.*.*" + indexToken }

// SessionOf is the session of the subject of an index.
func SessionOf(l subjects.Layout, subject string) (chunk.Session, error) {
	tokens, ok := strings.CutPrefix(subject, prefix(l))
	tokens, isIndex := strings.CutSuffix(tokens, indexToken)
	parts := strings.Split(tokens, ".")
	if !ok || !isIndex || len(parts) != 3 {
		return chunk.Session{}, fmt.Errorf("subject %q: want %s<tenant>.<root>.<session>%s", subject, prefix(l), indexToken)
	}
	s := chunk.Session{Tenant: parts[0], Root: parts[1], ID: parts[2]}
	return s, subjects.CheckSession(s)
}

func prefix(l subjects.Layout) string { return "$O." + l.Objects() + ".C.archive." }

func key(l subjects.Layout, s chunk.Session, kind string) (string, error) {
	if err := subjects.CheckSession(s); err != nil {
		return "", err
	}
	return prefix(l) + s.Tenant + "." + s.Root + "." + s.ID + kind, nil
}

func treeKey(l subjects.Layout, s chunk.Session, kind string) (string, error) {
	if err := subjects.CheckSession(s.Tree()); err != nil {
		return "", err
	}
	return prefix(l) + s.Tenant + "." + s.Root + kind, nil
}
