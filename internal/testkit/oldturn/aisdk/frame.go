package aisdk

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// out builds frames.
type out struct {
	json rawjson.Object
	last int          // where the last frame of the record at hand begins, noFrame if it has none
	at   chunk.Cursor // of the record at hand

	merge bool // deltas of one part become one: a replay
	tail  tail

	scratch []byte // frames that are discarded
}

const noFrame = -1

// tail is a delta at the end of the frames that may be extended. It gets its id when it is complete.
type tail struct {
	key deltaKey // nil part: no tail
	at  int
	id  chunk.Cursor // of the last record in it
}

// deltaKey is the part that a delta belongs to.
type deltaKey struct {
	part any // *speaker or *call
	at   chunk.Seq
}

func (o *out) begin(dst []byte, at chunk.Cursor) { o.json.Dst, o.last, o.at = dst, noFrame, at }

// end gives the last frame of the record its id and returns all frames. With the id on an earlier frame, a connection that breaks between the two would
// lose the rest.
func (o *out) end() []byte {
	if o.last != noFrame && o.at.Seq > 0 {
		o.identify(o.last, o.at)
	}
	dst := o.json.Dst
	o.json.Dst = nil
	return dst
}

func (o *out) identify(at int, id chunk.Cursor) {
	var buf [48]byte
	line := append(buf[:0], "id: "...)
	line = append(id.Append(line), '\n')
	o.json.Dst = slices.Insert(o.json.Dst, at, line...)
}

// open begins a frame of a chunk type.
func (o *out) open(kind string) {
	o.release()
	o.last = len(o.json.Dst)
	o.json.Dst = append(o.json.Dst, `data: {"type":"`...)
	o.json.Dst = append(o.json.Dst, kind...)
	o.json.Dst = append(o.json.Dst, '"')
}

// shut ends the open frame.
func (o *out) shut() { o.json.Dst = append(o.json.Dst, "}\n\n"...) }

// frame returns the frames that write writes, without appending them.
func (o *out) frame(write func()) []byte {
	dst, last, open := o.json.Dst, o.last, o.tail
	o.json.Dst, o.tail = nil, tail{}
	write()
	frame := o.json.Dst
	o.json.Dst, o.last, o.tail = dst, last, open
	return frame
}

// bare leaves the frames so far without an id.
func (o *out) bare() { o.last = noFrame }

// done appends the end marker that clients other than the SDK's own read.
func (o *out) done() { o.json.Dst = append(o.json.Dst, "data: [DONE]\n\n"...) }

const deltaEnd = "\"}\n\n"

// grow extends the delta at the end of the frames if it belongs to the same part. This joins the halves of a surrogate pair of two records.
func (o *out) grow(key deltaKey, content []byte) bool {
	if !o.merge || o.tail.key != key {
		return false
	}
	o.json.Dst = o.json.Dst[:len(o.json.Dst)-len(deltaEnd)]
	o.json.Dst = append(o.json.Dst, content...)
	o.json.Dst = append(o.json.Dst, deltaEnd...)
	o.tail.id = o.at
	return true
}

// delta ends the open frame with the text of a part.
func (o *out) delta(name string, content []byte, key deltaKey) {
	o.json.Content(name, content)
	o.shut()
	if o.merge {
		o.tail = tail{key: key, at: o.last, id: o.at}
		o.last = noFrame
	}
}

// release gives the delta at the end of the frames its id, unless it is of the current record: then the id is for the last frame of the record.
func (o *out) release() {
	if o.tail.key.part != nil && o.tail.id != o.at {
		o.identify(o.tail.at, o.tail.id)
	}
	o.tail = tail{}
}
