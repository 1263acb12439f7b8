package structured

import (
	"fmt"
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// parse builds the tree of one JSON value. Text over the limits is rejected before anything is built. The texts of the errors are stored with the chunk
// that caused them, so they do not change.
func parse(data []byte, depth, values int) (*node, *RejectedError) {
	if !utf8.Valid(data) {
		return nil, &RejectedError{Want: "JSON in UTF-8", Got: "bytes that are none"}
	}
	info, ok := rawjson.Scan(data, rawjson.Limits{Levels: depth, Values: values, Name: MaxName})
	switch {
	case ok:
		return build(rawjson.TrimSpace(data))
	case info.Exceeded == rawjson.LevelLimit:
		return nil, &RejectedError{Want: "fewer levels", Got: "too many"}
	case info.Exceeded == rawjson.ValueLimit:
		return nil, &RejectedError{Want: "fewer values", Got: "too many"}
	case info.Exceeded == rawjson.NameLimit:
		return nil, &RejectedError{Want: fmt.Sprintf("names of at most %d bytes", MaxName), Got: "a longer one"}
	case info.Complete:
		return nil, &RejectedError{Want: "one JSON value", Got: "more behind it"}
	}
	return nil, &RejectedError{Want: "JSON", Got: fmt.Sprintf("something else behind byte %d", info.End)}
}

// build builds the tree of a valid value without white space around it.
func build(value []byte) (*node, *RejectedError) {
	switch value[0] {
	case '{':
		return buildObject(value)
	case '[':
		n := &node{kind: array}
		for element := range rawjson.Elements(value) {
			item, bad := build(element)
			if bad != nil {
				return nil, bad
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case 'n':
		return &node{kind: null}, nil
	case 'f':
		return &node{kind: boolFalse}, nil
	case 't':
		return &node{kind: boolTrue}, nil
	case '"':
		content, _ := rawjson.AppendUnescaped(nil, rawjson.Text(value).Content())
		return &node{kind: text, text: content}, nil
	}
	return &node{kind: number, text: append([]byte(nil), value...)}, nil
}

func buildObject(value []byte) (*node, *RejectedError) {
	n := &node{kind: object}
	for quoted, v := range rawjson.Members(value) {
		name := string(quoted.Bytes())
		if n.find(name) >= 0 {
			return nil, &RejectedError{Want: "each name once", Got: "two members of one name"}
		}
		item, bad := build(v)
		if bad != nil {
			return nil, bad
		}
		n.add(name, item)
	}
	return n, nil
}
