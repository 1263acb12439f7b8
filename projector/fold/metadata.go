package fold

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// MergeMetadata returns metadata of a message with later one, as clients merge them: nested objects are merged, other values replaced. Both are objects; either may
// be nil.
func MergeMetadata(old, later chunk.Value) chunk.Value {
	if old == nil {
		return later
	}
	if later == nil {
		return old
	}
	return appendMerged(nil, old, later, maxMergeDepth)
}

// maxMergeDepth bounds the recursion. Deeper objects are replaced.
const maxMergeDepth = 64

func appendMerged(dst []byte, old, later []byte, depth int) []byte {
	news := make(map[string][]byte)
	for name, v := range rawjson.Members(later) {
		news[string(name.Bytes())] = v
	}
	dst = append(dst, '{')
	start := len(dst)
	member := func(name rawjson.Text) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), ':')
	}
	olds := make(map[string]bool)
	for name, v := range rawjson.Members(old) {
		key := string(name.Bytes())
		olds[key] = true
		member(name)
		with, changes := news[key]
		switch {
		case !changes:
			dst = append(dst, v...)
		case depth > 0 && rawjson.Kind(v) == '{' && rawjson.Kind(with) == '{':
			dst = appendMerged(dst, v, with, depth-1)
		default:
			dst = append(dst, with...)
		}
	}
	for name, v := range rawjson.Members(later) {
		if !olds[string(name.Bytes())] {
			member(name)
			dst = append(dst, v...)
		}
	}
	return append(dst, '}')
}
