package helix

import (
	"bytes"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Encode appends the frame of rec for readers of the given scope. It appends nothing for a record that is not shown in that scope: a sub-agent's end,
// failure or status in a tree, and the records with which a fork begins.
//
// Chunks, run_started and all records of a root have the same frame in both scopes; callers may rely on it.
func Encode(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
	if rec.Type.OfFork() {
		return dst
	}
	if !rec.Type.Control() || rec.Type == chunk.TypeRunStarted {
		return appendChunk(dst, rec)
	}
	if rec.Type == chunk.TypeTruncated {
		return appendTruncated(dst, rec)
	}
	if scope == chunk.ScopeTree && !rec.Session.IsRoot() {
		return dst
	}
	dst = open(dst, rec.Cursor())
	switch rec.Type {
	case chunk.TypeStreamEnd:
		dst = append(dst, `{"type":"end"`...)
		if output := member(rec, "finalOutput"); output != nil {
			dst = appendMember(dst, "finalOutput", output)
		}
	case chunk.TypeStreamFailed:
		dst = append(dst, `{"type":"fail"`...)
		dst = appendMember(dst, "error", orElse(member(rec, "error"), `""`))
	case chunk.TypeStreamPaused:
		dst = append(dst, `{"type":"status","status":"paused"`...)
	case chunk.TypeStreamActive:
		dst = append(dst, `{"type":"status","status":"active"`...)
	default: // a control record this build does not know, which Control cannot return
		dst = append(dst, `{"type":"status"`...)
	}
	return closeFrame(dst)
}

func appendChunk(dst []byte, rec chunk.Record) []byte {
	dst = open(dst, rec.Cursor())
	dst = append(dst, `{"type":"chunk","chunk":`...)
	dst = append(dst, oneLine(orElse(rec.Data, "null"))...)
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendUint(dst, uint64(rec.Seq), 10)
	return closeFrame(dst)
}

// appendTruncated writes the event of a cleanup. The event of a sub-agent names it, because its steps are not the root's.
func appendTruncated(dst []byte, rec chunk.Record) []byte {
	dst = open(dst, rec.Cursor())
	dst = append(dst, `{"type":"truncated"`...)
	dst = appendMember(dst, "truncatedAtStep", orElse(member(rec, "truncatedAtStep"), "0"))
	if at := member(rec, "atSequence"); at != nil {
		dst = appendMember(dst, "atSequence", at)
	}
	if !rec.Session.IsRoot() {
		dst = append(dst, `,"agentId":"`...)
		dst = append(dst, rec.Session.ID...) // an id has no character that JSON or SSE escapes, see subjects.CheckID
		dst = append(dst, '"')
	}
	return closeFrame(dst)
}

func open(dst []byte, id chunk.Cursor) []byte {
	dst = append(dst, "id: "...)
	dst = id.Append(dst)
	return append(dst, "\ndata: "...)
}

func closeFrame(dst []byte) []byte { return append(dst, "}\n\n"...) }

func appendMember(dst []byte, name string, value []byte) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, oneLine(value)...)
}

// oneLine returns JSON without line breaks, which would end the data line. Bytes that are not JSON, which a codec rejects, become null.
func oneLine(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	if !isJSON(data) {
		return []byte("null")
	}
	return rawjson.AppendCompact(nil, data)
}

// maxLevels bounds the nesting of a record.
const maxLevels = 10_000

func isJSON(data []byte) bool {
	_, ok := rawjson.Scan(data, rawjson.Limits{Levels: maxLevels})
	return ok
}

// member returns a member of the body of rec as it is written, nil if it is missing or the body is not JSON.
func member(rec chunk.Record, name string) []byte {
	if !isJSON(rec.Data) {
		return nil
	}
	return rawjson.Get(rec.Data, name)
}

func orElse(value []byte, absent string) []byte {
	if len(value) == 0 {
		return []byte(absent)
	}
	return value
}

// Resync appends the event for a reader whose cursor cannot be served: the reason, and the position of the snapshot at which the same response continues.
// The reader discards what it has and loads the snapshot, which includes all events up to its own sequence. With the id of the event a reconnect continues
// from that position.
func Resync(dst []byte, cause *chunk.TruncatedError, from chunk.Cursor) []byte {
	dst = open(dst, from)
	dst = append(dst, `{"type":"truncated","reason":"`...)
	dst = append(dst, cause.Reason...) // one of the constants in chunk
	dst = append(dst, `","resumeFrom":`...)
	dst = strconv.AppendUint(dst, uint64(from.Seq), 10)
	if cause.Step != nil {
		dst = append(dst, `,"truncatedAtStep":`...)
		dst = strconv.AppendInt(dst, int64(*cause.Step), 10)
	}
	if cause.HighWatermark != 0 {
		dst = append(dst, `,"atSequence":`...)
		dst = strconv.AppendUint(dst, uint64(cause.HighWatermark), 10)
	}
	return closeFrame(dst)
}
