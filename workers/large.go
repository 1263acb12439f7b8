package workers

import (
	"context"
	"errors"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
)

// valueReader reads large values.
type valueReader interface {
	Value(ctx context.Context, s chunk.Session, key string) (data []byte, mediaType string, err error)
}

// expander replaces references to large values by the values, for a model, which cannot follow them. A value that cannot be read stays a reference, and so does
// what exceeds the size of the largest value.
type expander struct {
	*Turn

	used int
}

func (x *expander) messages(list []fold.Message) {
	for _, m := range list {
		for i, p := range m.Parts {
			switch {
			case m.Role == fold.User && p.Kind == fold.PartText:
				m.Parts[i].Text = x.text(p.Text)
			case p.Call != nil:
				p.Call.Input, p.Call.Output = x.value(p.Call.Input), x.value(p.Call.Output)
			case p.File != nil:
				if u := x.url(p.File.URL); u != p.File.URL {
					m.Parts[i].ReplaceURL(u)
				}
			case p.Data != nil:
				if v := x.value(p.Data.Value); len(v) != len(p.Data.Value) {
					m.Parts[i].ReplaceData(v)
				}
			}
		}
	}
}

// text returns the message of a sub-agent's input that is a reference.
func (x *expander) text(s string) string {
	if v := chunk.Value(s); x.cmd.Parent != nil {
		if whole := x.value(v); len(whole) != len(v) {
			return messageIn(whole)
		}
	}
	return s
}

// input returns a copy of messages, with the files and inputs that they refer to.
func (x *expander) input(in []chunk.InputMessage) []chunk.InputMessage {
	in = slices.Clone(in)
	for i := range in {
		in[i].Content = x.text(in[i].Content)
		in[i].Files = slices.Clone(in[i].Files)
		for j := range in[i].Files {
			in[i].Files[j].URL = x.url(in[i].Files[j].URL)
		}
	}
	return in
}

// withUploads returns an input with its uploads, which the run stores as its own values. A file that neither is stored any more nor is that of an earlier message is
// left out, and the error is for users: an agent cannot do anything with its URL.
func (w *Workers) withUploads(ctx context.Context, snap fold.Snapshot, in []chunk.InputMessage) (_ []chunk.InputMessage, lost error) {
	in = slices.Clone(in)
	for i := range in {
		files := in[i].Files
		in[i].Files = nil
		for _, f := range files {
			of, k, ok := values.OfURL(snap.Session, f.URL)
			if !ok || k.Type != values.Upload {
				in[i].Files = append(in[i].Files, f)
				continue
			}
			data, mediaType, err := w.values.Value(ctx, of, k.String())
			switch known := storedURL(snap, k); {
			case err == nil:
				f.URL = values.MakeDataURL(mediaType, data)
			case !errors.Is(err, chunk.ErrUnknownValue):
				return nil, err
			case known == "":
				lost = &Error{Message: "a file of the message is not stored any more; send it again", Code: values.CodeLost, Cause: err}
				continue
			default:
				f.URL = known
			}
			in[i].Files = append(in[i].Files, f)
		}
	}
	return in, lost
}

// storedURL returns the URL of the same file in the log, "" for none. A page that has loaded a message before its run began edits it with the URL of the upload.
func storedURL(snap fold.Snapshot, k values.Key) string {
	for _, in := range snap.Inputs() {
		for _, f := range in.Message.Files {
			if values.Identity(f.URL) == k.SHA256 {
				return f.URL
			}
		}
	}
	return ""
}

func (x *expander) value(v chunk.Value) chunk.Value {
	return values.Expand(v, x.cmd.Session, func(of chunk.Session, k values.Key, _ int) []byte {
		data, _ := x.read(of, k)
		return data
	})
}

func (x *expander) url(u string) string {
	of, k, ok := values.OfURL(x.cmd.Session, u)
	if ok && k.Type == values.Upload { // in the command; the run has it as its own value
		of, k, ok = values.OfURL(x.cmd.Session, storedURL(x.snap, k))
	}
	if ok {
		if data, mediaType := x.read(of, k); data != nil {
			return values.MakeDataURL(mediaType, data)
		}
	}
	return u
}

// read returns nil for a value that it cannot read.
func (x *expander) read(of chunk.Session, k values.Key) (data []byte, mediaType string) {
	data, mediaType, err := x.w.values.Value(x.writeCtx, of, k.String())
	if err != nil {
		x.log.Warn("large value not read", "value", k.String(), "error", err)
		return nil, ""
	}
	if x.used += len(data); x.used > values.MaxBytes {
		return nil, ""
	}
	return data, mediaType
}
