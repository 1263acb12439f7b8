// Package uipart has the members of parts of the AI SDK for which the chunk schema has no member. A chunk of the log carries them in a member of its own, so that a
// page that follows the log builds the same message as a page that reads the stream of a server of the AI SDK itself:
//
//	{"type":"custom", …,"eventName":"progress","data":{"percent":50},"part":{"id":"p1"}}
//
// The writer of the stream and the fold read them here, because the message of a page and the snapshot must not differ in what is valid: one member that the client
// rejects ends its stream.
package uipart

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Member is the name of the member of a chunk that has the Members.
const Member = "part"

// MetadataEvent is the custom event with the metadata of the message: its data is a part message-metadata.
const MetadataEvent = "message-metadata"

// PreliminaryEvent is the custom event with an output that a later one replaces: its data is a part tool-output-available. Only clients that follow the run see it.
const PreliminaryEvent = "tool-output-preliminary"

// Members are the members of a part. A value that the client rejects is not read.
type Members struct {
	Begins           bool        // a text: the part before it, of the same kind, ends
	Static           bool        // a call: the part is tool-<name>; otherwise it is dynamic-tool
	Transient        bool        // data: passed to the application, and no part of the message
	ID               chunk.Value // data, a string: a part with the same name and id is replaced
	Title            chunk.Value // a call, a string
	ToolMetadata     chunk.Value // a call, an object
	ProviderMetadata chunk.Value // an object of objects
}

// Of returns the Members in the additional members of a chunk.
func Of(extra []chunk.Member) Members {
	for _, m := range extra {
		if m.Name == Member {
			return Read(m.Value)
		}
	}
	return Members{}
}

// Read reads the value of Member, nil if a chunk has none.
func Read(value chunk.Value) Members {
	var m Members
	if rawjson.Kind(value) != '{' {
		return m
	}
	for name, v := range rawjson.Members(value) {
		v := chunk.Value(slices.Clip(v))
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
func (m *Members) Extra() []chunk.Member {
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
	return []chunk.Member{{Name: Member, Value: o.End()}}
}

// Metadata returns the metadata in the data of a MetadataEvent, nil if it has no object.
func Metadata(data chunk.Value) chunk.Value {
	if rawjson.Kind(data) != '{' {
		return nil
	}
	return ofKind(slices.Clip(rawjson.Get(data, "messageMetadata")), '{')
}

func ofKind(v chunk.Value, first byte) chunk.Value {
	if rawjson.Kind(v) != first {
		return nil
	}
	return v
}

func objectOfObjects(v chunk.Value) chunk.Value {
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
