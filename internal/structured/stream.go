package structured

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// The names of the custom events of a session with structured data.
const (
	PieceEvent       = "structured-data"             // its data is a chunk that ApplyStream takes
	InvalidatedEvent = "structured-data-invalidated" // its data has the id of a stream to remove
)

// Stream is a value and its state. The zero Stream has no id; its first chunk sets it.
type Stream struct {
	// Labels are those of the last applied chunk; a chunk without a label removes it.
	Labels Labels

	// Rejected counts the chunks that were not applied.
	Rejected int64

	status  Status
	data    *node
	size    size   // of data; the root itself is not counted
	failure string // the last rejection, one line of ASCII
}

// Status is the state of a stream.
type Status int

// The statuses of a Stream.
const (
	Empty     Status = iota // no chunk has been applied
	Streaming               // further chunks may change the value
	Final                   // a final chunk has replaced the value; it does not change any more
)

// String returns the status as clients get it; Empty is "".
func (s Status) String() string {
	switch s {
	case Streaming:
		return "streaming"
	case Final:
		return "done"
	default:
		return ""
	}
}

// Status returns the state of the stream.
func (s *Stream) Status() Status { return s.status }

// HasUnset reports whether the value has places that were skipped or have no value. They are not null, although AppendData writes null or nothing.
func (s *Stream) HasUnset() bool { return s.data != nil && len(unset(s.data)) > 0 }

// Apply applies one chunk in JSON. For text that is not such a chunk, a chunk of another stream, and one that cannot be applied it returns a *RejectedError:
// the value is unchanged and the stream is marked. A State finds the stream of a chunk.
func (s *Stream) Apply(data []byte) error {
	c, bad := readChange(data)
	if bad == nil {
		bad = s.apply(c, size{MaxText, MaxValues}, false)
	}
	if bad != nil {
		s.refuse(bad)
		return bad
	}
	return nil
}

// refuse counts a rejected chunk. A late chunk does not invalidate a final value.
func (s *Stream) refuse(bad *RejectedError) {
	s.Rejected++
	if s.status != Final {
		s.failure = bad.Error()
	}
}

// apply computes the next value. The checks are in the order of the original: the first one that fails is reported.
func (s *Stream) apply(c change, limit size, strict bool) *RejectedError {
	bad := s.change(c, limit, strict)
	if bad != nil {
		bad.Stream = c.labels.StreamID
		return bad
	}
	s.Labels = c.labels
	if s.status = Streaming; c.kind == "final" {
		s.status, s.failure = Final, ""
	}
	return nil
}

func (s *Stream) change(c change, limit size, strict bool) *RejectedError {
	switch {
	case s.status != Empty && s.Labels.StreamID != c.labels.StreamID:
		return &RejectedError{Want: "stream " + excerpt(s.Labels.StreamID), Got: "another one"}
	case s.status == Final:
		return &RejectedError{Want: "nothing after the final chunk", Got: "another chunk"}
	case strict && c.value == nil && (c.kind == "final" || c.kind == "set"):
		return &RejectedError{Want: "a value"}
	case c.kind == "final":
		return s.replace(c.value, limit)
	case c.path == "":
		return &RejectedError{Want: "a path that is not empty"}
	}
	path, bad := parsePath(c.path, strict)
	if bad != nil {
		return bad
	}
	t, bad := s.find(c, path, strict)
	if bad != nil {
		return bad
	}
	grown := s.size.plus(t.growth(c))
	if !grown.within(limit) {
		return tooMuch()
	}
	t.write(c)
	s.size = grown
	return nil
}

func (s *Stream) replace(value *node, limit size) *RejectedError {
	whole := value.size().minus(size{values: 1})
	if !whole.within(limit) {
		return tooMuch()
	}
	s.data, s.size = value, whole
	return nil
}

func tooMuch() *RejectedError {
	return &RejectedError{Want: "a value within the limits", Got: "one that would grow beyond them"}
}

// target is the position of a write: the last existing place on the path, and the segments after it, which do not exist.
type target struct {
	at   **node
	rest []segment
}

// find follows the path and checks that the write will succeed. All checks precede any change.
func (s *Stream) find(c change, path []segment, strict bool) (target, *RejectedError) {
	t := target{at: &s.data, rest: path}
	for *t.at != nil {
		n := *t.at
		if want, grows := t.wants(c); grows && n.kind != want {
			return t, t.conflict(c, path, want, n.kind.String())
		}
		if len(t.rest) == 0 {
			return t, nil
		}
		next := t.rest[0]
		i := next.index
		if n.kind == object {
			i = n.find(next.name)
		}
		if i < 0 || i >= len(n.items) {
			break
		}
		t = target{at: &n.items[i], rest: t.rest[1:]}
	}
	return t, t.checkRest(c, path, strict)
}

// checkRest checks the segments that do not exist yet.
func (t target) checkRest(c change, path []segment, strict bool) *RejectedError {
	length, gap := t.length(), MaxGap
	if strict {
		gap = 0
	}
	for i, seg := range t.rest {
		after := target{rest: t.rest[i+1:]}
		if want, grows := after.wants(c); grows && inherited[seg.name] {
			return after.conflict(c, path, want, "what every object inherits")
		}
		if seg.index > length+gap {
			bad := t.conflict(c, path, array, "an index beyond the end")
			bad.Want = "an index of at most " + strconv.Itoa(length+gap)
			return bad
		}
		length = 0
	}
	return nil
}

// wants returns the kind that c requires at t; false if any kind is allowed.
func (t target) wants(c change) (kind, bool) {
	switch {
	case len(t.rest) > 0:
		return t.rest[0].container(), true
	case c.kind == "append":
		return array, true
	case c.kind == "text-delta":
		return text, true
	default:
		return 0, false
	}
}

// conflict returns the error for a value at t that is in the way.
func (t target) conflict(c change, path []segment, want kind, got string) *RejectedError {
	passed := path[:len(path)-len(t.rest)]
	names := make([]string, len(passed))
	for i, seg := range passed {
		names[i] = seg.name
	}
	return &RejectedError{Path: c.path, At: strings.Join(names, "."), Want: want.String(), Got: got}
}

// growth returns the number of bytes that write adds to the stream.
func (t target) growth(c change) size {
	if len(t.rest) == 0 {
		return c.growth(*t.at)
	}
	grown := c.growth(nil).plus(size{values: len(t.rest)})
	length := t.length()
	for _, seg := range t.rest {
		if seg.index < 0 {
			grown.text += len(seg.name)
		} else {
			grown.values += seg.index - length // skipped slots
		}
		length = 0
	}
	return grown
}

// length returns the length of the array at t; 0 if there is none.
func (t target) length() int {
	if *t.at == nil || (*t.at).kind != array {
		return 0
	}
	return len((*t.at).items)
}

// growth returns the number of bytes that onto adds to the leaf.
func (c change) growth(old *node) size {
	var grown size
	switch {
	case c.kind == "set":
		return c.value.size().minus(old.size())
	case c.kind == "append":
		for _, item := range c.items {
			grown = grown.plus(item.size())
		}
	case old == nil:
		grown.text = len(c.delta)
	default:
		tail, head := old.text[max(0, len(old.text)-3):], c.delta[:min(3, len(c.delta))]
		grown.text = len(c.delta) - len(head) + len(chunk.Concat(string(tail), head)) - len(tail)
	}
	return grown
}

// write executes the change that find has checked.
func (t target) write(c change) {
	if len(t.rest) == 0 {
		*t.at = c.onto(*t.at)
		return
	}
	made := c.onto(nil)
	for _, seg := range slices.Backward(t.rest[1:]) {
		made = put(nil, seg, made)
	}
	*t.at = put(*t.at, t.rest[0], made)
}

// put adds a missing place to a container, which may have to be created.
func put(n *node, seg segment, v *node) *node {
	if n == nil {
		n = &node{kind: seg.container()}
	}
	if n.kind == object {
		n.add(seg.name, v)
		return n
	}
	for len(n.items) < seg.index {
		n.items = append(n.items, nil)
	}
	n.items = append(n.items, v)
	return n
}

// onto returns the leaf that c makes of the old one.
func (c change) onto(old *node) *node {
	switch {
	case c.kind == "set":
		return c.value
	case c.kind == "append" && old == nil:
		return &node{kind: array, items: c.items}
	case c.kind == "append":
		old.items = append(old.items, c.items...)
		return old
	case old == nil:
		return &node{kind: text, text: []byte(c.delta)}
	default:
		old.text = join(old.text, c.delta)
		return old
	}
}

// join appends b to a. A character that was split is joined: only the last three bytes of a can be a part of one.
func join(a []byte, b string) []byte {
	n := max(0, len(a)-3)
	return append(a[:n], chunk.Concat(string(a[n:]), b)...)
}
