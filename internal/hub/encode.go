package hub

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
)

// encoded holds the bytes of one record. The encoding goroutine owns and reuses it;
// segments copy the bytes.
type encoded struct {
	tree  []byte // for readers of the tree, and for all readers if alone is empty
	alone []byte // for readers of the session alone, if different
}

// encode encodes rec. Only control records of a sub-agent may differ between the two
// scopes; see Encode.
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

// traitsOf returns the traits of a type that filters and the end of a response depend on.
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
