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
	last   finishedAt // of the latest call: the next one has the differences to it

	names    [][]byte // of tools
	sessions []string // of sub-agents
}

// finishedAt are the numbers of a call that rise from call to call.
type finishedAt struct {
	number  int
	endedAt chunk.Ordinal
}

// blockSize is the maximum size of a block with more than one call. A place is blockSize times the block, plus the offset.
const blockSize = 1 << 12

// The first byte of a call.
const (
	finishedSub       = 1 << iota // of a sub-agent: the place of its session follows
	finishedNumbered              // with a suffix, which follows the id
	finishedClient                // Call.Client
	finishedDelegated             // Call.Delegated: its record follows
	finishedSent                  // Call.Sent: its record and the hash of the arguments follow
	finishedMarked                // Call.Mark follows
	finishedApproved              // Call.Approved: its record follows
	finishedDenied                // a user has denied it
)

// add adds a call.
func (f *finishedCalls) add(c *Call) {
	var buf [128]byte
	b := f.append(buf[:0], c)
	f.last = finishedAt{c.number, c.endedAt}
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
	f.insert(c.ID, at)
}

// append appends a call in its stored form.
func (f *finishedCalls) append(b []byte, c *Call) []byte {
	var flags byte
	set := func(flag byte, on bool) {
		if on {
			flags |= flag
		}
	}
	set(finishedSub, c.Key.Agent != "")
	set(finishedNumbered, c.suffix > 1)
	set(finishedClient, c.Client)
	set(finishedDelegated, c.Delegated)
	set(finishedSent, c.Sent)
	set(finishedMarked, c.Mark != [2]uint64{})
	set(finishedDenied, c.denied)
	set(finishedApproved, c.Approved)
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(c.Key.ID)))
	if c.Key.Agent != "" {
		b = binary.AppendUvarint(b, f.sessionOf(c.Key.Agent))
	}
	b = append(b, c.Key.ID...)
	if c.suffix > 1 {
		b = binary.AppendUvarint(b, uint64(c.suffix))
	}
	b = binary.AppendUvarint(b, f.nameOf(c.Name))
	b = binary.AppendVarint(b, int64(c.number-f.last.number))
	b = binary.AppendVarint(b, int64(c.endedAt-f.last.endedAt))
	b = binary.AppendVarint(b, int64(c.endedAt-c.begunAt))
	if c.Sent {
		b = binary.AppendVarint(b, int64(c.sentAt-c.begunAt))
		b = binary.LittleEndian.AppendUint64(b, c.hash)
	}
	if c.Mark != [2]uint64{} {
		b = binary.AppendUvarint(binary.AppendUvarint(b, c.Mark[0]), c.Mark[1])
	}
	if c.Approved {
		b = binary.AppendVarint(b, int64(c.approvalAt-c.begunAt))
	}
	if c.Delegated {
		b = binary.AppendUvarint(b, uint64(c.delegatedAt))
	}
	return b
}

// nameOf returns the place of the name of a tool. Most calls have one of a few; of many, only the latest are found again.
func (f *finishedCalls) nameOf(name []byte) uint64 {
	for i, known := range slices.Backward(f.names) {
		if bytes.Equal(known, name) {
			return uint64(i)
		}
		if len(f.names)-i == maxCompared {
			break
		}
	}
	f.names = append(f.names, name)
	return uint64(len(f.names) - 1)
}

// sessionOf returns the place of the session of a sub-agent, which has most of its calls at a time.
func (f *finishedCalls) sessionOf(session string) uint64 {
	for i, known := range slices.Backward(f.sessions) {
		if known == session {
			return uint64(i)
		}
		if len(f.sessions)-i == maxCompared {
			break
		}
	}
	f.sessions = append(f.sessions, session)
	return uint64(len(f.sessions) - 1)
}

// maxCompared is the number of names, or sessions, that a new one is compared with.
const maxCompared = 32

// finishedCall is a stored call. Its bytes are those of the block.
type finishedCall struct {
	flags   byte
	agent   string
	id      []byte
	suffix  int
	name    uint64
	number  int
	begunAt chunk.Ordinal
	endedAt chunk.Ordinal
	sentAt  chunk.Ordinal
	hash    uint64
	mark    [2]uint64

	approvedAt, delegatedAt chunk.Ordinal // 0 for none
}

// read reads the call that b begins with, and returns the rest of b. Without the call before it, the numbers that rise are not those of the call.
func (f *finishedCalls) read(b []byte, last finishedAt) (c finishedCall, rest []byte) {
	size := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	difference := func() int64 {
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	c, b = finishedCall{flags: b[0], suffix: 1}, b[1:]
	id := size()
	if c.flags&finishedSub != 0 {
		c.agent = f.sessions[size()]
	}
	c.id, b = b[:id], b[id:]
	if c.flags&finishedNumbered != 0 {
		c.suffix = int(size())
	}
	c.name = size()
	c.number = last.number + int(difference())
	c.endedAt = last.endedAt + chunk.Ordinal(difference())
	c.begunAt = c.endedAt - chunk.Ordinal(difference())
	if c.flags&finishedSent != 0 {
		c.sentAt = c.begunAt + chunk.Ordinal(difference())
		c.hash, b = binary.LittleEndian.Uint64(b), b[8:]
	}
	if c.flags&finishedMarked != 0 {
		c.mark = [2]uint64{size(), size()}
	}
	if c.flags&finishedApproved != 0 {
		c.approvedAt = c.begunAt + chunk.Ordinal(difference())
	}
	if c.flags&finishedDelegated != 0 {
		c.delegatedAt = chunk.Ordinal(size())
	}
	return c, b
}

// at returns the call at a place, without the numbers that rise.
func (f *finishedCalls) at(place uint32) finishedCall {
	c, _ := f.read(f.blocks[place/blockSize][place%blockSize:], finishedAt{})
	return c
}

// each passes the calls to do, in the order of their outcomes.
func (f *finishedCalls) each(do func(*finishedCall)) {
	var last finishedAt
	for _, b := range f.blocks {
		for len(b) > 0 {
			var c finishedCall
			c, b = f.read(b, last)
			last = finishedAt{c.number, c.endedAt}
			do(&c)
		}
	}
}

func (c *finishedCall) key() CallKey { return CallKey{c.agent, string(c.id)} }

// is reports whether the call has a key.
func (c *finishedCall) is(key CallKey) bool { return c.agent == key.Agent && string(c.id) == key.ID }

// call returns the call as it was. by is its agent.
func (f *finishedCalls) call(c *finishedCall, by *Agent) *Call {
	key := c.key()
	return &Call{
		Key: key, By: by, ID: key.ShownID(c.suffix), Name: f.names[c.name],
		Client: c.flags&finishedClient != 0, Delegated: c.flags&finishedDelegated != 0, Sent: c.flags&finishedSent != 0, denied: c.flags&finishedDenied != 0,
		Approved: c.flags&finishedApproved != 0, approvalAt: c.approvedAt, delegatedAt: c.delegatedAt, Mark: c.mark,
		suffix: c.suffix, number: c.number, hash: c.hash, begunAt: c.begunAt, sentAt: c.sentAt, endedAt: c.endedAt,
	}
}

// remove reverts the changes of removed records to the calls of the session's agent, and returns those that are open again, in the order in which they began.
func (f *finishedCalls) remove(taken func(chunk.Ordinal) bool, own *Agent) (open []*Call) {
	isAffected := func(c *finishedCall) bool {
		return c.flags&finishedSub == 0 && (taken(c.begunAt) || taken(c.sentAt) || taken(c.endedAt))
	}
	affected := false
	f.each(func(c *finishedCall) { affected = affected || isAffected(c) })
	if !affected {
		return nil
	}
	var kept finishedCalls
	f.each(func(stored *finishedCall) {
		switch c := f.call(stored, own); {
		case !isAffected(stored):
			kept.add(c)
		case taken(c.begunAt):
		case taken(c.endedAt):
			c.Sent, c.Approved = c.Sent && !taken(c.sentAt), c.Approved && !taken(c.approvalAt)
			open = append(open, c)
		default:
			c.Sent = false
			kept.add(c)
		}
	})
	*f = kept
	slices.SortFunc(open, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(a.begunAt, b.begunAt), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return open
}

// isShownAs reports whether the messages have the call under an id.
func (c *finishedCall) isShownAs(id string) bool {
	if c.agent != "" || c.suffix > 1 {
		return c.key().ShownID(c.suffix) == id
	}
	return id == string(c.id)
}

// has reports whether the messages have a call under an id.
func (f *finishedCalls) has(id string) bool {
	_, known := f.find(id)
	return known
}

// find returns the call that the messages have under an id.
func (f *finishedCalls) find(id string) (c finishedCall, known bool) {
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
			c := f.at(at - 1)
			f.insert(c.key().ShownID(c.suffix), at-1)
		}
	}
}
