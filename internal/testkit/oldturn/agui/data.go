package agui

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
)

// lifecycleMembers has the members of the records that are CUSTOM events. suspension_marker is not sent to clients.
var lifecycleMembers = map[chunk.Type][]string{
	chunk.TypeToolApprovalResponse: {"toolCallId", "toolName", "approvalId", "approved", "reason", "isAutomatic"},
	chunk.TypeError:                {"error", "code", "errorDetail", "recoverable"},
	chunk.TypeOutput:               {"output"},
	chunk.TypeRunInterrupted:       {"runId", "checkpointId", "reason"},
	chunk.TypeRunResumed:           {"runId", "fromCheckpointId", "fromStepCount", "mode"},
	chunk.TypeRunPaused:            {"runId", "reason", "pendingToolName", "pendingToolCallId"},
	chunk.TypeExecutorSuperseded:   {"reason"},
	chunk.TypeCheckpointCreated:    {"runId", "checkpointId", "stepCount"},
	chunk.TypeStepCommitted:        {"runId", "stepId", "checkpointId"},
	chunk.TypeStepDiscarded:        {"runId", "stepId", "reason"},
	chunk.TypeStreamResync:         {"checkpointId", "stepCount", "messageCount", "fromSequence", "reason"},
	chunk.TypeRunStarted:           {"runId", "mode"},
	chunk.TypeStreamFailed:         {"error", "errorDetail"},
	chunk.TypeTruncated:            {"truncatedAtStep", "fromSequence", "atSequence"},
}

// lifecycle writes a record that the protocol has no event for.
func (w *Writer) lifecycle(it *item) {
	switch it.rec.Type {
	case chunk.TypeRunInterrupted:
		w.runInterrupted(it)
		return
	case chunk.TypeError, chunk.TypeRunPaused, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		w.close(it.by)
	}
	w.lifecycleEvent(it)
}

func (w *Writer) lifecycleEvent(it *item) {
	names, ok := lifecycleMembers[it.rec.Type]
	if !ok {
		return
	}
	w.out.Open("CUSTOM")
	w.out.String("name", LifecyclePrefix+string(it.rec.Type))
	w.out.Nest("value")
	for _, name := range names {
		w.out.Raw(name, it.Get(name))
	}
	w.out.Close()
	w.tag(it.by)
	w.out.Shut()
}

// statePatch writes a change of the custom state, which is that of the session: the state of a sub-agent is in its own session.
func (w *Writer) statePatch(it *item) {
	if !it.by.own() {
		return
	}
	patches := it.Get("patches")
	if state, whole := wholeState(patches); whole {
		if isObject(state) || isArray(state) { // the snapshot refuses others
			w.out.Open("STATE_SNAPSHOT")
			w.out.Raw("snapshot", state)
			w.out.Shut()
		}
		return
	}
	w.out.Open("STATE_DELTA")
	w.out.Raw("delta", patches)
	w.out.Shut()
}

// wholeState returns the value of a patch that only replaces the whole state.
func wholeState(patches chunk.Value) (state chunk.Value, ok bool) {
	n := 0
	for op := range rawjson.Elements(patches) {
		if n++; n > 1 {
			return nil, false
		}
		name, _ := text(rawjson.Get(op, "op"))
		ok = string(rawjson.Get(op, "path")) == `""` && (name == "replace" || name == "add")
		state = rawjson.Get(op, "value")
	}
	return state, ok
}

// activity writes members of a record as an activity message: a message that the client shows, and that is not output of the model.
func (w *Writer) activity(it *item, kind string, names ...string) {
	w.close(it.by)
	w.openActivity(it, kind)
	w.out.Nest("content")
	for _, name := range names {
		w.out.Raw(name, it.Get(name))
	}
	w.out.Close()
	w.out.Shut()
}

func (w *Writer) openActivity(it *item, kind string) {
	w.out.Open("ACTIVITY_SNAPSHOT")
	w.messageID("messageId", it.by.newMessage(it.rec))
	w.out.String("activityType", kind)
	w.tag(it.by)
}

// custom writes an event of the application. It does not end the text around it. The snapshot of our log has it as a part of the answer, AG-UI messages have
// no such part.
func (w *Writer) custom(it *item) {
	part := appPart
	if it.by.own() {
		part = w.structuredPart(it)
	}
	switch part {
	case appPart, noPart:
		if part == appPart {
			it.by.openStep(it.rec)
		}
		w.out.Open("CUSTOM")
		w.out.Raw("name", it.Get("eventName"))
		w.out.Raw("value", it.orNull("data"))
		w.tag(it.by)
		w.out.Shut()
	case valuePart, invalidPart:
		w.openActivity(it, ActivityStructured)
		w.out.Nest("content")
		w.out.Raw("id", it.Get("data", "streamId"))
		w.out.Name("data")
		w.out.Dst = w.appendStructured(w.out.Dst, it, part)
		w.out.Close()
		w.out.Shut()
	}
}

// customPart is what a custom event adds to the snapshot.
type customPart int

const (
	noPart      customPart = iota // a piece of structured data
	appPart                       // an event of the application
	valuePart                     // the complete value of structured data
	invalidPart                   // structured data that was complete, and is invalid
)

// streamsBefore is the structured data before a step. A crashed worker leaves at most one step whose records are removed.
type streamsBefore struct {
	at      chunk.Ordinal // latest record of it
	streams *structured.State
}

// keepStreams keeps the structured data before a step. It is copied when the step changes it: most steps do not.
func (w *Writer) keepStreams() { w.before = streamsBefore{w.streamAt, w.streams} }

// mutableStreams returns the structured data to change.
func (w *Writer) mutableStreams() *structured.State {
	switch w.streams {
	case nil:
		w.streams = &structured.State{}
	case w.before.streams:
		w.streams = w.streams.Clone()
	}
	return w.streams
}

// restoreStreams reverts the changes of removed records to the structured data.
func (w *Writer) restoreStreams(taken func(chunk.Ordinal) bool) {
	if taken(w.before.at) {
		w.before = streamsBefore{}
	}
	w.streams, w.streamAt = w.before.streams, w.before.at
}

// structuredPart follows the structured data of an event.
func (w *Writer) structuredPart(it *item) customPart {
	switch it.Text("eventName") {
	case structured.PieceEvent:
		w.streamAt = it.rec.Ordinal
		stream, err := w.mutableStreams().ApplyStream(it.orNull("data"))
		if err != nil || stream.Status() != structured.Final {
			return noPart // the snapshot counts an error
		}
		w.finalData = appendStream(w.finalData[:0], stream)
		w.streams.ReleaseValue(stream.Labels.StreamID)
		return valuePart
	case structured.InvalidatedEvent:
		w.streamAt = it.rec.Ordinal
		raw := it.Get("data", "streamId")
		if len(raw) == 0 || raw[0] != '"' {
			return noPart
		}
		grew := false
		if id := it.Text("data", "streamId"); w.streams != nil {
			if stream := w.streams.Stream(id); stream != nil {
				grew = stream.Status() == structured.Streaming
				w.mutableStreams().Remove(id)
			}
		}
		if grew {
			return noPart
		}
		return invalidPart
	}
	return appPart
}

// appendStructured appends the value of an activity, as the snapshot has it.
func (w *Writer) appendStructured(dst []byte, _ *item, part customPart) []byte {
	if part == invalidPart {
		return append(dst, `{"status":"invalidated"}`...)
	}
	dst = append(dst, w.finalData...)
	w.finalData = nil
	return dst
}

// appendStream appends the value of a stream, as package fold stores it.
func appendStream(dst []byte, stream *structured.Stream) []byte {
	o := rawjson.Begin(dst)
	o.String("dataType", stream.Labels.DataType)
	o.String("status", stream.Status().String())
	o.Name("data")
	o.Dst = stream.AppendData(o.Dst)
	o.Text("schemaId", stream.Labels.SchemaID)
	o.Text("schemaVersion", stream.Labels.SchemaVersion)
	return o.End()
}
