package aisdk

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// out is where frames are written.
type out struct {
	dst  []byte
	last int       // where the last frame of the record at hand begins, noFrame if it has none
	seq  chunk.Seq // of the record at hand

	merge bool // deltas of one part become one: a replay
	tail  tail

	scratch []byte // frames that nobody needs
}

const noFrame = -1

// tail is a delta at the end of dst that may grow, and gets its id when it has
// grown.
type tail struct {
	key deltaKey // nil part: there is none
	at  int
	seq chunk.Seq // of the last record in it
}

// deltaKey is the part that a delta belongs to.
type deltaKey struct {
	part any // *speaker or *call
	at   chunk.Seq
}

func (o *out) begin(dst []byte, seq chunk.Seq) { o.dst, o.last, o.seq = dst, noFrame, seq }

// end gives the last frame of the record its id and returns all frames. Were the
// id on an earlier one, a connection cut between the two would lose the rest.
func (o *out) end() []byte {
	if o.last != noFrame && o.seq > 0 {
		o.identify(o.last, o.seq)
	}
	dst := o.dst
	o.dst = nil
	return dst
}

func (o *out) identify(at int, seq chunk.Seq) {
	var room [32]byte
	id := append(room[:0], "id: "...)
	id = append(strconv.AppendUint(id, uint64(seq), 10), '\n')
	o.dst = slices.Insert(o.dst, at, id...)
}

// open begins a frame of a chunk type.
func (o *out) open(kind string) {
	o.release()
	o.last = len(o.dst)
	o.dst = append(o.dst, `data: {"type":"`...)
	o.dst = append(o.dst, kind...)
	o.dst = append(o.dst, '"')
}

// shut ends the frame that was begun.
func (o *out) shut() { o.dst = append(o.dst, "}\n\n"...) }

// frame is what write writes, kept apart.
func (o *out) frame(write func()) []byte {
	dst, last, open := o.dst, o.last, o.tail
	o.dst, o.tail = nil, tail{}
	write()
	frame := o.dst
	o.dst, o.last, o.tail = dst, last, open
	return frame
}

// bare makes the frames so far bear no id.
func (o *out) bare() { o.last = noFrame }

// done appends the mark that other clients than the SDK's own read as the end.
func (o *out) done() { o.dst = append(o.dst, "data: [DONE]\n\n"...) }

// name begins a member. A comma is between it and the one before, if there is one.
func (o *out) name(name string) {
	if o.dst[len(o.dst)-1] != '{' {
		o.dst = append(o.dst, ',')
	}
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, '"', ':')
}

// value writes a member from JSON, text one from the content of a JSON string,
// str one from what a string means.
func (o *out) value(name string, value []byte) {
	o.name(name)
	o.dst = append(o.dst, value...)
}

func (o *out) text(name string, content []byte) {
	o.name(name)
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, content...)
	o.dst = append(o.dst, '"')
}

func (o *out) str(name, s string) {
	o.name(name)
	o.dst = appendString(o.dst, s)
}

// nest begins a member that is an object. Who ends it writes the brace.
func (o *out) nest(name string) {
	o.name(name)
	o.dst = append(o.dst, '{')
}

func (o *out) flag(name string, v bool) {
	if v {
		o.name(name)
		o.dst = append(o.dst, "true"...)
	}
}

const deltaEnd = "\"}\n\n"

// grow adds to the delta at the end of dst, if that is one of the same part.
// Halves of a surrogate pair that two records hold come together like that.
func (o *out) grow(key deltaKey, content []byte) bool {
	if !o.merge || o.tail.key != key {
		return false
	}
	o.dst = o.dst[:len(o.dst)-len(deltaEnd)]
	o.dst = append(o.dst, content...)
	o.dst = append(o.dst, deltaEnd...)
	o.tail.seq = o.seq
	return true
}

// delta ends a frame that was opened with the text of a part.
func (o *out) delta(name string, content []byte, key deltaKey) {
	o.text(name, content)
	o.shut()
	if o.merge {
		o.tail = tail{key: key, at: o.last, seq: o.seq}
		o.last = noFrame
	}
}

// release gives the delta at the end of dst its id, unless the record at hand
// goes on: then the id is for its last frame.
func (o *out) release() {
	if o.tail.key.part != nil && o.tail.seq != o.seq {
		o.identify(o.tail.at, o.tail.seq)
	}
	o.tail = tail{}
}
