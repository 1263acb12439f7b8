package structured

import (
	"slices"
)

// node is one value of a stream. The nil node is unset: a place that was never written, a skipped slot, or the result of a set without a value.
type node struct {
	kind  kind
	text  []byte         // the digits of a number, the WTF-8 of a string
	items []*node        // the slots of an array, the values of an object
	names []string       // of an object: the names of items, in the order of their first use
	index map[string]int // of an object with more than fewNames: the index of a name
}

type kind byte

const (
	null kind = iota
	boolFalse
	boolTrue
	number
	text
	array
	object
)

// Up to this number of names a search takes less time than a hash table.
const fewNames = 8

// String returns the kind for an error.
func (k kind) String() string {
	switch k {
	case null:
		return "null"
	case boolFalse, boolTrue:
		return "a boolean"
	case number:
		return "a number"
	case text:
		return "a string"
	case array:
		return "an array"
	default:
		return "an object"
	}
}

// find returns the index of the member with that name, or -1.
func (n *node) find(name string) int {
	if n.index == nil {
		return slices.Index(n.names, name)
	}
	if i, ok := n.index[name]; ok {
		return i
	}
	return -1
}

// add adds a member that the object does not have.
func (n *node) add(name string, v *node) {
	if n.names == nil {
		n.names, n.items = make([]string, 0, 4), make([]*node, 0, 4)
	}
	if n.index == nil && len(n.names) == fewNames {
		n.index = make(map[string]int, 2*fewNames)
		for i, name := range n.names {
			n.index[name] = i
		}
	}
	if n.index != nil {
		n.index[name] = len(n.names)
	}
	n.names = append(n.names, name)
	n.items = append(n.items, v)
}

// size counts n and all values in it. An unset place counts as a value.
func (n *node) size() size {
	total := size{values: 1}
	if n == nil {
		return total
	}
	total.text = len(n.text)
	for _, name := range n.names {
		total.text += len(name)
	}
	for _, item := range n.items {
		total = total.plus(item.size())
	}
	return total
}

// clone returns a copy that shares no mutable data.
func (n *node) clone() *node {
	if n == nil {
		return nil
	}
	c := &node{kind: n.kind, text: slices.Clone(n.text)}
	if n.kind != object {
		c.items = make([]*node, len(n.items))
		for i, item := range n.items {
			c.items[i] = item.clone()
		}
		return c
	}
	for i, name := range n.names {
		c.add(name, n.items[i].clone())
	}
	return c
}

// places calls f with n and every place in it, including unset ones, a container before its content, in the order of the text.
func places(at **node, f func(at **node)) {
	f(at)
	if *at == nil {
		return
	}
	for i := range (*at).items {
		places(&(*at).items[i], f)
	}
}
