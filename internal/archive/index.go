package archive

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// version is the version of the format of segments and index, and of the records that codec decodes from messages. Increment it when one of them changes:
// older archives do not match any more.
const version = 1

// Index describes the contents of an archive.
type Index struct {
	Version  int         `json:"version"`
	Created  time.Time   `json:"created"` // of the stream of the log
	Messages uint64      `json:"messages"`
	Last     LastMessage `json:"last"`
	Segments []Segment   `json:"segments"`
}

// LastMessage is the last message of a session.
type LastMessage struct {
	Seq    chunk.Seq `json:"seq"`
	Stored int64     `json:"stored"` // Unix nanoseconds
}

// Segment describes consecutive records that are packed together.
type Segment struct {
	Seq    uint64    `json:"at"` // sequence in the stream of the bucket
	First  chunk.Seq `json:"first"`
	Last   chunk.Seq `json:"last"`
	Count  int       `json:"count"`
	SHA256 string    `json:"sha256"` // of the segment, in hexadecimal digits
}

// NewIndex returns an index of this version without segments.
func NewIndex(created time.Time, last LastMessage) *Index {
	return &Index{Version: version, Created: created, Last: last}
}

// MatchesLog reports whether the log has exactly the messages of the archive. messages is the number of messages of the session according to the leader,
// and last is the last one, which must have been read after the number.
//
// The messages of the log up to the last archived one are a subset of the archived messages: messages do not change, they are only removed. So if none
// follows and the number is the same, the log has all of them. The order of the two reads matters. In the other order:
//  1. an archived message is lost, and the last message is read: it is that of the archive,
//  2. another message is stored,
//  3. the number is read: it is that of the archive, although one of its messages is missing.
func (x *Index) MatchesLog(created time.Time, messages uint64, last LastMessage) bool {
	return x.Version == version && x.Created.Equal(created) && x.Messages == messages && x.Last == last
}

// Bytes returns the stored form of the index.
func (x *Index) Bytes() ([]byte, error) { return json.Marshal(x) }

// ReadIndex is the inverse of Bytes. It rejects an index of another version.
func ReadIndex(data []byte) (*Index, error) {
	var x Index
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("archive index: %w", err)
	}
	if x.Version != version {
		return nil, fmt.Errorf("archive index: version %d, want %d", x.Version, version)
	}
	return &x, nil
}

// Stream returns the stream of the bucket.
func Stream(l subjects.Layout) string { return "OBJ_" + l.Objects() }

const (
	indexToken    = ".index"
	segmentsToken = ".segments"
)

// IndexKey returns the subject of the index of s. The error is a *subjects.TokenError.
func IndexKey(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, indexToken) }

// SegmentsKey returns the subject of the segments of s. The error is a *subjects.TokenError.
func SegmentsKey(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, segmentsToken) }

// Keys returns the filter of all messages of an archive of s. The error is a *subjects.TokenError.
func Keys(l subjects.Layout, s chunk.Session) (string, error) { return key(l, s, ".*") }

// TreeIndexKeys returns the filter of the indexes of all archives of the tree of s. The error is a *subjects.TokenError.
func TreeIndexKeys(l subjects.Layout, s chunk.Session) (string, error) {
	if err := subjects.CheckSession(s.Tree()); err != nil {
		return "", err
	}
	return prefix(l) + s.Tenant + "." + s.Root + ".*" + indexToken, nil
}

// IndexKeys returns the filter of all indexes.
func IndexKeys(l subjects.Layout) string { return prefix(l) + "*.*.*" + indexToken }

// SessionOf returns the session of the subject of an index.
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
