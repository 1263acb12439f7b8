package fold

import (
	"errors"
	"math"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// A scanner for JSON that is known to be valid: it finds where values end,
// without recursion, so that the depth of a value does not matter. On other
// input it fails or finds nonsense, but stays within the bytes.

var errJSON = errors.New("not JSON")

// members are the members of the JSON object in raw.
func members(raw []byte) (map[string]chunk.Value, error) {
	m := make(map[string]chunk.Value)
	err := walk(raw, '{', '}', func(i int) (int, error) {
		end, err := valueEnd(raw, i)
		if err != nil {
			return 0, err
		}
		name, err := unquote(raw[i:end])
		if err != nil {
			return 0, err
		}
		i = space(raw, end)
		if i == len(raw) || raw[i] != ':' {
			return 0, errJSON
		}
		i = space(raw, i+1)
		if end, err = valueEnd(raw, i); err != nil {
			return 0, err
		}
		m[string(name)] = chunk.Value(raw[i:end:end])
		return end, nil
	})
	return m, err
}

// elements are the elements of the JSON array in raw.
func elements(raw []byte) ([]chunk.Value, error) {
	var list []chunk.Value
	err := walk(raw, '[', ']', func(i int) (int, error) {
		end, err := valueEnd(raw, i)
		if err != nil {
			return 0, err
		}
		list = append(list, chunk.Value(raw[i:end:end]))
		return end, nil
	})
	return list, err
}

// walk calls item at the start of each item between two brackets; item returns
// where it ends.
func walk(raw []byte, from, to byte, item func(i int) (int, error)) error {
	i := space(raw, 0)
	if i == len(raw) || raw[i] != from {
		return errJSON
	}
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == to {
		return nil
	}
	for i < len(raw) {
		end, err := item(i)
		if err != nil {
			return err
		}
		i = space(raw, end)
		if i == len(raw) {
			break
		}
		switch raw[i] {
		case to:
			return nil
		case ',':
			i = space(raw, i+1)
		default:
			return errJSON
		}
	}
	return errJSON
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// valueEnd is where the value that starts at i ends.
func valueEnd(raw []byte, i int) (int, error) {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			end, err := stringEnd(raw, i)
			if err != nil {
				return 0, err
			}
			i = end
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\r', '\t':
			i++
			continue
		default:
			i = wordEnd(raw, i)
		}
		if depth < 0 {
			return 0, errJSON
		}
		if depth == 0 {
			return i, nil
		}
	}
	return 0, errJSON
}

func stringEnd(raw []byte, i int) (int, error) {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1, nil
		}
	}
	return 0, errJSON
}

// wordEnd is where a number, true, false or null ends.
func wordEnd(raw []byte, i int) int {
	for i < len(raw) {
		switch raw[i] {
		case ',', ':', ' ', '\n', '\r', '\t', '{', '}', '[', ']', '"':
			return i
		}
		i++
	}
	return i
}

// depth is how deep the brackets of a value nest.
func depth(raw []byte) int {
	most, now := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end, err := stringEnd(raw, i)
			if err != nil {
				return most
			}
			i = end - 1
		case '{', '[':
			now++
			most = max(most, now)
		case '}', ']':
			now--
		}
	}
	return most
}

// hasError reports whether a sub-agent's result says that it failed.
func hasError(result chunk.Value) bool {
	if i := space(result, 0); i == len(result) || result[i] != '{' {
		return false
	}
	m, err := members(result)
	failure, ok := m["error"]
	return err == nil && ok && string(failure) != "null"
}

// suspendedCalls are the calls that a suspension marker names.
// The deadline is of all of them, 0 for none.
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
			ids = append(ids, string(id))
		}
	}
	return ids, moment(payload["deadline"])
}

// deadline is the member of that name that a chunk may have beside those of the
// catalogue, 0 for none.
func deadline(extra []chunk.Member) int64 {
	for _, m := range extra {
		if m.Name == "deadline" {
			return moment(m.Value)
		}
	}
	return 0
}

// moment is a whole number of milliseconds that a browser can hold, 0 when raw
// is none.
func moment(raw chunk.Value) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > maxCount {
		return 0
	}
	return n
}

// count reads a number of tokens: never negative, without a fraction, at most
// maxCount.
func count(n chunk.Number) int64 {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil && !math.IsInf(f, 0) || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, maxCount))
}
