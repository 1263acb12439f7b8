package observe

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// maxContent is the most bytes of a value in a row.
const maxContent = 256 << 10

// text is text that grows up to maxContent.
type text struct {
	bytes []byte
	cut   bool
}

func (t *text) add(s string) {
	left := maxContent - len(t.bytes)
	if len(s) > left {
		t.cut = true
		for left > 0 && !utf8.RuneStart(s[left]) {
			left--
		}
		s = s[:max(left, 0)]
	}
	t.bytes = append(t.bytes, s...)
}

// quoted returns a JSON string.
func quoted(s string) row.JSON {
	out, err := json.Marshal(s)
	if err != nil { // a string is always valid
		return ""
	}
	return row.JSON(out)
}

// bounded returns a value of a row, "" for one that is too large.
func bounded(v chunk.Value) (row.JSON, bool) {
	if len(v) > maxContent {
		return "", false
	}
	return row.JSON(v), true
}

// setInput and setOutput set a value as the view shows it, and its size before the view.
func setInput(o *row.Observation, shown chunk.Value, size int) {
	var ok bool
	if o.Input, ok = bounded(shown); !ok {
		o.ContentTruncated = true
	}
	o.InputBytes = new(int64(size))
}

func setOutput(o *row.Observation, shown chunk.Value, size int) {
	var ok bool
	if o.Output, ok = bounded(shown); !ok {
		o.ContentTruncated = true
	}
	o.OutputBytes = new(int64(size))
}

// metadata returns members that the schema does not have as an object, "" for none.
func metadata(extra []chunk.Member) row.JSON {
	if len(extra) == 0 {
		return ""
	}
	out := []byte{'{'}
	for i, m := range extra {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, quoted(m.Name)...), ':'), m.Value...)
	}
	v, _ := bounded(append(out, '}'))
	return v
}
