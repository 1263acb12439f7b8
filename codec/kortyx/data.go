package kortyx

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/internal/turn"
)

// sentData is the structured data that a client has.
type sentData struct {
	streams structured.State     // of Kortyx's agents
	renamed map[string]chunk.Seq // ids whose stream is invalid, see idOf
	rewound chunk.Seq            // the latest record that removed others, 0 for none
	outputs map[string]bool      // ids of outputs
	list    []sentStream         // in the order of their latest chunks, at most maxSent
}

// sentStream is a stream that was written.
type sentStream struct {
	name string // the id if own, otherwise the id is <name>:<at>
	at   chunk.Seq
	own  bool
}

// maxSent is the maximum number of streams that are remembered for an invalidation.
const maxSent = 4096

func (s sentStream) id() string {
	if s.own {
		return s.name
	}
	return s.name + ":" + strconv.FormatUint(uint64(s.at), 10)
}

func (d *sentData) add(s sentStream) {
	if n := len(d.list); n > 0 && s.own && d.list[n-1].own && d.list[n-1].name == s.name {
		d.list[n-1].at = s.at
		return
	}
	if len(d.list) == maxSent {
		d.list = slices.Delete(d.list, 0, maxSent/2)
	}
	d.list = append(d.list, s)
}

// addOutput remembers the id of an output.
func (d *sentData) addOutput(id string) {
	if d.outputs == nil {
		d.outputs = make(map[string]bool)
	}
	d.outputs[id] = true
}

// since returns the streams that were written after a record, each once.
func (d *sentData) since(at chunk.Seq) []sentStream {
	var out []sentStream
	seen := make(map[string]bool)
	for _, s := range d.list {
		if s.at > at && !seen[s.id()] {
			seen[s.id()] = true
			out = append(out, s)
		}
	}
	return out
}

// rewind handles the removal of records. No id of a stream is used again: a client that has a removed part of the stream would append to it, or stop because
// the stream was final.
func (d *sentData) rewind(at chunk.Seq) {
	d.streams, d.renamed, d.rewound = structured.State{}, nil, at
}

// idOf returns the id under which a client gets a stream.
func (d *sentData) idOf(id string) string {
	if at := max(d.renamed[id], d.rewound); at > 0 {
		return id + "@" + strconv.FormatUint(uint64(at), 10)
	}
	return id
}

// reserved are names that every JavaScript object has. Kortyx's reducer of a list of chunks keys an object by the ids of the streams, and fails with these.
var reserved = map[string]bool{
	"__proto__": true, "constructor": true, "hasOwnProperty": true, "isPrototypeOf": true, "propertyIsEnumerable": true, "toLocaleString": true,
	"toString": true, "valueOf": true, "__defineGetter__": true, "__defineSetter__": true, "__lookupGetter__": true, "__lookupSetter__": true,
}

// streamed writes a piece of structured data of a Kortyx agent. A client stops at a piece that it cannot apply, so such a piece is dropped, as in the snapshot.
func (p *printer) streamed(it *turn.Item, data chunk.Value) {
	id, ok := dialect.Text(it.Get("data", "streamId"))
	shown := p.data.idOf(id)
	o := rawjson.Object{Dst: append(p.scratch[:0], beginStructured...)}
	o.String("streamId", shown)
	for name, value := range rawjson.Members(data) {
		if !name.Is("streamId") && !name.Is("type") {
			o.Dst = append(append(append(append(o.Dst, ','), name...), ':'), value...)
		}
	}
	p.scratch = o.End()
	if typ, _ := dialect.Text(it.Get("data", "type")); !ok || typ != structuredData || reserved[shown] {
		return
	}
	stream, err := p.data.streams.ApplyStream(p.scratch)
	if err != nil {
		return
	}
	p.writeScratch()
	p.data.add(sentStream{name: shown, at: it.Rec.Seq, own: true})
	if stream.Status() == structured.Final {
		p.data.streams.ReleaseValue(shown)
	}
}

// invalidate writes that a stream of a Kortyx agent is invalid. Most clients ignore it, so a new stream with this id gets another one.
func (p *printer) invalidate(it *turn.Item) bool {
	id, ok := dialect.Text(it.Get("data", "streamId"))
	checkpoint := it.Get("data", "checkpointId")
	if !ok || rawjson.Kind(checkpoint) != '"' {
		return false
	}
	p.frames.Open(invalidated)
	p.frames.String("streamId", p.data.idOf(id))
	p.frames.Raw("checkpointId", checkpoint)
	p.frames.Shut()
	if p.data.streams.Stream(p.data.idOf(id)) == nil {
		return true
	}
	p.data.streams.Remove(p.data.idOf(id))
	if p.data.renamed == nil {
		p.data.renamed = make(map[string]chunk.Seq)
	}
	p.data.renamed[id] = it.Rec.Seq
	return true
}

// restate writes the custom state and the values of open streams again, each member of a value on its own: a set cannot name the value. A stream with places that
// were skipped is left out, because a client would have null there.
func (p *printer) restate() {
	if p.state.shown && !p.state.stale {
		o := p.beginScratch(p.node, p.stateID(), "state", "set")
		o.String("path", stateRoot)
		o.Raw("value", p.state.doc)
		p.scratch = o.End()
		p.writeScratch()
	}
	for stream := range p.data.streams.Streams() {
		if stream.Status() != structured.Streaming || stream.HasUnset() {
			continue
		}
		data, i := stream.AppendData(nil), 0
		set := func(name string, value []byte) {
			o := rawjson.Object{Dst: append(p.scratch[:0], beginStructured...)}
			o.String("streamId", stream.Labels.StreamID)
			o.String("dataType", stream.Labels.DataType)
			o.String("kind", "set")
			o.String("path", name)
			o.Raw("value", value)
			o.Text("schemaId", stream.Labels.SchemaID)
			o.Text("schemaVersion", stream.Labels.SchemaVersion)
			o.Text("id", stream.Labels.ID)
			o.Text("node", stream.Labels.Node)
			p.scratch = o.End()
			p.writeScratch()
		}
		for name, value := range rawjson.Members(data) {
			set(string(name.Bytes()), value)
		}
		for value := range rawjson.Elements(data) {
			set(strconv.Itoa(i), value)
			i++
		}
	}
}

// final writes a complete value as a stream of its own. It reports false if our reducer refuses it.
func (p *printer) final(it *turn.Item, name, dataType string, data []byte) bool {
	return p.finalOf(it, sentStream{name: name, at: it.Rec.Seq}, dataType, data)
}

func (p *printer) finalOf(it *turn.Item, s sentStream, dataType string, data []byte) bool {
	o := p.beginScratch(nodeOf(it), s.id(), dataType, "final")
	o.Raw("data", data)
	p.scratch = o.End()
	if new(structured.Stream).Apply(p.scratch) != nil {
		return false
	}
	p.writeScratch()
	p.data.add(s)
	return true
}

const beginStructured = `{"type":"` + structuredData + `"`

// beginScratch begins a chunk of a node in the scratch buffer, where it can be checked before it is written.
func (p *printer) beginScratch(node []byte, id, dataType, kind string) rawjson.Object {
	o := rawjson.Object{Dst: append(p.scratch[:0], beginStructured...)}
	o.String("streamId", id)
	o.String("dataType", dataType)
	o.String("kind", kind)
	if len(node) > 0 && len(node) <= structured.MaxLabel {
		o.Content("node", node)
	}
	return o
}

// writeScratch writes the chunk in the scratch buffer.
func (p *printer) writeScratch() {
	p.frames.Open(structuredData)
	p.frames.Dst = append(p.frames.Dst, p.scratch[len(beginStructured):len(p.scratch)-1]...)
	p.frames.Shut()
}
