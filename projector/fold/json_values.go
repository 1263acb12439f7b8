package fold

import (
	"math"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// members returns the members of a JSON object by name.
func members(raw []byte) (map[string]chunk.Value, error) {
	m := make(map[string]chunk.Value)
	var bad error
	err := rawjson.EachMember(raw, func(name rawjson.Text, value []byte) bool {
		var s string
		s, bad = unquote(name)
		m[s] = value
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return m, err
}

// elements returns the elements of a JSON array.
func elements(raw []byte) ([]chunk.Value, error) {
	var list []chunk.Value
	err := rawjson.EachElement(raw, func(element []byte) bool {
		list = append(list, element)
		return true
	})
	return list, err
}

// unquote returns the WTF-8 of a JSON string.
func unquote(raw []byte) (string, error) { return rawjson.Text(raw).Unquote() }

// hasError reports whether a sub-agent's result is an error.
func hasError(result chunk.Value) bool {
	if !isObject(result) {
		return false
	}
	m, err := members(result)
	failure, ok := m["error"]
	return err == nil && ok && string(failure) != "null"
}

// suspendedCalls returns the calls that a suspension marker names, and their common deadline, 0 for none.
func suspendedCalls(b chunk.SuspensionMarker) (ids []string, deadline int64) {
	payload, err := members(b.Payload)
	if err != nil {
		return nil, 0
	}
	list, err := elements(payload["toolCallIds"])
	if err != nil {
		return nil, 0
	}
	for _, raw := range list {
		if id, err := unquote(raw); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, moment(payload["deadline"])
}

// deadline returns the member deadline, which a chunk may have in addition to those of its schema, 0 for none.
func deadline(extra []chunk.Member) int64 {
	for _, m := range extra {
		if m.Name == "deadline" {
			return moment(m.Value)
		}
	}
	return 0
}

// moment returns a whole number of milliseconds that JavaScript represents exactly, 0 for another value.
func moment(raw chunk.Value) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

// count returns a number of tokens: not negative, without a fraction, at most maxCount.
func count(n chunk.Number) int64 {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && !math.IsInf(f, 0) || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, maxCount))
}
