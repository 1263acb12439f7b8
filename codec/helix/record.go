package helix

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// EncodeRecord appends the event of a whole record: its position, its writer and its bytes as they are stored, also of the control records of sub-agents.
//
//	id: 17-mgj6k3gb
//	data: {"sequence":17,"session":"s1","ordinal":9,"epoch":1,"time":1764230000123,"data":{"type":"text_delta",…}}
//
// The member data is the last one. The time is in Unix milliseconds. A record without an ordinal, or without an epoch, has no such member.
func EncodeRecord(dst []byte, rec chunk.Record, _ chunk.Scope) []byte {
	dst = open(dst, rec.Cursor())
	dst = append(dst, `{"sequence":`...)
	dst = strconv.AppendUint(dst, uint64(rec.Seq), 10)
	dst = append(dst, `,"session":"`...)
	dst = append(dst, rec.Session.ID...) // an id has no character that JSON or SSE escapes, see subjects.CheckID
	dst = append(dst, '"')
	if rec.Ordinal != 0 {
		dst = append(dst, `,"ordinal":`...)
		dst = strconv.AppendUint(dst, uint64(rec.Ordinal), 10)
	}
	if rec.Epoch != 0 {
		dst = append(dst, `,"epoch":`...)
		dst = strconv.AppendUint(dst, uint64(rec.Epoch), 10)
	}
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, int64(rec.Anchor()), 10)
	dst = appendMember(dst, "data", orElse(rec.Data, "null"))
	return closeFrame(dst)
}
