package structured

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// change is one valid chunk.
type change struct {
	named  bool // labels.StreamID is the stream of the chunk
	labels Labels
	kind   string  // "set", "append", "text-delta" or "final"
	path   string  // not of final
	value  *node   // of set and final; nil if missing
	items  []*node // of append
	delta  string  // of text-delta
}

// Labels are the members of a chunk about its stream, without the value.
type Labels struct {
	StreamID string
	DataType string // may be empty

	// The others are empty if the chunk does not have them.
	SchemaID      string
	SchemaVersion string
	ID            string
	Node          string // of the workflow
}

// readChange parses a chunk. For an invalid one it returns the stream's id, if that could be parsed.
func readChange(data []byte) (change, *RejectedError) {
	if len(data) > MaxChunk {
		return change{}, &RejectedError{Want: "at most 1 MiB", Got: "more"}
	}
	root, bad := parse(data, chunk.MaxDepth, chunk.MaxValues)
	if bad != nil {
		return change{}, bad
	}
	f := fields{root: root}
	if name := f.text("type", true); name != "structured-data" {
		f.refuse("type: structured-data", "another type")
	}
	if f.bad != nil {
		return change{}, f.bad
	}
	id := f.label("streamId", true)
	c := change{named: f.bad == nil}
	c.labels = f.labels(id)
	f.change(&c)
	if f.bad != nil {
		f.bad.Stream = id
	}
	return c, f.bad
}

// fields parses the members of a chunk. The first invalid one is kept.
type fields struct {
	root *node
	bad  *RejectedError
}

func (f *fields) refuse(want, got string) {
	if f.bad == nil {
		f.bad = &RejectedError{Want: want, Got: got}
	}
}

func (f *fields) get(name string) (*node, bool) {
	if f.root.kind != object {
		f.refuse("an object", f.root.kind.String())
		return nil, false
	}
	i := f.root.find(name)
	if i < 0 {
		return nil, false
	}
	return f.root.items[i], true
}

func (f *fields) text(name string, required bool) string {
	n, ok := f.get(name)
	switch {
	case !ok && required:
		f.refuse(name+": a string", "")
	case ok && n.kind != text:
		f.refuse(name+": a string", n.kind.String())
	case ok:
		return string(n.text)
	}
	return ""
}

// labels parses the labels other than the stream's id.
func (f *fields) labels(id string) Labels {
	return Labels{
		StreamID:      id,
		DataType:      f.label("dataType", true),
		SchemaID:      f.label("schemaId", false),
		SchemaVersion: f.label("schemaVersion", false),
		ID:            f.label("id", false),
		Node:          f.label("node", false),
	}
}

// label parses a text that is short enough to be stored with every stream.
func (f *fields) label(name string, required bool) string {
	label := f.text(name, required)
	if len(label) > MaxLabel {
		f.refuse(name+": at most "+strconv.Itoa(MaxLabel)+" bytes", strconv.Itoa(len(label)))
		return ""
	}
	return label
}

// change parses the members that depend on the kind.
func (f *fields) change(c *change) {
	c.kind = f.text("kind", true)
	if c.kind != "final" {
		c.path = f.text("path", true)
	}
	switch c.kind {
	case "final":
		c.value, _ = f.get("data")
	case "set":
		c.value, _ = f.get("value")
	case "append":
		n, ok := f.get("items")
		switch {
		case !ok:
			f.refuse("items: an array", "")
		case n.kind != array:
			f.refuse("items: an array", n.kind.String())
		default:
			c.items = n.items
		}
	case "text-delta":
		c.delta = f.text("delta", true)
	default:
		f.refuse("kind: set, append, text-delta or final", "another kind")
	}
}
