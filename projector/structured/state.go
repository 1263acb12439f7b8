package structured

import (
	"iter"
	"slices"
	"strconv"
)

// State holds the streams of one session. The zero State has none. It is not
// safe for concurrent use.
type State struct {
	// Strict refuses what no well-behaved producer sends, though the original
	// takes it: an index beyond the end of its array, a set or final without a
	// value, the segments "*" and "-1". Use it at the door, where a refusal
	// reaches the producer; what is in a log already is read without.
	Strict bool

	// Refused counts the chunks that were not applied, those included that name
	// no stream.
	Refused int64

	streams map[string]*Stream
	order   []*Stream // as they came
	size    size
}

// Apply changes one stream by one chunk, JSON, which names it. A *RefusedError
// says that nothing changed but the counts and the stream's mark.
func (s *State) Apply(data []byte) error {
	_, err := s.ApplyStream(data)
	return err
}

// ApplyStream is Apply, and tells which stream changed.
func (s *State) ApplyStream(data []byte) (*Stream, error) {
	c, bad := readChange(data)
	if c.named {
		bad = s.change(c, bad)
	}
	if bad != nil {
		s.Refused++
		return nil, bad
	}
	return s.streams[c.labels.StreamID], nil
}

// change applies c to its stream, or marks the stream when c is bad already.
func (s *State) change(c change, bad *RefusedError) *RefusedError {
	stream := s.streams[c.labels.StreamID]
	if stream == nil {
		if len(s.order) == MaxStreams {
			return &RefusedError{Stream: c.labels.StreamID, Want: "at most " + strconv.Itoa(MaxStreams) + " streams", Got: "one more"}
		}
		stream = &Stream{Labels: Labels{StreamID: c.labels.StreamID}}
		s.add(stream)
	}
	if bad == nil {
		before := stream.size
		bad = stream.apply(c, s.room(before), s.Strict)
		s.size = s.size.minus(before).plus(stream.size)
	}
	if bad != nil {
		stream.refuse(bad)
	}
	return bad
}

// room is what a stream of that size may become.
func (s *State) room(now size) size {
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

// Streams yields the streams in the order in which they came. They belong to
// the State and change with it.
func (s *State) Streams() iter.Seq[*Stream] { return slices.Values(s.order) }

// Stream is the stream of that id; nil when there is none.
func (s *State) Stream(id string) *Stream { return s.streams[id] }

// Drop forgets a stream, as a structured-data-invalidated chunk asks for. A later
// chunk of that id starts anew.
func (s *State) Drop(id string) {
	stream, ok := s.streams[id]
	if !ok {
		return
	}
	delete(s.streams, id)
	s.order = slices.DeleteFunc(s.order, func(o *Stream) bool { return o == stream })
	s.size = s.size.minus(stream.size)
}

// Forget lets go of the value of a stream that is done, which somebody has kept
// elsewhere. Its id stays: chunks that come late are refused as before. It does
// nothing to other streams, and to one that is not there.
func (s *State) Forget(id string) {
	stream := s.streams[id]
	if stream == nil || stream.status != Final {
		return
	}
	s.size = s.size.minus(stream.size)
	stream.data, stream.size = nil, size{}
}

// Weight is about how many bytes of memory s takes.
func (s *State) Weight() int {
	const perStream, perValue = 1024, 64
	return len(s.order)*perStream + s.size.values*perValue + s.size.text
}

// Clone is a State that goes its own way from here.
func (s *State) Clone() *State {
	c := &State{Strict: s.Strict, Refused: s.Refused, size: s.size}
	for _, stream := range s.order {
		own := *stream
		own.data = stream.data.clone()
		c.add(&own)
	}
	return c
}
