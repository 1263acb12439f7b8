package aisdk

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// out is where frames are written.
type out struct {
	dst     []byte
	last    int // where the record's last frame begins, -1: it has none
	scratch []byte
}

const noFrame = -1

func (o *out) begin(dst []byte) { o.dst, o.last = dst, noFrame }

// end gives the last frame of the record its id and returns all frames. Were it
// on an earlier one, a connection cut between the two would lose the rest.
func (o *out) end(seq chunk.Seq) []byte {
	if o.last != noFrame && seq > 0 {
		var room [32]byte
		id := append(room[:0], "id: "...)
		id = append(strconv.AppendUint(id, uint64(seq), 10), '\n')
		o.dst = slices.Insert(o.dst, o.last, id...)
	}
	dst := o.dst
	o.dst = nil
	return dst
}

// open begins a frame of a chunk type.
func (o *out) open(kind string) {
	o.last = len(o.dst)
	o.dst = append(o.dst, `data: {"type":"`...)
	o.dst = append(o.dst, kind...)
	o.dst = append(o.dst, '"')
}

// shut ends the frame that was begun.
func (o *out) shut() { o.dst = append(o.dst, "}\n\n"...) }

// bare makes the frames so far bear no id.
func (o *out) bare() { o.last = noFrame }

func (m *Message) start() {
	if m.started {
		return
	}
	m.started = true
	m.open("start")
	m.dst = append(m.dst, `,"messageId":`...)
	m.dst = appendString(m.dst, m.id)
	m.shut()
	m.bare()
}

func (m *Message) finish(reason string) {
	m.open("finish")
	m.dst = append(m.dst, `,"finishReason":"`...)
	m.dst = append(m.dst, reason...)
	m.dst = append(m.dst, '"')
	m.shut()
	m.dst = append(m.dst, "data: [DONE]\n\n"...)
}
