package structured

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// change is one chunk, read and held against the schema of the dialect.
type change struct {
	named  bool // labels.StreamID is what the chunk says
	labels Labels
	kind   string  // "set", "append", "text-delta" or "final"
	path   string  // not of final
	value  *node   // of set and final; nil when missing
	items  []*node // of append
	delta  string  // of text-delta
}

// Labels are what a chunk says about its stream beside the value.
type Labels struct {
	StreamID string
	DataType string // may be empty

	// The others are empty when the chunk does not have them.
	SchemaID      string
	SchemaVersion string
	ID            string
	Node          string // of the workflow
}

// readChange reads a chunk. One that is refused still carries the stream's id,
// if that could be read.
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

// fields reads the members of a chunk. The first one that is wrong is kept.
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

// labels reads the labels beside the stream's id.
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

// label is a text short enough to be kept with every stream.
func (f *fields) label(name string, required bool) string {
	label := f.text(name, required)
	if len(label) > MaxLabel {
		f.refuse(name+": at most "+strconv.Itoa(MaxLabel)+" bytes", strconv.Itoa(len(label)))
		return ""
	}
	return label
}

// change reads what only some kinds have.
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
