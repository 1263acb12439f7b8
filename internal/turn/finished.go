package turn

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// finishedCalls has the calls with an outcome. A turn may have a hundred thousand of them, and each client that follows it has a machine. A call is its id, about
// 15 bytes of numbers, and 5 to 8 bytes of an index.
//
// Calls cannot be forgotten. Models choose the ids, so only the earlier ones show whether an id is new; another outcome of a call must have no effect; and a
// rollback to an earlier checkpoint may remove records of any step of the turn, also of a committed one. Then the id is free again, or the call is open.
// The ids are stored as they are: with hashes of them, two ids with one hash would give other frames than in a process with another seed.
type finishedCalls struct {
	blocks [][]byte // the calls, in the order of their outcomes
	index  []uint32 // a hash table of their ids in the messages: 1 + their places, 0 for none
	count  int
	last   chunk.Ordinal // of the latest outcome: the next call has the difference to it

	names    [][]byte // of tools
	sessions []string // of sub-agents
}

// blockSize is the maximum size of a block with more than one call. A place is blockSize times the block, plus the offset.
const blockSize = 1 << 12

// A stored call is the length of its id, the id, a bit for each number that is not 0, and these numbers.
const (
	ofFlags   = iota
	ofSession // 1 + its place in sessions
	ofSuffix  // without that of the first call with a key
	ofName    // its place in names
	ofEnded   // less the outcome before it
	ofBegun   // the outcome less the start
	ofSent    // less the start
	ofHash
	ofMark
	ofMark2
	ofApproval
	ofDelegated
	numbersOfCall
)

// flags returns the members of a call that its first number has a bit for.
func (c *Call) flags() [5]*bool {
	return [...]*bool{&c.Client, &c.Delegated, &c.Sent, &c.Approved, &c.denied}
}

// add adds a call.
func (f *finishedCalls) add(c *Call) {
	v := [numbersOfCall]int64{
		ofSuffix: int64(c.suffix - 1), ofName: placeOf(&f.names, c.Name, bytes.Equal), ofEnded: int64(c.endedAt - f.last), ofBegun: int64(c.endedAt - c.begunAt),
		ofSent: int64(c.sentAt - c.begunAt), ofHash: int64(c.hash), ofMark: int64(c.Mark[0]), ofMark2: int64(c.Mark[1]),
		ofApproval: int64(c.approvalAt), ofDelegated: int64(c.delegatedAt),
	}
	for i, is := range c.flags() {
		if *is {
			v[ofFlags] |= 1 << i
		}
	}
	if c.Key.Agent != "" {
		v[ofSession] = 1 + placeOf(&f.sessions, c.Key.Agent, func(a, b string) bool { return a == b })
	}
	f.last = c.endedAt
	var buf [128]byte
	b := append(binary.AppendUvarint(buf[:0], uint64(len(c.Key.ID))), c.Key.ID...)
	bits, at := uint16(0), len(b)
	b = append(b, 0, 0)
	for i, n := range v {
		if n != 0 {
			bits |= 1 << i
			b = binary.AppendVarint(b, n)
		}
	}
	binary.LittleEndian.PutUint16(b[at:], bits)
	f.store(c.ID, b)
}

// store stores a call that is shown under an id.
func (f *finishedCalls) store(id string, b []byte) {
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
	f.insert(id, at)
}

// placeOf returns the place of a name in a list, at the end of which it adds a new one. Most calls have one of a few tools; of many, only the latest are found again.
func placeOf[T any](list *[]T, name T, equal func(a, b T) bool) int64 {
	for i, known := range slices.Backward(*list) {
		if equal(known, name) {
			return int64(i)
		}
		if len(*list)-i == maxCompared {
			break
		}
	}
	*list = append(*list, name)
	return int64(len(*list) - 1)
}

// maxCompared is the number of names that a new one is compared with.
const maxCompared = 32

// read reads the call that b begins with, without its agent, and returns the rest of b. last is the outcome before it; without that, its ordinals are not those of
// the call.
func (f *finishedCalls) read(b []byte, last chunk.Ordinal) (c Call, rest []byte) {
	size, n := binary.Uvarint(b)
	id, b := b[n:n+int(size)], b[n+int(size):]
	bits, b := binary.LittleEndian.Uint16(b), b[2:]
	var v [numbersOfCall]int64
	for i := range v {
		if bits&(1<<i) != 0 {
			v[i], n = binary.Varint(b)
			b = b[n:]
		}
	}
	c = Call{
		Key: CallKey{ID: string(id)}, Name: f.names[v[ofName]], Mark: [2]uint64{uint64(v[ofMark]), uint64(v[ofMark2])}, suffix: int(v[ofSuffix]) + 1,
		hash: uint64(v[ofHash]), endedAt: last + chunk.Ordinal(v[ofEnded]), approvalAt: chunk.Ordinal(v[ofApproval]), delegatedAt: chunk.Ordinal(v[ofDelegated]),
	}
	c.begunAt = c.endedAt - chunk.Ordinal(v[ofBegun])
	c.sentAt = c.begunAt + chunk.Ordinal(v[ofSent])
	for i, is := range c.flags() {
		*is = v[ofFlags]&(1<<i) != 0
	}
	if s := v[ofSession]; s > 0 {
		c.Key.Agent = f.sessions[s-1]
	}
	c.ID = c.Key.ShownID(c.suffix)
	return c, b
}

// at returns the call at a place, without its ordinals.
func (f *finishedCalls) at(place uint32) Call {
	c, _ := f.read(f.blocks[place/blockSize][place%blockSize:], 0)
	return c
}

// each passes the calls to do, in the order of their outcomes.
func (f *finishedCalls) each(do func(*Call)) {
	var last chunk.Ordinal
	for _, b := range f.blocks {
		for len(b) > 0 {
			var c Call
			c, b = f.read(b, last)
			last = c.endedAt
			do(&c)
		}
	}
}

// remove reverts the changes of removed records to the calls of the session's agent, and returns those that are open again, in the order in which they began.
func (f *finishedCalls) remove(taken func(chunk.Ordinal) bool, own *Agent) (open []*Call) {
	isAffected := func(c *Call) bool {
		return c.Key.Agent == "" && (taken(c.begunAt) || taken(c.sentAt) || taken(c.endedAt))
	}
	affected := false
	f.each(func(c *Call) { affected = affected || isAffected(c) })
	if !affected {
		return nil
	}
	var kept finishedCalls
	f.each(func(c *Call) {
		switch {
		case !isAffected(c):
			kept.add(c)
		case taken(c.begunAt):
		case taken(c.endedAt):
			c.By, c.Sent, c.Approved = own, c.Sent && !taken(c.sentAt), c.Approved && !taken(c.approvalAt)
			open = append(open, c)
		default:
			c.Sent = false
			kept.add(c)
		}
	})
	*f = kept
	slices.SortFunc(open, func(a, b *Call) int { return cmp.Compare(a.begunAt, b.begunAt) })
	return open
}

// find returns the call that the messages have under an id.
func (f *finishedCalls) find(id string) (c Call, known bool) {
	if f.count == 0 {
		return Call{}, false
	}
	for i := f.slot(id); f.index[i] != 0; i = (i + 1) % len(f.index) {
		if c = f.at(f.index[i] - 1); c.ID == id {
			return c, true
		}
	}
	return Call{}, false
}

// slot returns the first slot of the index for an id.
func (f *finishedCalls) slot(id string) int {
	return int(maphash.String(hashSeed, id) % uint64(len(f.index)))
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
		if at != 0 {
			f.insert(f.at(at-1).ID, at-1)
		}
	}
}
