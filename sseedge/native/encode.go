package native

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// Encode appends the frame of rec for readers of the given scope. It appends
// nothing when the record has nothing to show in that scope: a sub-agent's end,
// failure or status in a tree.
//
// A chunk and run_started come out the same in both scopes, and so does every
// record of a root; callers may rely on it.
func Encode(dst []byte, rec chunk.Record, scope chunk.Scope) []byte {
	if !rec.Type.Control() || rec.Type == chunk.TypeRunStarted {
		return appendChunk(dst, rec)
	}
	if rec.Type == chunk.TypeTruncated {
		return appendTruncated(dst, rec)
	}
	if scope == chunk.ScopeTree && !rec.Session.IsRoot() {
		return dst
	}
	dst = open(dst, rec.Seq)
	member := members(rec.Data)
	switch rec.Type {
	case chunk.TypeStreamEnd:
		dst = append(dst, `{"type":"end"`...)
		if output, given := member["finalOutput"]; given {
			dst = appendMember(dst, "finalOutput", output)
		}
	case chunk.TypeStreamFailed:
		dst = append(dst, `{"type":"fail"`...)
		dst = appendMember(dst, "error", orElse(member["error"], `""`))
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
	dst = open(dst, rec.Seq)
	dst = append(dst, `{"type":"chunk","chunk":`...)
	dst = append(dst, oneLine(orElse(rec.Data, "null"))...)
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendUint(dst, uint64(rec.Seq), 10)
	return closeFrame(dst)
}

// appendTruncated shows the mark of a clean-up. That of a sub-agent names it,
// because its steps are not the root's.
func appendTruncated(dst []byte, rec chunk.Record) []byte {
	member := members(rec.Data)
	dst = open(dst, rec.Seq)
	dst = append(dst, `{"type":"truncated"`...)
	dst = appendMember(dst, "truncatedAtStep", orElse(member["truncatedAtStep"], "0"))
	if at, given := member["atSequence"]; given {
		dst = appendMember(dst, "atSequence", at)
	}
	if !rec.Session.IsRoot() {
		dst = append(dst, `,"agentId":"`...)
		dst = append(dst, rec.Session.ID...) // a token: letters, digits, - and _
		dst = append(dst, '"')
	}
	return closeFrame(dst)
}

func open(dst []byte, seq chunk.Seq) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendUint(dst, uint64(seq), 10)
	return append(dst, "\ndata: "...)
}

func closeFrame(dst []byte) []byte { return append(dst, "}\n\n"...) }

func appendMember(dst []byte, name string, value []byte) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, oneLine(value)...)
}

// oneLine returns JSON without line breaks. Producers of ours write none; one
// that stores pretty-printed JSON would otherwise end the data line in the
// middle. Bytes that are no JSON, which a codec does not let through, become
// null: an event nobody can read is better than a field of the sender's choice.
func oneLine(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return []byte("null")
	}
	return line.Bytes()
}

// members reads an object's members without touching their values: a lone
// surrogate or a large integer comes out as it went in.
func members(data []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil // not an object: the event goes out without its members
	}
	return m
}

func orElse(value []byte, absent string) []byte {
	if len(value) == 0 {
		return []byte(absent)
	}
	return value
}
