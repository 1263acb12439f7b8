package aisdk

import (
	"encoding/binary"
	"hash/maphash"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// finishedCalls has the calls with an outcome. A turn may have a hundred thousand of them, and each client that follows it has a writer. A call is its id, about
// 15 bytes of numbers, and 5 to 8 bytes of an index.
//
// Calls cannot be forgotten. Models choose the ids, so only the earlier ones show whether an id is new; another outcome of a call must have no effect; and a
// rollback to an earlier checkpoint may remove records of any step of the message, also of a committed one. Then the id is free again, or the call is open.
// The ids are stored as they are: with hashes of them, two ids with one hash would give other frames than on an edge with another seed.
type finishedCalls struct {
	blocks [][]byte // the calls, in the order of their outcomes
	index  []uint32 // a hash table of their ids in the message: 1 + their places, 0 for none
	count  int
	last   finishedAt // of the latest call: the next one has the differences to it
}

// finishedAt are the numbers of a call that rise from call to call.
type finishedAt struct {
	number      int
	completedAt chunk.Ordinal
}

// blockSize is the maximum size of a block with more than one call. A place is blockSize times the block, plus the offset.
const blockSize = 1 << 12

// The first byte of a call.
const (
	finishedSub       = 1 << iota // of a sub-agent: the length of the agent follows
	finishedNumbered              // with a suffix, which follows the id
	finishedClient                // call.client
	finishedDelegated             // call.delegated: the step follows
	finishedSent                  // call.sent: its record and the hash of the input follow
)

// add adds a call.
func (f *finishedCalls) add(c *call) {
	var buf [128]byte
	b := f.append(buf[:0], c)
	f.last = finishedAt{c.number, c.completedAt}
	n := len(f.blocks) - 1
	if n < 0 || len(f.blocks[n])+len(b) > blockSize {
		f.blocks = append(f.blocks, nil)
		n++
	}
	block := f.blocks[n]
	at := uint32(n*blockSize + len(block))
	if need := len(block) + len(b); need > cap(block) {
		block = append(make([]byte, 0, max(need, min(2*cap(block), blockSize))), block...)
	}
	f.blocks[n] = append(block, b...)
	f.count++
	if 4*f.count > 3*len(f.index) {
		f.grow()
	}
	f.insert(c.id, at)
}

// append appends a call in its stored form.
func (f *finishedCalls) append(b []byte, c *call) []byte {
	var flags byte
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	set(finishedSub, c.key.agent != "")
	set(finishedNumbered, c.suffix > 1)
	set(finishedClient, c.client)
	set(finishedDelegated, c.delegated)
	set(finishedSent, c.sent)
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(c.key.id)))
	if c.key.agent != "" {
		b = binary.AppendUvarint(b, uint64(len(c.key.agent)))
	}
	b = append(append(b, c.key.agent...), c.key.id...)
	if c.suffix > 1 {
		b = binary.AppendUvarint(b, uint64(c.suffix))
	}
	b = binary.AppendVarint(b, int64(c.number-f.last.number))
	b = binary.AppendVarint(b, int64(c.completedAt-f.last.completedAt))
	b = binary.AppendVarint(b, int64(c.completedAt-c.begunAt))
	if c.sent {
		b = binary.AppendVarint(b, int64(c.sentAt-c.begunAt))
		b = binary.LittleEndian.AppendUint64(b, c.inputHash)
	}
	if c.delegated {
		b = binary.AppendUvarint(b, uint64(c.delegatedIn))
	}
	return b
}

// finishedCall is a stored call. Its bytes are those of the block.
type finishedCall struct {
	flags       byte
	agent, id   []byte
	suffix      int
	number      int
	begunAt     chunk.Ordinal
	completedAt chunk.Ordinal
	sentAt      chunk.Ordinal
	inputHash   uint64
	delegatedIn int
}

// readFinished reads the call that b begins with, and returns the rest of b. Without the call before it, the numbers that rise are not those of the call.
func readFinished(b []byte, last finishedAt) (c finishedCall, rest []byte) {
	size := func() int {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return int(v)
	}
	difference := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	c, b = finishedCall{flags: b[0], suffix: 1}, b[1:]
	id, agent := size(), 0
	if c.flags&finishedSub != 0 {
		agent = size()
	}
	c.agent, c.id, b = b[:agent], b[agent:agent+id], b[agent+id:]
	if c.flags&finishedNumbered != 0 {
		c.suffix = size()
	}
	c.number = last.number + int(difference())
	c.completedAt = last.completedAt + chunk.Ordinal(difference())
	c.begunAt = c.completedAt - chunk.Ordinal(difference())
	if c.flags&finishedSent != 0 {
		c.sentAt = c.begunAt + chunk.Ordinal(difference())
		c.inputHash, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	if c.flags&finishedDelegated != 0 {
		c.delegatedIn = size()
	}
	return c, b
}

// at returns the call at a place, without the numbers that rise.
func (f *finishedCalls) at(place uint32) finishedCall {
	c, _ := readFinished(f.blocks[place/blockSize][place%blockSize:], finishedAt{})
	return c
}

// each passes the calls to do, in the order of their outcomes.
func (f *finishedCalls) each(do func(*finishedCall)) {
	var last finishedAt
	for _, b := range f.blocks {
		for len(b) > 0 {
			var c finishedCall
			c, b = readFinished(b, last)
			last = finishedAt{c.number, c.completedAt}
			do(&c)
		}
	}
}

// isOwn reports whether the call is of the message's own agent.
func (c *finishedCall) isOwn() bool { return c.flags&finishedSub == 0 }

func (c *finishedCall) key() callKey { return callKey{string(c.agent), string(c.id)} }

// call returns the call as it was.
func (c *finishedCall) call() *call {
	full := newCall(c.key(), c.suffix)
	full.client, full.delegated, full.sent = c.flags&finishedClient != 0, c.flags&finishedDelegated != 0, c.flags&finishedSent != 0
	full.completed, full.number, full.delegatedIn, full.inputHash = true, c.number, c.delegatedIn, c.inputHash
	full.begunAt, full.completedAt, full.sentAt = c.begunAt, c.completedAt, c.sentAt
	return full
}

// isShownAs reports whether the message has the call under an id.
func (c *finishedCall) isShownAs(id string) bool {
	if len(c.agent) > 0 {
		agent := len(c.agent)
		if len(id) <= agent || id[:agent] != string(c.agent) || id[agent] != '/' {
			return false
		}
		id = id[agent+1:]
	}
	if c.suffix == 1 {
		return id == string(c.id)
	}
	n := len(c.id)
	var buf [20]byte
	return len(id) > n && id[:n] == string(c.id) && id[n] == '_' && id[n+1:] == string(strconv.AppendInt(buf[:0], int64(c.suffix), 10))
}

// find returns the call that the message has under an id.
func (f *finishedCalls) find(id string) (c finishedCall, ok bool) {
	if f.count == 0 {
		return finishedCall{}, false
	}
	for i := f.slot(id); f.index[i] != 0; i = (i + 1) % len(f.index) {
		if c = f.at(f.index[i] - 1); c.isShownAs(id) {
			return c, true
		}
	}
	return finishedCall{}, false
}

// has reports whether the message has a call with this key under the id of the key.
func (f *finishedCalls) has(key callKey) bool {
	c, ok := f.find(key.shownID(1))
	return ok && c.suffix == 1 && string(c.agent) == key.agent && string(c.id) == key.id
}

// slot returns the first slot of the index for an id.
func (f *finishedCalls) slot(id string) int {
	return int(maphash.String(sums, id) % uint64(len(f.index)))
}

func (f *finishedCalls) insert(id string, at uint32) {
	i := f.slot(id)
	for f.index[i] != 0 {
		i = (i + 1) % len(f.index)
	}
	f.index[i] = at + 1
}

// grow enlarges the index by a half. Twice the size would cost up to 11 bytes per call.
func (f *finishedCalls) grow() {
	old := f.index
	f.index = make([]uint32, max(8, len(old)+len(old)/2))
	for _, at := range old {
		if at == 0 {
			continue
		}
		c := f.at(at - 1)
		f.insert(c.key().shownID(c.suffix), at-1)
	}
}
