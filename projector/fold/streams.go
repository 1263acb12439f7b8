package fold

import (
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
)

// streams holds the streams of structured data.
//
// A stream stays in the head while it is open. Its final chunk moves its value into the answer as a part, which leaves the head
// with the message. Its id stays, without a value, to the end of the turn, so that late chunks are rejected. The next turn may
// reuse the id for a new stream. It must be able to: a client that follows only its own answer, as codec/aisdk does, does not
// know the ids of earlier answers, and would show data that the snapshot does not have.
type streams struct {
	state  *structured.State // nil for none
	shared bool              // shared with an earlier snapshot
}

// mutable returns the state, copied if it is shared.
func (st *streams) mutable() *structured.State {
	switch {
	case st.state == nil:
		st.state = &structured.State{}
	case st.shared:
		st.state = st.state.Clone()
	}
	st.shared = false
	return st.state
}

// base returns st for a copy of the snapshot. Both share the state until one of them changes it: most steps do not.
func (st *streams) base() streams {
	st.shared = st.state != nil
	return *st
}

func (st *streams) memoryBytes() int {
	if st.state == nil {
		return 0
	}
	return st.state.MemoryBytes()
}

// beginTurn removes the ids that were kept for the turn.
func (st *streams) beginTurn() {
	if st.state == nil {
		return
	}
	var ids []string
	for stream := range st.state.Streams() {
		if stream.Status() != structured.Streaming {
			ids = append(ids, stream.Labels.StreamID)
		}
	}
	if len(ids) > 0 {
		st.drop(ids...)
	}
}

func (st *streams) drop(ids ...string) {
	state := st.mutable()
	for _, id := range ids {
		state.Remove(id)
	}
	st.dropEmpty()
}

// dropEmpty removes a state without streams, because an empty state is not stored.
func (st *streams) dropEmpty() {
	for range st.state.Streams() {
		return
	}
	*st = streams{}
}

// applyCustom folds an event of the application: a part of the answer, unless it is a piece of structured data.
func (s *Snapshot) applyCustom(rec chunk.Record, b chunk.Custom, ui chunk.Part) {
	switch b.EventName {
	case structured.PieceEvent:
		s.applyStructured(rec, b.Data)
	case structured.InvalidatedEvent:
		s.invalidateStream(rec, b.Data)
	case chunk.MetadataEvent:
		if later := chunk.MessageMetadata(b.Data); later != nil {
			m := s.currentMessage(rec)
			m.metadata = MergeMetadata(m.metadata, later)
		}
	case chunk.PreliminaryEvent: // the output of the call follows
	default:
		if !ui.Transient {
			s.appendRaw(rec, appendData(nil, b, ui)) // codec/aisdk replaces an earlier part with its name and id
		}
	}
}

func (s *Snapshot) applyStructured(rec chunk.Record, data chunk.Value) {
	state := s.streams.mutable()
	stream, err := state.ApplyStream(data)
	if err != nil {
		s.streams.dropEmpty()
		s.rejectPiece(rec, err)
		return
	}
	if stream.Status() == structured.Final {
		s.appendRaw(rec, appendStream(nil, stream))
		state.ReleaseValue(stream.Labels.StreamID)
	}
}

// invalidateStream removes an open stream. If the value of the stream is in the answer already, it adds a part that invalidates
// it: a finished message never changes.
func (s *Snapshot) invalidateStream(rec chunk.Record, data chunk.Value) {
	m, err := members(data)
	id, idErr := unquote(m["streamId"])
	if err = errors.Join(err, idErr); err != nil {
		s.rejectPiece(rec, err)
		return
	}
	grew := false
	if st := s.streams.state; st != nil && st.Stream(id) != nil {
		grew = st.Stream(id).Status() == structured.Streaming
		s.streams.drop(id)
	}
	if !grew {
		s.appendRaw(rec, appendInvalid(nil, id))
	}
}

// rejectPiece counts a piece of structured data that was not applied.
func (s *Snapshot) rejectPiece(rec chunk.Record, why error) {
	s.Faults.RejectedPieces++
	s.fault(rec, why.Error())
}

// appendStream writes the value of a stream as a part of a message.
func appendStream(dst []byte, stream *structured.Stream) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "data-structured")
	o.String("id", stream.Labels.StreamID)
	o.Name("data")
	o.Dst = stream.AppendValue(o.Dst)
	return o.End()
}

func appendInvalid(dst []byte, id string) []byte {
	o := rawjson.Begin(dst)
	o.String("type", "data-structured")
	o.String("id", id)
	o.Raw("data", chunk.Value(`{"status":"invalidated"}`))
	return o.End()
}

// openStreams returns the streams that have a value and are not final, in the form that clients get.
func (st *streams) openStreams() []chunk.Value {
	if st.state == nil {
		return nil
	}
	var out []chunk.Value
	for stream := range st.state.Streams() {
		if stream.Status() == structured.Streaming {
			out = append(out, stream.AppendShown(nil))
		}
	}
	return out
}
