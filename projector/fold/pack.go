package fold

import "slices"

// A pack is a run of finished messages and segments that a store writes as one value. A store of one value for each message
// would have as many keys as messages, and its server keeps each key in memory.
//
// The bounds of the packs follow from the data of the messages and from their generations alone, not from the time of a save. So
// two processes that fold the same log write the same packs, and a process that died between two writes is continued by another one
// that writes the same again. The messages after the last complete pack are the tail, which is in the head.
//
// A truncated record starts a generation, and with it a pack: the pack before it is complete, however small it is. It begins
// with the same messages as the pack with the same Index and Generation of a fold that has not read the truncated record yet;
// one of the two may have more messages.

// MaxPackMessages is the maximum number of messages of a pack.
const MaxPackMessages = 64

// packBytes is the maximum number of bytes of the messages of a pack, unless a single message has more. A variable for tests.
var packBytes = 16 << 10

// Packs returns the complete packs of the messages in memory: each has at least one message, all are of one generation, and no record adds one. They are
// read-only. The messages after them are in the head, see AppendHead.
func (s Snapshot) Packs() [][]FinishedMessage {
	packs, _ := s.messages.packs()
	return packs
}

// packs divides the finished messages in memory into complete packs and the tail. The first message in memory begins a pack.
func (h *history) packs() (complete [][]FinishedMessage, tail []FinishedMessage) {
	first, size := 0, 0
	end := func(n int) {
		if n > first {
			complete = append(complete, h.finished[first:n:n])
		}
		first, size = n, 0
	}
	for n := range h.finished {
		m := &h.finished[n]
		if size+len(m.Data) > packBytes || n > first && h.startsGeneration(m.Index) {
			end(n)
		}
		size += len(m.Data)
		if n+1-first == MaxPackMessages || size >= packBytes {
			end(n + 1)
		}
	}
	if h.startsGeneration(h.finishedCount()) {
		end(len(h.finished))
	}
	return complete, h.finished[first:]
}

// startsGeneration reports whether message n begins a generation.
func (h *history) startsGeneration(n int) bool {
	return slices.ContainsFunc(h.spans, func(sp span) bool { return sp.from == n })
}

func (s Snapshot) trimFinished() Snapshot {
	h := &s.messages
	_, tail := h.packs()
	h.trimmed = h.finishedCount() - len(tail)
	// A new array: the old one would keep the messages of the packs in memory.
	h.finished = slices.Clone(tail)
	return s
}
