package kortyx

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/turn"
	"github.com/tailrace/tailrace/projector/fold"
)

// customState is the custom state of the session, and what a client has of it.
type customState struct {
	doc    chunk.Value
	shown  bool              // a client has doc, unless stale
	stale  bool              // records were removed that a client may have
	lost   bool              // doc is not known
	client structured.Stream // the stream of a client

	// past has the states before the latest patches: a removal of records restores one.
	past      []pastState
	pastBytes int
	forgotten chunk.Ordinal // the last patch before those of past, 0 for none
}

type pastState struct {
	at     chunk.Ordinal // of the patch
	before chunk.Value
}

// Limits of customState.past.
const (
	maxPast      = 256
	maxPastBytes = 4 * fold.MaxState
)

// The document is written under one name, so that all of it can be replaced: a path cannot be empty.
const stateRoot = "state"

// maxOps is the number of operations whose places are searched in the document. maxSets is the number of places that are written. More write the whole state.
const (
	maxOps  = 64
	maxSets = 16
)

// statePatch writes the changes of a patch as set and append.
func (p *printer) statePatch(it *turn.Item) {
	b, ok := chunk.BodyOf[chunk.StatePatch](*it.Rec)
	if !ok {
		return
	}
	if p.state.lost {
		p.carry(it)
		return
	}
	before := p.state.doc
	after, err := fold.ApplyPatch(before, b.Patches)
	if err != nil {
		return // rejected, as in the snapshot
	}
	p.state.remember(it.Rec.Ordinal)
	p.state.doc = after
	if !p.state.shown || p.state.stale || len(b.Patches) > maxOps {
		p.showState(it)
		return
	}
	for _, ch := range changesOf(before, after, b.Patches) {
		if !p.stateChange(it, ch) {
			return
		}
	}
}

// showState writes the whole state.
func (p *printer) showState(it *turn.Item) {
	p.state.shown, p.state.stale = true, false
	p.stateChange(it, change{value: p.state.doc})
}

// stateChange writes one change, unless our reducer refuses it. Then the next patch writes the whole state.
func (p *printer) stateChange(it *turn.Item, ch change) bool {
	kind, member := "set", "value"
	if ch.appends {
		kind, member = "append", "items"
	}
	o := p.beginScratch(nodeOf(it), p.stateID(), "state", kind)
	o.String("path", strings.Join(append([]string{stateRoot}, ch.place...), "."))
	o.Raw(member, ch.value)
	p.scratch = o.End()
	if p.state.client.Apply(p.scratch) != nil {
		p.state.shown = false
		return false
	}
	p.writeScratch()
	return true
}

// stateID returns the id of the stream of the state.
func (p *printer) stateID() string { return "state:" + p.turn.Session().ID }

// remember keeps the state before a patch.
func (s *customState) remember(at chunk.Ordinal) {
	s.past = append(s.past, pastState{at, s.doc})
	s.pastBytes += len(s.doc)
	n := 0
	for len(s.past)-n > maxPast || s.pastBytes > maxPastBytes {
		s.pastBytes -= len(s.past[n].before)
		s.forgotten = s.past[n].at
		n++
	}
	s.past = slices.Delete(s.past, 0, n)
}

// restore restores the state before the patches that were removed, which are the last ones.
func (s *customState) restore(removed func(chunk.Ordinal) bool) {
	if s.forgotten > 0 && removed(s.forgotten) {
		s.lost = true
		return
	}
	i := slices.IndexFunc(s.past, func(p pastState) bool { return removed(p.at) })
	if i < 0 {
		return
	}
	if slices.ContainsFunc(s.past[i:], func(p pastState) bool { return !removed(p.at) }) {
		s.lost = true
		return
	}
	s.doc, s.stale = s.past[i].before, true
	for _, p := range s.past[i:] {
		s.pastBytes -= len(p.before)
	}
	s.past = slices.Delete(s.past, i, len(s.past))
}

// change is a change of the state in a form that Kortyx has: a set of a place, or items that are appended to an array.
type change struct {
	place   []string // names and indexes
	appends bool
	from    int // index of the first item
	value   []byte
}

// covers reports whether c writes all that another change writes.
func (c change) covers(o change) bool {
	if len(c.place) > len(o.place) || !slices.Equal(c.place, o.place[:len(c.place)]) {
		return false
	}
	if !c.appends {
		return true
	}
	if len(o.place) == len(c.place) {
		return o.appends
	}
	i, err := strconv.Atoi(o.place[len(c.place)])
	return err == nil && i >= c.from
}

// changesOf returns the changes that make after of before. An operation changes a place; the removal from a container and the insertion into an array change
// the container. What is written is the nearest place around it that a path can name, with its value in after. All places on the way to a place that changes
// are the same in both documents, or are inside another one that changes.
func changesOf(before, after chunk.Value, ops []chunk.PatchOp) []change {
	f := changeFinder{before: before, after: after, lengths: make(map[string]int)}
	for i := range ops {
		f.operation(&ops[i])
	}
	return f.result()
}

type changeFinder struct {
	before, after chunk.Value
	lengths       map[string]int // of the arrays that operations appended to
	changes       []change
}

func (f *changeFinder) operation(op *chunk.PatchOp) {
	switch op.Op {
	case "add", "copy":
		f.add(op.Path)
	case "replace":
		f.set(tokens(op.Path))
	case "remove":
		f.remove(op.Path)
	case "move":
		f.remove(*op.From)
		f.add(op.Path)
	}
}

func (f *changeFinder) remove(pointer string) {
	if place := tokens(pointer); len(place) > 0 {
		f.set(place[:len(place)-1])
	}
}

// add handles a new member or element: an element at the end of an array is appended, another one moves those after it.
func (f *changeFinder) add(pointer string) {
	place := tokens(pointer)
	if len(place) == 0 {
		f.set(nil)
		return
	}
	in, last := place[:len(place)-1], place[len(place)-1]
	if rawjson.Kind(find(f.after, in)) != '[' {
		f.set(place)
		return
	}
	array := find(f.before, in)
	if rawjson.Kind(array) != '[' {
		f.set(in)
		return
	}
	key := pointer[:strings.LastIndexByte(pointer, '/')]
	n, known := f.lengths[key]
	if !known {
		n = count(array)
	}
	if last != "-" && last != strconv.Itoa(n) {
		f.set(in)
		return
	}
	f.lengths[key] = n + 1
	if known {
		return // part of the earlier append
	}
	if addressable, _ := reach(f.after, in); len(addressable) < len(in) {
		f.set(in)
		return
	}
	f.changes = append(f.changes, change{place: in, appends: true, from: n})
}

func (f *changeFinder) set(place []string) {
	place, value := reach(f.after, place)
	f.changes = append(f.changes, change{place: place, value: value})
}

// result returns the changes without those that others cover.
func (f *changeFinder) result() []change {
	var out []change
	for i, c := range f.changes {
		covered := false
		for j, o := range f.changes {
			if i != j && o.covers(c) && (!c.covers(o) || j < i) {
				covered = true
				break
			}
		}
		if covered {
			continue
		}
		if c.appends {
			c.value = items(find(f.after, c.place), c.from)
		}
		out = append(out, c)
	}
	if len(out) > maxSets {
		return []change{{value: f.after}}
	}
	return out
}

// tokens returns the names in a JSON pointer.
func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	list := strings.Split(pointer[1:], "/")
	for i, t := range list {
		list[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return list
}

// find returns the value at a place, nil if there is none.
func find(doc chunk.Value, place []string) chunk.Value {
	for _, name := range place {
		if doc = member(doc, name); doc == nil {
			return nil
		}
	}
	return doc
}

// member returns the member of an object, or the element of an array.
func member(v chunk.Value, name string) chunk.Value {
	if rawjson.Kind(v) != '[' {
		return rawjson.Get(v, name)
	}
	i, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(i) != name {
		return nil
	}
	for e := range rawjson.Elements(v) {
		if i == 0 {
			return e
		}
		i--
	}
	return nil
}

// reach returns the longest part of a place that exists and that a path can name, and its value.
func reach(doc chunk.Value, place []string) ([]string, chunk.Value) {
	for i, name := range place {
		next := member(doc, name)
		if next == nil || rawjson.Kind(doc) == '{' && !isName(name) || i+2 > structured.MaxSegments {
			return place[:i], doc
		}
		doc = next
	}
	return place, doc
}

// isName reports whether a path can name a member of an object: there is no escape for a dot, digits are an index, and the members that every JavaScript object
// has are in the way.
func isName(name string) bool {
	return name != "" && len(name) <= structured.MaxName && !strings.Contains(name, ".") && strings.Trim(name, "0123456789") != "" && !reserved[name] && name != "prototype"
}

// count returns the number of elements of an array.
func count(array chunk.Value) (n int) {
	for range rawjson.Elements(array) {
		n++
	}
	return n
}

// items returns the elements of an array from an index on, as an array.
func items(array chunk.Value, from int) []byte {
	out := []byte{'['}
	i := 0
	for e := range rawjson.Elements(array) {
		if i >= from {
			if i > from {
				out = append(out, ',')
			}
			out = append(out, bytes.TrimSpace(e)...)
		}
		i++
	}
	return append(out, ']')
}
