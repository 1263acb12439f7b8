package structured

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrState reports text that AppendJSON cannot have written. Refold the chunks.
var ErrState = errors.New("not a state of structured streams")

// AppendJSON appends the state for Parse:
//
//	{"refused":1,"streams":[{"streamId":"s","dataType":"report","status":"streaming","data":[null,"b"],"unset":[[1,1]],"refused":1,"failed":"…"}]}
//
// A stream is written as AppendShown writes it, but members without a value are included as null, and unset has the nulls that were never written: pairs of
// the first place, counted through the whole of data from 0 in text order, and the number of places. Strict is a setting and not included.
func (s *State) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"refused":`...), s.Rejected, 10)
	dst = append(dst, `,"streams":[`...)
	for i, stream := range s.order {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = stream.appendExact(dst)
	}
	return append(dst, "]}"...)
}

func (s *Stream) appendExact(dst []byte) []byte {
	dst = s.appendHead(append(dst, '{'))
	if s.data != nil {
		dst = s.data.append(append(dst, `,"data":`...), true)
		dst = appendSpans(dst, unset(s.data))
	}
	if s.Rejected > 0 {
		dst = strconv.AppendInt(append(dst, `,"refused":`...), s.Rejected, 10)
	}
	if s.failure != "" {
		dst = appendText(append(dst, `,"failed":`...), s.failure)
	}
	return append(dst, '}')
}

// span is a range of places of a tree, in text order.
type span struct{ first, count int }

// unset returns the unset places of a tree.
func unset(root *node) []span {
	var spans []span
	place := 0
	places(&root, func(at **node) {
		if last := len(spans) - 1; *at == nil && last >= 0 && spans[last].first+spans[last].count == place {
			spans[last].count++
		} else if *at == nil {
			spans = append(spans, span{place, 1})
		}
		place++
	})
	return spans
}

func appendSpans(dst []byte, spans []span) []byte {
	if len(spans) == 0 {
		return dst
	}
	dst = append(dst, `,"unset":`...)
	for i, s := range spans {
		dst = append(dst, "[,"[min(i, 1)], '[')
		dst = strconv.AppendInt(dst, int64(s.first), 10)
		dst = strconv.AppendInt(append(dst, ','), int64(s.count), 10)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// Values of a State's JSON: those of the streams, what is written about each stream, and three for each span of unset places.
const maxStateValues = 4*MaxTotal + 16*MaxStreams

// Parse reads the output of AppendJSON. For other text it returns ErrState, or a State within the limits.
func Parse(data []byte) (*State, error) {
	root, bad := parse(data, maxDepth+3, maxStateValues)
	if bad != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, bad)
	}
	f := fields{root: root}
	s := &State{Rejected: f.count("refused")}
	for _, n := range f.list("streams") {
		stream, bad := parseStream(n)
		if bad != nil {
			return nil, fmt.Errorf("%w: %w", ErrState, bad)
		}
		if s.streams[stream.Labels.StreamID] != nil || len(s.order) == MaxStreams || !stream.size.within(s.remaining(size{})) {
			return nil, fmt.Errorf("%w: a stream twice, or too many", ErrState)
		}
		s.add(stream)
		s.size = s.size.plus(stream.size)
	}
	if f.bad != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, f.bad)
	}
	return s, nil
}

func parseStream(n *node) (*Stream, *RejectedError) {
	f := fields{root: n}
	s := &Stream{Labels: f.labels(f.label("streamId", true)), Rejected: f.count("refused"), failure: f.text("failed", false)}
	switch f.text("status", true) {
	case Streaming.String():
		s.status = Streaming
	case Final.String():
		s.status = Final
	case Empty.String():
	default:
		f.refuse("status: streaming, done or none", "another one")
	}
	s.data, _ = f.get("data")
	f.unset(&s.data)
	s.size = s.data.size().minus(size{values: 1})
	if s.status == Empty && s.data != nil {
		f.refuse("data of a stream that has begun", "some of one that has not")
	}
	if len(s.failure) > maxFailure {
		f.refuse("failed: a short text", "a longer one")
	}
	return s, f.bad
}

// unset removes the values that were never written.
func (f *fields) unset(root **node) {
	var all []**node
	spans := f.list("unset")
	if len(spans) > 0 {
		places(root, func(at **node) { all = append(all, at) })
	}
	for _, n := range spans {
		if n.kind != array || len(n.items) != 2 {
			f.refuse("unset: pairs of numbers", n.kind.String())
			return
		}
		first, count := f.number("unset", n.items[0]), f.number("unset", n.items[1])
		if first > int64(len(all)) || count > int64(len(all))-first {
			f.refuse("unset: places of data", "one beyond it")
			return
		}
		for _, at := range all[first : first+count] {
			if *at == nil || (*at).kind != null {
				f.refuse("unset: places that read null", "another one")
				return
			}
			*at = nil
		}
	}
}

// list returns an array, nil if the member is missing.
func (f *fields) list(name string) []*node {
	n, ok := f.get(name)
	if !ok {
		return nil
	}
	if n.kind != array {
		f.refuse(name+": an array", n.kind.String())
	}
	return n.items
}

// count returns a number of chunks, 0 if the member is missing.
func (f *fields) count(name string) int64 {
	n, ok := f.get(name)
	if !ok {
		return 0
	}
	return f.number(name, n)
}

func (f *fields) number(name string, n *node) int64 {
	i, err := strconv.ParseInt(string(n.text), 10, 64)
	if err != nil || n.kind != number || i < 0 {
		f.refuse(name+": a count", n.kind.String())
		return 0
	}
	return i
}
