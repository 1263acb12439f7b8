package jssnapshots

import (
	"encoding/json"
	"strings"

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
	Status      string        `json:"status"` // of the session, see fold.Status
	AgentType   string        `json:"agentType,omitempty"`
	Owner       string        `json:"owner,omitempty"` // subject of the owner
	Seq         chunk.Seq     `json:"seq"`
	Ordinal     chunk.Ordinal `json:"ordinal"`
	Epoch       chunk.Epoch   `json:"epoch,omitempty"`       // highest epoch so far
	Bytes       int64         `json:"bytes,omitempty"`       // see chunk.Record.SessionBytes
	Created     int64         `json:"created,omitempty"`     // milliseconds
	Since       chunk.Ordinal `json:"since,omitempty"`       // ordinal of the first record if it is not 1: the session was deleted and has started again
	Began       int64         `json:"began,omitempty"`       // milliseconds
	Deleted     bool          `json:"deleted,omitempty"`     // the head is a tombstone
	Approvals   int64         `json:"approvals,omitempty"`   // calls that wait for an approval
	ClientTools int64         `json:"clientTools,omitempty"` // calls that wait for the client
	Origin      string        `json:"origin,omitempty"`      // the session that a fork continues
}

// maxIndex is the size of both values of the header up to which a summary is in it as a whole. A list of sessions reads thousands of them.
const maxIndex = 900

// ReadIndex returns the HeadIndex in the headers of a head; false if it is malformed.
func ReadIndex(h nats.Header) (i HeadIndex, ok bool) {
	err := json.Unmarshal([]byte(h.Get(indexHeader)), &i)
	return i, err == nil
}

// readSummary returns the summary of a session from the second value of the header. A head that an earlier build has written has none.
func readSummary(h nats.Header, i HeadIndex) (s fold.Summary) {
	if values := h.Values(indexHeader); len(values) > 1 && json.Unmarshal([]byte(values[1]), &s) != nil {
		s = fold.Summary{}
	}
	s.Approvals, s.ClientTools = i.Approvals, i.ClientTools
	return s
}

func indexOf(s fold.Snapshot) HeadIndex {
	i := HeadIndex{
		Status: string(s.Status), AgentType: clipped(s.AgentType), Seq: s.Position.Seq, Ordinal: s.Position.Ordinal, Epoch: s.Epoch,
		Bytes:   s.SessionBytes,
		Created: s.Created, Began: s.Run.StartedAt, Deleted: s.Deleted(), Owner: ownerOf(s),
	}
	if s.Origin != nil {
		i.Origin = s.Origin.Session
	}
	if since := s.Chain().FirstOrdinal; since > 1 && !i.Deleted {
		i.Since = since
	}
	return i
}

// header returns the header of a head. Its second value is the summary: most heads that a filter leaves out are left out by the first one alone.
func header(s fold.Snapshot) nats.Header {
	i, summary := indexOf(s), s.Summary()
	i.Approvals, i.ClientTools = summary.Approvals, summary.ClientTools
	summary.Approvals, summary.ClientTools = 0, 0
	first, second := encode(i), encode(summary)
	for _, bound := range []int{60, 20, 0} {
		if len(first)+len(second) <= maxIndex {
			break
		}
		summary = summary.Shortened(bound)
		second = encode(summary)
	}
	return nats.Header{indexHeader: {first, second}}
}

func encode(v any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // an escape takes six bytes
	if err := e.Encode(v); err != nil {
		panic("jssnapshots: strings and numbers cannot be encoded: " + err.Error())
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// clipped returns an agent type, or "" for one that is too long for a header. No agent has one: the type is a token of a subject.
func clipped(name string) string {
	if len(name) > 2*subjects.MaxToken {
		return ""
	}
	return name
}
