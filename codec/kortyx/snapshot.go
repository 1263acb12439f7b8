package kortyx

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// AppendContent appends what a client is shown of a session as one line of JSON, in the forms of Kortyx's client: its messages, the states of its structured data and
// its pending requests.
//
//	{"sessionId":"s1",
//	 "messages":[{"id":"msg-1","role":"assistant","content":"…","contentPieces":[…],"metadata":{…}}],
//	 "structured":[{"streamId":"…","dataType":"…","status":"streaming","data":…}],  not in a message: the custom state, the output of
//	                                                                           the run, and structured data that is not final
//	 "pendingRequests":[{"token":"…","requestId":"…","schema":{…},"options":[…]}],
//	 "checkpointId":null,"status":"active","streamSequence":17,
//	 "error":"…",                                                              if the run failed
//	 "before":"msg-4"}                                                         of a page; null if there are no older messages
//
// Hidden messages are omitted.
func AppendContent(dst []byte, c fold.Content) []byte {
	return (&snapshotWriter{of: c}).append(dst)
}

type snapshotWriter struct {
	rawjson.Object

	of       fold.Content
	question *dialect.Object // of a Kortyx agent, that the session waits for; nil for none
}

func (w *snapshotWriter) append(dst []byte) []byte {
	w.Object = rawjson.Begin(dst)
	w.String("sessionId", w.of.Session.ID)
	messages := w.messages()
	rawjson.AddList(&w.Object, "messages", messages, appendMessage)
	w.structured()
	w.pending()
	w.Maybe("checkpointId", w.of.CheckpointID)
	if w.of.CheckpointID == nil {
		w.Raw("checkpointId", null)
	}
	w.String("status", string(w.of.Status))
	w.Number("streamSequence", int64(w.of.Position.Seq))
	if w.of.Failure != nil {
		w.String("error", w.of.Failure.Message)
	}
	if w.of.Before != nil {
		w.TextOrNull("before", *w.of.Before)
	}
	return w.End()
}

// values writes an array, also without elements.
func (w *snapshotWriter) values(name string, list []chunk.Value) {
	rawjson.AddList(&w.Object, name, list, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
}

// shownMessage is a message as users see it: all steps of a turn.
type shownMessage struct {
	id       string
	role     fold.Role
	metadata chunk.Value
	content  textState
	text     []byte
	pieces   []piece
	streams  map[string]int  // indexes of the pieces with structured data
	question *dialect.Object // the last one of a Kortyx agent, nil for none
}

// piece is a part of a message in JSON, with its id left out. It is empty if it was removed.
type piece struct {
	json []byte
	text string // of a text
}

// messages joins the steps of a turn, and omits hidden, replaced and empty messages.
func (w *snapshotWriter) messages() []shownMessage {
	var out []shownMessage
	last := -1
	for i := range w.of.Messages {
		m := &w.of.Messages[i]
		if m.Hidden || m.Replaced || len(m.Parts) == 0 {
			continue
		}
		if m.Shown != last || len(out) == 0 {
			last = m.Shown
			out = append(out, shownMessage{id: fold.MessageID(m.Shown), role: m.Role, streams: map[string]int{}})
		}
		s := &out[len(out)-1]
		if m.Metadata != nil {
			s.metadata = m.Metadata
		}
		for j := range m.Parts {
			w.addPart(s, &m.Parts[j])
		}
	}
	if n := len(out) - 1; n >= 0 && w.of.Status == fold.Paused && len(w.of.Pending) == 0 && out[n].question != nil {
		w.question = out[n].question
		out[n].pieces = append(out[n].pieces, piece{json: w.questionPiece(w.question)})
	}
	return out
}

func (w *snapshotWriter) addPart(s *shownMessage, p *fold.Part) {
	switch p.Kind {
	case fold.PartText:
		text := p.Text
		s.text = append(s.text, s.content.separated(strconv.Itoa(len(s.pieces)+1), text)...)
		s.pieces = append(s.pieces, piece{text: text})
	case fold.PartSource:
		o := rawjson.Begin(nil)
		o.String("sourceId", p.Source.ID)
		for _, m := range []struct{ name, value string }{
			{"url", p.Source.URL}, {"mediaType", p.Source.MediaType}, {"title", p.Source.Title}, {"filename", p.Source.Filename},
		} {
			o.Text(m.name, m.value)
		}
		s.addValue("source", o.End())
	case fold.PartFile:
		o := rawjson.Begin(nil)
		o.String("url", p.File.URL)
		o.String("mediaType", p.File.MediaType)
		o.Text("filename", p.File.Filename)
		s.addValue("file", o.End())
	case fold.PartData:
		w.addData(s, p.Data)
	case fold.PartCall:
		if c := p.Call; c.State == fold.CallAwaitingApproval && c.Approval != nil {
			s.pieces = append(s.pieces, piece{json: w.approvalPiece(c)})
		}
	}
}

// addData adds a value of the application, or the final value of structured data: a later one with the same id replaces it.
func (w *snapshotWriter) addData(s *shownMessage, d *fold.Data) {
	if d.ID == nil {
		switch kind, ok := strings.CutPrefix(d.Name, prefix); {
		case !ok:
			s.addValue(d.Name, d.Value)
		case kind == "interrupt":
			s.question = dialect.Read(d.Value)
		}
		return
	}
	value := dialect.Read(d.Value)
	if status, _ := value.Text("status"); status == "invalidated" {
		if i, ok := s.streams[*d.ID]; ok {
			s.pieces[i] = piece{}
			delete(s.streams, *d.ID)
		}
		return
	}
	o := rawjson.Begin(nil)
	o.String("streamId", *d.ID)
	for _, name := range []string{"dataType", "status", "data", "schemaId", "schemaVersion"} {
		o.Raw(name, value.Peek(name))
	}
	s.addStream(*d.ID, o.End())
}

// addValue adds a value as a stream of its own. The log position of the value, which is in the id of a stream that a client follows, is not known here.
func (s *shownMessage) addValue(dataType string, value []byte) {
	id := dataType + ":" + s.id + ":" + strconv.Itoa(len(s.pieces))
	s.addStream(id, streamState(id, dataType, "done", value))
}

func (s *shownMessage) addStream(id string, state []byte) {
	p := piece{json: append(append([]byte(`"type":"structured","data":`), state...), '}')}
	if i, again := s.streams[id]; again {
		s.pieces[i] = p
		return
	}
	s.streams[id] = len(s.pieces)
	s.pieces = append(s.pieces, p)
}

// streamState returns the state of a stream in the form of Kortyx's reducer.
func streamState(id, dataType, status string, data []byte) []byte {
	o := rawjson.Begin(nil)
	o.String("streamId", id)
	o.String("dataType", dataType)
	o.String("status", status)
	o.Raw("data", dialect.OrNull(data))
	return o.End()
}

func appendMessage(m shownMessage, dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("id", m.id)
	o.String("role", string(m.role))
	o.Bytes("content", m.text)
	o.Name("contentPieces")
	o.Dst = append(o.Dst, '[')
	for i, p := range m.pieces {
		if p.json == nil && p.text == "" {
			continue
		}
		if o.Dst[len(o.Dst)-1] != '[' {
			o.Dst = append(o.Dst, ',')
		}
		in := rawjson.Begin(o.Dst)
		in.String("id", m.id+":"+strconv.Itoa(i))
		if p.json != nil {
			o.Dst = append(append(in.Dst, ','), p.json...)
			continue
		}
		in.String("type", "text")
		in.String("content", p.text)
		o.Dst = in.End()
	}
	o.Dst = append(o.Dst, ']')
	o.Raw("metadata", m.metadata)
	return o.End()
}

// approvalPiece returns the question to the user whether a call may run.
func (w *snapshotWriter) approvalPiece(c *fold.ToolCall) []byte {
	o := rawjson.Begin(nil)
	o.String("type", "interrupt")
	o.String("resumeToken", "")
	o.String("requestId", c.Approval.ID)
	o.String("kind", "choice")
	o.String("question", "Approve "+c.Name+"?")
	o.Bool("multiple", false)
	o.Raw("options", approvalOptions)
	o.String("interruptId", approvalPrefix+c.ID)
	o.Raw("meta", approvalMeta(c.Name, c.ID, c.Input))
	return o.End()[1:]
}

func approvalMeta(tool, callID string, input chunk.Value) []byte {
	o := rawjson.Begin(nil)
	o.String("tool", tool)
	o.String("toolCallId", callID)
	o.Raw("input", dialect.OrNull(input))
	return o.End()
}

// questionPiece returns the question of a Kortyx agent to the user.
func (w *snapshotWriter) questionPiece(m *dialect.Object) []byte {
	input := m.Object("input")
	o := rawjson.Begin(nil)
	o.String("type", "interrupt")
	id := m.Or("requestId", "")
	o.String("resumeToken", "")
	o.String("requestId", id)
	o.String("kind", input.Or("kind", "choice"))
	o.Raw("question", stringOf(input.Peek("question")))
	o.Bool("multiple", input.Flag("multiple"))
	options := input.Peek("options")
	if rawjson.Kind(options) != '[' {
		options = chunk.Value("[]")
	}
	o.Raw("options", options)
	for _, name := range []string{"schemaId", "schemaVersion"} {
		o.Raw(name, firstString(m.Peek(name), input.Peek(name)))
	}
	o.Raw("interruptId", firstString(m.Peek("id"), input.Peek("id")))
	for _, meta := range []chunk.Value{m.Peek("meta"), input.Peek("meta")} {
		if rawjson.Kind(meta) == '{' {
			o.Raw("meta", meta)
			break
		}
	}
	return o.End()[1:]
}

// stringOf returns a value that is a string, nil for another.
func stringOf(v chunk.Value) []byte {
	if rawjson.Kind(v) != '"' {
		return nil
	}
	return v
}

// firstString returns the first string that is not empty, nil if there is none.
func firstString(values ...chunk.Value) []byte {
	for _, v := range values {
		if s, ok := dialect.Text(v); ok && s != "" {
			return v
		}
	}
	return nil
}

// structured writes the streams that are not in messages.
func (w *snapshotWriter) structured() {
	var list []chunk.Value
	if w.of.State != nil {
		doc := rawjson.Begin(nil)
		doc.Raw(stateRoot, w.of.State)
		list = append(list, streamState("state:"+w.of.Session.ID, "state", "streaming", doc.End()))
	}
	if r := w.of.Run; r.Output != nil {
		list = append(list, streamState("output:"+r.ID, "output", "done", r.Output))
	}
	list = append(list, w.of.Structured...)
	w.values("structured", list)
}

// pending writes the requests that a user has to answer.
func (w *snapshotWriter) pending() {
	var list []chunk.Value
	for _, c := range w.of.Pending {
		if c.Kind != fold.PendingApproval {
			continue
		}
		o := rawjson.Begin(nil)
		o.String("token", "")
		o.String("requestId", c.ApprovalID)
		o.Nest("schema")
		o.String("kind", "choice")
		o.Bool("multiple", false)
		o.String("question", "Approve "+c.ToolName+"?")
		o.String("id", approvalPrefix+c.CallID)
		o.Raw("meta", approvalMeta(c.ToolName, c.CallID, c.Input))
		o.Close()
		o.Raw("options", approvalOptions)
		list = append(list, o.End())
	}
	if w.question != nil {
		list = append(list, w.questionRequest())
	}
	w.values("pendingRequests", list)
}

// questionRequest returns the request of the question that the session waits for.
func (w *snapshotWriter) questionRequest() chunk.Value {
	id, input := w.question.Or("requestId", ""), w.question.Object("input")
	o := rawjson.Begin(nil)
	o.String("token", "")
	o.String("requestId", id)
	schema := rawjson.Begin(nil)
	for _, name := range []string{"kind", "multiple", "question", "id", "schemaId", "schemaVersion", "meta"} {
		schema.Raw(name, input.Peek(name))
	}
	o.Raw("schema", schema.End())
	if options := input.Peek("options"); rawjson.Kind(options) == '[' {
		o.Raw("options", options)
	}
	return o.End()
}
