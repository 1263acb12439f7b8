package jssnapshots

import (
	"encoding/json"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// indexHeader is the name of the header of a head with its HeadIndex.
const indexHeader = "Tailrace-Session"

// HeadIndex has the members of a head that a list of sessions and a writer need. They are read without the head, which may be large. The header is written with
// the head, so it always matches it.
type HeadIndex struct {
	Status    string        `json:"status"` // of the session, see fold.Status
	AgentType string        `json:"agentType,omitempty"`
	Owner     string        `json:"owner,omitempty"` // subject of the owner
	Seq       chunk.Seq     `json:"seq"`
	Ordinal   chunk.Ordinal `json:"ordinal"`
	Epoch     chunk.Epoch   `json:"epoch,omitempty"`     // highest epoch so far
	Bytes     int64         `json:"bytes,omitempty"`     // see chunk.Record.SessionBytes
	Created   int64         `json:"created,omitempty"`   // milliseconds
	Since     chunk.Ordinal `json:"since,omitempty"`     // ordinal of the first record if it is not 1: the session was deleted and has started again
	Began     int64         `json:"began,omitempty"`     // milliseconds
	Deleted   bool          `json:"deleted,omitempty"`   // the head is a tombstone
	Approvals int           `json:"approvals,omitempty"` // calls that wait for an approval
}

// ReadIndex returns the HeadIndex in the headers of a head; false if it is malformed.
func ReadIndex(h nats.Header) (i HeadIndex, ok bool) {
	err := json.Unmarshal([]byte(h.Get(indexHeader)), &i)
	return i, err == nil
}

func indexOf(s fold.Snapshot) HeadIndex {
	i := HeadIndex{
		Status: string(s.Status), AgentType: clipped(s.AgentType), Seq: s.Position.Seq, Ordinal: s.Position.Ordinal, Epoch: s.Epoch,
		Bytes:   s.SessionBytes,
		Created: s.Created, Began: s.Run.StartedAt, Deleted: s.Deleted(), Owner: ownerOf(s),
		Approvals: approvals(s),
	}
	if since := s.Chain().FirstOrdinal; since > 1 && !i.Deleted {
		i.Since = since
	}
	return i
}

// approvals returns the number of calls that wait for an approval.
func approvals(s fold.Snapshot) (n int) {
	for _, p := range s.Pending {
		if p.Kind == fold.PendingApproval {
			n++
		}
	}
	return n
}

// header returns the header of a head.
func header(s fold.Snapshot) nats.Header {
	text, err := json.Marshal(indexOf(s))
	if err != nil {
		panic("jssnapshots: strings and numbers cannot be encoded: " + err.Error())
	}
	return nats.Header{indexHeader: {string(text)}}
}

// clipped returns an agent type, or "" for one that is too long for a header. No agent has one: the type is a token of a subject.
func clipped(name string) string {
	if len(name) > 2*subjects.MaxToken {
		return ""
	}
	return name
}
