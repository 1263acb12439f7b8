package hub

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
)

// encoded holds the bytes of one record. Whoever encodes owns one and uses it
// again; segments copy out of it.
type encoded struct {
	tree  []byte // for readers of the tree, and for all if alone is empty
	alone []byte // for readers of the session alone, where it differs
}

// encode makes the bytes. Only what a sub-agent's record says about its stream
// may look different to those who read it alone; see Encode.
func (e *encoded) encode(encode Encode, rec chunk.Record) {
	e.tree = encode(e.tree[:0], rec, chunk.ScopeTree)
	e.alone = e.alone[:0]
	if rec.Type.Control() && !rec.Session.IsRoot() {
		e.alone = encode(e.alone, rec, chunk.ScopeSession)
		if bytes.Equal(e.alone, e.tree) {
			e.alone = e.alone[:0]
		}
	}
}

func (e *encoded) size() int { return len(e.tree) + len(e.alone) }

// traitsOf says what a filter and the end of a response need to know.
func traitsOf(t chunk.Type) trait {
	var traits trait
	if t.Control() && t != chunk.TypeRunStarted {
		traits |= ofStream
	}
	if t.Terminal() {
		traits |= terminal
	}
	return traits
}
