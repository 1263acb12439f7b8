// Package headindex is the header of a stored snapshot head, with the members that a list of sessions and a writer need. They are read without the snapshot,
// which may be large, and without the packages that fold it. The header is written with the head, so it always matches it.
package headindex

import (
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
)

// Header is the name of the header.
const Header = "Tailrace-Session"

// Index is the value of the header.
type Index struct {
	Status    string        `json:"status"` // of the session, see fold.Status
	AgentType string        `json:"agentType,omitempty"`
	Owner     string        `json:"owner,omitempty"` // subject of the owner; "" in a head of a build that did not write it
	Seq       chunk.Seq     `json:"seq"`
	Ordinal   chunk.Ordinal `json:"ordinal"`
	Epoch     chunk.Epoch   `json:"epoch,omitempty"`     // highest epoch so far; 0 in a head of a build that did not write it
	Created   int64         `json:"created,omitempty"`   // milliseconds
	Began     int64         `json:"began,omitempty"`     // milliseconds
	Deleted   bool          `json:"deleted,omitempty"`   // the head is a tombstone
	Approvals int           `json:"approvals,omitempty"` // calls that wait for an approval; 0 in a head of a build that did not write it
	OwnerKey  bool          `json:"ownerKey,omitempty"`  // the owner is in the index of owners, see jssnapshots; false in a head of a build that did not write it
}

// Encode returns the value of the header.
func (i Index) Encode() string {
	text, err := json.Marshal(i)
	if err != nil {
		return "" // of strings and numbers: never
	}
	return string(text)
}

// Decode reads the value of the header; false if it is malformed.
func Decode(value string) (Index, bool) {
	var i Index
	err := json.Unmarshal([]byte(value), &i)
	return i, err == nil
}

// LastEpoch returns an epoch that is not lower than any epoch so far. Each epoch begins with a record, so no epoch is higher than the ordinal.
func (i Index) LastEpoch() chunk.Epoch {
	if i.Epoch == 0 {
		return chunk.Epoch(i.Ordinal)
	}
	return i.Epoch
}
