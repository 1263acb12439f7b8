package chunk

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// PartMember is the name of the additional member of a chunk that has a Part:
//
//	{"type":"custom", …,"eventName":"progress","data":{"percent":50},"part":{"id":"p1"}}
const PartMember = "part"

// runMember is the name of the additional member of a chunk that begins a call: true if the provider of the model runs the call, false if a client that knows the
// tool does. Without it, a server does.
const runMember = "providerExecuted"

// RunBy returns the member of a chunk that begins a call about who runs it.
func RunBy(provider bool) Member {
	return Member{Name: runMember, Value: strconv.AppendBool(nil, provider)}
}

// RunByProvider reports whether the additional members of a chunk that begins a call say that the provider of the model runs it.
func RunByProvider(extra []Member) bool {
	return slices.ContainsFunc(extra, func(m Member) bool { return m.Name == runMember && string(m.Value) == "true" })
}

// The custom events about a message.
const (
	MetadataEvent    = "message-metadata"        // metadata of the message, see MessageMetadata
	PreliminaryEvent = "tool-output-preliminary" // an output that a later one replaces: only clients that follow the run see it
)

// Part is how a chunk is shown as a part of a message, as far as the schema has no members for it. A value of the wrong type is not read, so that the message that
// a client assembles from the records and the one in the snapshot do not differ in what is valid.
type Part struct {
	Begins           bool  // a text: the part before it, of the same kind, ends
	Static           bool  // a call of a tool that the application knows by its name
	Transient        bool  // data: passed to the application, and no part of the message
	ID               Value // data, a string: a part with the same name and id is replaced
	Title            Value // a call, a string
	ToolMetadata     Value // a call, an object
	ProviderMetadata Value // an object of objects
}

// PartOf returns the Part in the additional members of a chunk.
func PartOf(extra []Member) (m Part) {
	i := slices.IndexFunc(extra, func(e Member) bool { return e.Name == PartMember })
	if i < 0 || rawjson.Kind(extra[i].Value) != '{' {
		return m
	}
	for name, v := range rawjson.Members(extra[i].Value) {
		v := Value(slices.Clip(v))
		switch string(name.Bytes()) {
		case "begins":
			m.Begins = string(v) == "true"
		case "dynamic":
			m.Static = string(v) == "false"
		case "transient":
			m.Transient = string(v) == "true"
		case "id":
			m.ID = ofKind(v, '"')
		case "title":
			m.Title = ofKind(v, '"')
		case "toolMetadata":
			m.ToolMetadata = ofKind(v, '{')
		case "providerMetadata":
			m.ProviderMetadata = objectOfObjects(v)
		}
	}
	return m
}

// Extra returns the additional members of a chunk that carry m, none if m is zero.
func (m *Part) Extra() []Member {
	o := rawjson.Begin(nil)
	o.Flag("begins", m.Begins)
	if m.Static {
		o.Bool("dynamic", false)
	}
	o.Flag("transient", m.Transient)
	o.Raw("id", m.ID)
	o.Raw("title", m.Title)
	o.Raw("toolMetadata", m.ToolMetadata)
	o.Raw("providerMetadata", m.ProviderMetadata)
	if len(o.Dst) == 1 {
		return nil
	}
	return []Member{{Name: PartMember, Value: o.End()}}
}

// MessageMetadata returns the metadata in the data of a MetadataEvent, nil if it has no object.
func MessageMetadata(data Value) Value {
	if rawjson.Kind(data) != '{' {
		return nil
	}
	return ofKind(slices.Clip(rawjson.Get(data, "messageMetadata")), '{')
}

func ofKind(v Value, first byte) Value {
	if rawjson.Kind(v) != first {
		return nil
	}
	return v
}

func objectOfObjects(v Value) Value {
	if rawjson.Kind(v) != '{' {
		return nil
	}
	for _, inner := range rawjson.Members(v) {
		if rawjson.Kind(inner) != '{' {
			return nil
		}
	}
	return v
}
