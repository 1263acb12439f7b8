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
	Owner     string        `json:"owner,omitempty"` // subject of the owner
	Seq       chunk.Seq     `json:"seq"`
	Ordinal   chunk.Ordinal `json:"ordinal"`
	Epoch     chunk.Epoch   `json:"epoch,omitempty"`     // highest epoch so far
	Created   int64         `json:"created,omitempty"`   // milliseconds
	Began     int64         `json:"began,omitempty"`     // milliseconds
	Deleted   bool          `json:"deleted,omitempty"`   // the head is a tombstone
	Approvals int           `json:"approvals,omitempty"` // calls that wait for an approval
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
