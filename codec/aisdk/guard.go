package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk/guard"
)

// guarded writes a member from JSON of anybody; nil is null.
func (o *out) guarded(name string, value chunk.Value) {
	o.name(name)
	o.dst = appendGuarded(o.dst, value)
}

// some is guarded for a member that is left out when there is none.
func (o *out) some(name string, value chunk.Value) {
	if value != nil {
		o.guarded(name, value)
	}
}

func appendGuarded(dst []byte, value chunk.Value) []byte {
	if len(value) == 0 {
		return append(dst, null...)
	}
	return guard.Append(dst, value)
}
