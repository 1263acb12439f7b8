package fold

import (
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/structured"
)

// The events in which the log carries the structured data of Kortyx agents. The
// data of the first is one chunk of that dialect, of the second the id of a
// stream that was taken back.
const (
	structuredData        = "kortyx.structured-data"
	structuredInvalidated = "kortyx.structured-data-invalidated"
)

// streams are the streams of structured data.
//
// A stream stays in the head while it grows. With its final chunk its value goes
// into the answer, as a part like others, and leaves the head with the message.
// Its id stays, without a value, so that chunks which come late are refused: to
// the end of the turn. The next one is free to begin a stream anew under that id.
// It must be: who follows its answer alone, as codec/aisdk does, knows no ids of
// the answers before, and would show what the snapshot has not.
type streams struct {
	state  *structured.State // nil for none
	shared bool              // an earlier snapshot has it too
}

// own is the state, to be changed.
func (st *streams) own() *structured.State {
	switch {
	case st.state == nil:
		st.state = &structured.State{}
	case st.shared:
		st.state = st.state.Clone()
	}
	st.shared = false
	return st.state
}

// base is st for a snapshot to go back to. Both have the same state until one of
// them changes it: most steps do not.
func (st *streams) base() streams {
	st.shared = st.state != nil
	return *st
}

// beginTurn forgets the ids that were kept for the turn.
func (st *streams) beginTurn() {
	if st.state == nil {
		return
	}
	var over []string
	for stream := range st.state.Streams() {
		if stream.Status() != structured.Streaming {
			over = append(over, stream.Labels.StreamID)
		}
	}
	if len(over) > 0 {
		st.drop(over...)
	}
}

func (st *streams) drop(ids ...string) {
	state := st.own()
	for _, id := range ids {
		state.Drop(id)
	}
	st.tidy()
}

// tidy makes no streams the same as none ever: a state without any is not stored.
func (st *streams) tidy() {
	for range st.state.Streams() {
		return
	}
	*st = streams{}
}

// sayCustom folds an event of the application: a part of the answer, unless it
// is a piece of structured data.
func (s *Snapshot) sayCustom(rec chunk.Record, b chunk.Custom) {
	switch b.EventName {
	case structuredData:
		s.structured(rec, b.Data)
	case structuredInvalidated:
		s.invalidated(rec, b.Data)
	default:
		s.appendRaw(rec, appendData(nil, b))
	}
}

func (s *Snapshot) structured(rec chunk.Record, data chunk.Value) {
	state := s.streams.own()
	stream, err := state.ApplyStream(data)
	if err != nil {
		s.streams.tidy()
		s.refused(rec, err)
		return
	}
	if stream.Status() == structured.Final {
		s.appendRaw(rec, appendStream(nil, stream))
		state.Forget(stream.Labels.StreamID)
	}
}

// invalidated forgets a stream that grows. One whose value is in the answer
// already is said to be invalid there: a finished message never changes.
func (s *Snapshot) invalidated(rec chunk.Record, data chunk.Value) {
	m, err := members(data)
	id, idErr := unquote(m["streamId"])
	if err = errors.Join(err, idErr); err != nil {
		s.refused(rec, err)
		return
	}
	grew := false
	if st := s.streams.state; st != nil && st.Stream(string(id)) != nil {
		grew = st.Stream(string(id)).Status() == structured.Streaming
		s.streams.drop(string(id))
	}
	if !grew {
		s.appendRaw(rec, appendInvalid(nil, string(id)))
	}
}

// refused counts a piece of structured data that was not applied.
func (s *Snapshot) refused(rec chunk.Record, why error) {
	s.Faults.Streams++
	s.fault(rec, why.Error())
}

// appendStream writes the value of a stream as a part of a message.
func appendStream(dst []byte, stream *structured.Stream) []byte {
	o := beginObject(dst)
	o.str("type", "data-structured")
	o.str("id", stream.Labels.StreamID)
	o.name("data")
	in := beginObject(o.dst)
	in.str("dataType", stream.Labels.DataType)
	in.str("status", stream.Status().String())
	in.name("data")
	in.dst = stream.AppendData(in.dst)
	in.text("schemaId", stream.Labels.SchemaID)
	in.text("schemaVersion", stream.Labels.SchemaVersion)
	o.dst = in.end()
	return o.end()
}

func appendInvalid(dst []byte, id string) []byte {
	o := beginObject(dst)
	o.str("type", "data-structured")
	o.str("id", id)
	o.value("data", chunk.Value(`{"status":"invalidated"}`))
	return o.end()
}

// growing are the streams that have a value and are not done, as readers of the
// dialect know them.
func (st *streams) growing() []chunk.Value {
	if st.state == nil {
		return nil
	}
	var out []chunk.Value
	for stream := range st.state.Streams() {
		if stream.Status() == structured.Streaming {
			out = append(out, stream.AppendView(nil))
		}
	}
	return out
}
