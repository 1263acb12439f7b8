package structured

import (
	"iter"
	"slices"
	"strconv"
)

// State holds the streams of one session. The zero State has none. It is not safe for concurrent use.
type State struct {
	// Strict rejects chunks that no correct producer sends, although the original accepts them: an index beyond the end of its array, a set or final without a
	// value, the segments "*" and "-1". Use it where a rejection reaches the producer; records in a log are read without it.
	Strict bool

	// Rejected counts the chunks that were not applied, including those without a stream.
	Rejected int64

	streams map[string]*Stream
	order   []*Stream // in the order of their first chunk
	size    size
}

// ApplyStream changes one stream by one chunk, in JSON, and returns the stream. After a *RejectedError only the counts and the mark of the stream have changed.
func (s *State) ApplyStream(data []byte) (*Stream, error) {
	c, bad := readChange(data)
	if c.named {
		bad = s.change(c, bad)
	}
	if bad != nil {
		s.Rejected++
		return nil, bad
	}
	return s.streams[c.labels.StreamID], nil
}

// change applies c to its stream, or marks the stream if c is invalid.
func (s *State) change(c change, bad *RejectedError) *RejectedError {
	stream := s.streams[c.labels.StreamID]
	if stream == nil {
		if len(s.order) == MaxStreams {
			return &RejectedError{Stream: c.labels.StreamID, Want: "at most " + strconv.Itoa(MaxStreams) + " streams", Got: "one more"}
		}
		stream = &Stream{Labels: Labels{StreamID: c.labels.StreamID}}
		s.add(stream)
	}
	if bad == nil {
		before := stream.size
		bad = stream.apply(c, s.remaining(before), s.Strict)
		s.size = s.size.minus(before).plus(stream.size)
	}
	if bad != nil {
		stream.refuse(bad)
	}
	return bad
}

// remaining returns the maximum size of a stream of that size.
func (s *State) remaining(now size) size {
	others := s.size.minus(now)
	return size{min(MaxText, MaxTexts-others.text), min(MaxValues, MaxTotal-others.values)}
}

func (s *State) add(stream *Stream) {
	if s.streams == nil {
		s.streams = make(map[string]*Stream)
	}
	s.streams[stream.Labels.StreamID] = stream
	s.order = append(s.order, stream)
}

// Streams yields the streams in the order of their first chunk. They belong to the State and change with it.
func (s *State) Streams() iter.Seq[*Stream] { return slices.Values(s.order) }

// Stream returns the stream with that id, nil if there is none.
func (s *State) Stream(id string) *Stream { return s.streams[id] }

// Remove removes a stream, as a structured-data-invalidated chunk requires. A later chunk with this id starts a new stream.
func (s *State) Remove(id string) {
	stream, ok := s.streams[id]
	if !ok {
		return
	}
	delete(s.streams, id)
	s.order = slices.DeleteFunc(s.order, func(o *Stream) bool { return o == stream })
	s.size = s.size.minus(stream.size)
}

// ReleaseValue releases the value of a completed stream that the caller has stored elsewhere. The id stays: late chunks are rejected as before. It has no
// effect on other streams and on unknown ids.
func (s *State) ReleaseValue(id string) {
	stream := s.streams[id]
	if stream == nil || stream.status != Final {
		return
	}
	s.size = s.size.minus(stream.size)
	stream.data, stream.size = nil, size{}
}

// MemoryBytes returns the approximate size of s in memory.
func (s *State) MemoryBytes() int {
	const perStream, perValue = 1024, 64
	return len(s.order)*perStream + s.size.values*perValue + s.size.text
}

// Clone returns an independent copy.
func (s *State) Clone() *State {
	c := &State{Strict: s.Strict, Rejected: s.Rejected, size: s.size}
	for _, stream := range s.order {
		own := *stream
		own.data = stream.data.clone()
		c.add(&own)
	}
	return c
}
