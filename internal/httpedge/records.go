package httpedge

import (
	"bytes"
	"maps"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/view"
)

// recordsOf is added to the name of a view for the records that it shows, see dialect.Records. No view has a slash in its name.
const recordsOf = "/log"

// encodings returns those of the native dialect, by view, and of whole records, by view and for clients without one. Under a view the records are without their
// numbers in the session, which would count hidden ones, and without their epochs.
func (c Config) encodings() map[string]hub.Encode {
	all := map[string]hub.Encode{recordsOf: encodeRecord}
	maps.Copy(all, view.Encodings(c.Views, hub.Encode(helix.Encode)))
	for name, encode := range view.Encodings(c.Views, hub.Encode(encodeRecord)) {
		all[name+recordsOf] = func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
			rec.Ordinal, rec.Epoch = 0, 0
			return encode(dst, rec, scope)
		}
	}
	return all
}

// encodeRecord appends the event of a whole record: its position, its writer and its bytes as they are stored, also of the control records of sub-agents.
//
//	id: 17-mgj6k3gb
//	data: {"sequence":17,"session":"s1","ordinal":9,"epoch":1,"time":1764230000123,"data":{"type":"text_delta",…}}
//
// The member data is the last one. The time is in Unix milliseconds. A record without an ordinal, or without an epoch, has no such member.
func encodeRecord(dst []byte, rec chunk.Record, _ chunk.Scope) []byte {
	number := func(name string, n uint64) {
		dst = append(append(append(dst, ',', '"'), name...), '"', ':')
		dst = strconv.AppendUint(dst, n, 10)
	}
	dst = rec.Cursor().Append(append(dst, "id: "...))
	dst = append(dst, "\ndata: {\"sequence\":"...)
	dst = strconv.AppendUint(dst, uint64(rec.Seq), 10)
	dst = append(dst, `,"session":"`...)
	dst = append(append(dst, rec.Session.ID...), '"') // an id has no character that JSON or SSE escapes, see subjects.CheckID
	if rec.Ordinal != 0 {
		number("ordinal", uint64(rec.Ordinal))
	}
	if rec.Epoch != 0 {
		number("epoch", uint64(rec.Epoch))
	}
	number("time", uint64(rec.Anchor()))
	dst = append(dst, `,"data":`...)
	if bytes.ContainsAny(rec.Data, "\r\n") { // they would end the line
		dst = rawjson.AppendCompact(dst, rec.Data)
	} else {
		dst = append(dst, rec.Data...)
	}
	return append(dst, "}\n\n"...)
}
