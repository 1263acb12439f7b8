package agui

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// appendUserMessage appends a message of a user: its content is a text, or a list of parts if it has files.
func appendUserMessage(dst []byte, id, text string, files []chunk.InputFile, metadata *chunk.Value) []byte {
	o := rawjson.Begin(dst)
	o.String("id", id)
	o.String("role", "user")
	if len(files) == 0 {
		o.String("content", text)
	} else {
		o.Name("content")
		o.Dst = append(o.Dst, '[')
		if text != "" {
			part := rawjson.Begin(o.Dst)
			part.String("type", "text")
			part.String("text", text)
			o.Dst = part.End()
		}
		for i := range files {
			if o.Dst[len(o.Dst)-1] != '[' {
				o.Dst = append(o.Dst, ',')
			}
			o.Dst = appendFilePart(o.Dst, &files[i])
		}
		o.Dst = append(o.Dst, ']')
	}
	if metadata != nil && isObject(*metadata) {
		if shown := withoutContext(*metadata); len(shown) > len("{}") {
			o.Raw("metadata", shown)
		}
	}
	return o.End()
}

// ContextMember is the member of the metadata of a message that has what a client posted besides the messages: it is for the agent, and the messages of clients do
// not have it.
const ContextMember = "agui"

func withoutContext(metadata chunk.Value) chunk.Value {
	if rawjson.Get(metadata, ContextMember) == nil {
		return metadata
	}
	o := rawjson.Begin(nil)
	for name, value := range rawjson.Members(metadata) {
		if !name.Is(ContextMember) {
			o.Raw(string(name.Content()), value)
		}
	}
	return o.End()
}

// appendFilePart appends a file as a part of a message, under the kind that its media type begins with.
func appendFilePart(dst []byte, f *chunk.InputFile) []byte {
	kind, _, _ := strings.Cut(f.MediaType, "/")
	switch kind {
	case "image", "audio", "video":
	default:
		kind = "document"
	}
	o := rawjson.Begin(dst)
	o.String("type", kind)
	o.Nest("source")
	if data, isData := dataURL(f.URL); isData {
		o.String("type", "data")
		o.String("value", data)
		o.String("mimeType", f.MediaType)
	} else {
		o.String("type", "url")
		o.String("value", f.URL)
		o.Text("mimeType", f.MediaType)
	}
	o.Close()
	if f.Filename != nil {
		o.Nest("metadata")
		o.String("filename", *f.Filename)
		o.Close()
	}
	return o.End()
}

// dataURL returns the base64 text of a data URL.
func dataURL(url string) (data string, ok bool) {
	rest, isData := strings.CutPrefix(url, "data:")
	if !isData {
		return "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	return data, ok && strings.HasSuffix(head, ";base64")
}
