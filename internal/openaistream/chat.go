package openaistream

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// functionIndex is the index of the call of an API before tool calls, function_call, which has none.
const functionIndex = -1

func (r *Reader) chat(o *dialect.Object) {
	r.id = o.Or("id", "")
	r.named(o)
	if u := o.Peek("usage"); isObject(u) { // cumulative: some servers send it with every piece
		r.Usage = usageOf(u, "prompt", "completion")
	}
	for _, choice := range o.List("choices") {
		if count(choice.Peek("index")) != 0 {
			continue // one of several answers: it is not read, and so it is kept
		}
		r.delta(choice.Object("delta"), false)
		r.delta(choice.Object("message"), true)                // of a server that does not stream, or that repeats what it has streamed
		r.texting(choice, "text", textPart{kind: Text}, false) // of an API before chats
		reason, known := chatFinish(choice.Or("finish_reason", ""))
		switch reason {
		case "":
		case "error":
			r.fail(Error{Message: "finish_reason error"})
		default:
			if !known {
				choice.Unread("finish_reason")
			}
			r.finish(reason)
		}
	}
}

func chatFinish(reason string) (_ string, known bool) {
	switch reason {
	case "", "error", FinishStop, FinishLength:
		return reason, true
	case "tool_calls", "function_call":
		return FinishCalls, true
	case "content_filter":
		return FinishFiltered, true
	}
	return FinishOther, false
}

// delta reads a piece of a message, or a whole one.
func (r *Reader) delta(d *dialect.Object, whole bool) {
	if d == nil {
		return
	}
	thought, text := textPart{kind: Reasoning}, textPart{kind: Text}
	// The API does not define reasoning. Servers use several names, and some of them more than one for the same text.
	reasoning := ""
	for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
		s, _ := dialect.Text(d.Peek(name))
		if reasoning == "" {
			r.texting(d, name, thought, whole)
			reasoning = s
		} else if s == reasoning {
			d.Get(name)
		}
	}
	for _, name := range stateLists {
		r.details(d, name, reasoning == "")
	}
	r.texting(d, "content", text, whole)
	r.texting(d, "refusal", text, whole)
	r.texting(d.Object("audio"), "transcript", text, whole)
	if v := d.Get("extra_content"); isObject(v) {
		r.add(Event{Kind: Text, State: state("extra_content", v)})
	} else {
		d.Unread("extra_content")
	}
	if f := d.Object("function_call"); f != nil {
		r.function(r.call(functionIndex, "", f.Or("name", "")), f, whole)
	}
	for position, t := range d.List("tool_calls") {
		if t == nil {
			continue
		}
		index := int64(position)
		if v := t.Peek("index"); v != nil {
			index = count(v)
		}
		f := t.Object("function")
		c := r.chatCall(index, t.Or("id", ""), f.Or("name", ""))
		c.named(t, "id", "")
		if v := t.Peek("extra_content"); isObject(v) && !c.done && c.State == nil {
			c.State = state("extra_content", t.Get("extra_content"))
		}
		r.function(c, f, whole)
	}
	for _, a := range d.List("annotations") {
		r.annotation(a)
	}
	for _, image := range d.List("images") { // of compatible servers
		if image.Or("type", "") != "image_url" {
			image.Unread("type")
		}
		r.image(image.Object("image_url"), "url")
	}
}

// chatCall is call for chat completions, whose servers count calls in different ways: a piece without id and name whose index has no call belongs to the call that is
// open last, if that has no arguments yet or shares its index. Another one is of a call that is named later.
func (r *Reader) chatCall(index int64, id, name string) *Call {
	if n := len(r.Calls); r.byIndex[index] == nil && id == "" && name == "" && n > 0 {
		if last := r.Calls[n-1]; !last.done && (last.args.Len() == 0 || last.shares) {
			r.byIndex[index] = last
		}
	}
	return r.call(index, id, name)
}

// function reads the name and the arguments of a call: a piece of their JSON text, or an object.
func (r *Reader) function(c *Call, f *dialect.Object, whole bool) {
	r.flushStates()
	c.named(f, "", "name")
	add := r.arguments
	if whole {
		add = r.completeArguments
	}
	v := f.Peek("arguments")
	text, isText := dialect.Text(v)
	if !isText && !v.IsNull() {
		text = string(v)
	}
	if add(c, text) {
		f.Get("arguments")
	}
}

// texting reads a text of a part: a string, or an array of parts. It is a piece of it, or the whole.
func (r *Reader) texting(o *dialect.Object, name string, of textPart, whole bool) {
	if s, ok := o.Text(name); ok {
		switch {
		case whole:
			r.closing(o, name, of, s)
		case !r.Twice || of.kind != Text || !r.echoes.repeats(false, s):
			r.streamed(of, s)
		}
		return
	}
	parts, i := o.List(name), 0
	for v := range rawjson.Elements(o.Peek(name)) {
		if s, ok := dialect.Text(v); ok {
			r.streamed(of, s)
			o.ReadElement(name, i)
		} else {
			r.contentPart(parts[i], of, whole)
		}
		i++
	}
}

// contentPart reads a part of a content.
func (r *Reader) contentPart(p *dialect.Object, of textPart, whole bool) {
	switch p.Or("type", "") {
	case "thinking", "reasoning", "reasoning_text", "summary_text":
		of.kind = Reasoning
	case "image_url":
		r.image(p.Object("image_url"), "url")
		return
	case "", "text", "output_text", "input_text", "refusal", "output_audio":
	default:
		p.Unread("type")
	}
	for _, name := range []string{"text", "thinking", "reasoning", "content", "refusal", "transcript"} {
		r.texting(p, name, of, whole)
	}
	for _, a := range p.List("annotations") {
		r.annotation(a)
	}
}

func (r *Reader) image(o *dialect.Object, name string) {
	url, ok := o.Text(name)
	if !ok || url == "" {
		return
	}
	mediaType := "image/*"
	if head, _, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";"); ok && strings.HasPrefix(head, "image/") {
		mediaType = head
	}
	if body := (chunk.File{URL: url, MediaType: mediaType}); valid(body) {
		r.output = true
		r.add(Event{Kind: Other, Body: body})
		return
	}
	o.Unread(name)
}

// stateLists are members with what the endpoint wants back: pieces of reasoning with its signatures, or in a form that only the endpoint reads.
var stateLists = []string{"reasoning_details", "thinking_blocks"}

// stateList is one of them so far.
type stateList struct {
	name  string
	items []*stateItem
}

// stateItem is an element that comes in pieces.
type stateItem struct {
	members []chunk.Member  // all but the text
	textual string          // the name of the text, "" for none
	text    strings.Builder // as JSON content
}

// textual are the members of an element that are pieces of a text.
var textual = []string{"text", "summary", "thinking"}

// details reads a list of pieces. reads: the texts in it are in no other member.
func (r *Reader) details(d *dialect.Object, name string, reads bool) {
	elements := d.Peek(name)
	if rawjson.Kind(elements) != '[' {
		return
	}
	d.Get(name)
	i := slices.IndexFunc(r.states, func(l *stateList) bool { return l.name == name })
	if i < 0 {
		i, r.states = len(r.states), append(r.states, &stateList{name: name})
	}
	for v := range rawjson.Elements(bytes.Clone(elements)) { // the caller may use the memory again
		if piece := r.states[i].add(v); reads {
			r.piece(Reasoning, piece)
		}
	}
}

// add adds an element, to the last one if it continues it, and returns its text.
func (l *stateList) add(v []byte) (piece string) {
	e := &stateItem{}
	for name, value := range rawjson.Members(v) {
		n := string(name.Bytes())
		if e.textual == "" && slices.Contains(textual, n) && rawjson.Kind(value) == '"' {
			e.textual = n
			piece, _ = dialect.Text(value)
			e.text.Write(rawjson.Text(value).Content())
			continue
		}
		e.members = append(e.members, chunk.Member{Name: n, Value: value})
	}
	if !isObject(v) {
		e.members = []chunk.Member{{Name: "value", Value: v}}
	}
	if len(l.items) == 0 || !l.items[len(l.items)-1].continues(e) {
		l.items = append(l.items, e)
		return piece
	}
	last := l.items[len(l.items)-1]
	if last.textual == "" {
		last.textual = e.textual
	}
	last.text.WriteString(e.text.String())
	for _, m := range e.members {
		if i := slices.IndexFunc(last.members, func(o chunk.Member) bool { return o.Name == m.Name }); i < 0 {
			last.members = append(last.members, m)
		} else if v := last.members[i].Value; v.IsNull() || string(v) == `""` {
			last.members[i].Value = m.Value
		}
	}
	return piece
}

// continues reports whether an element is the next piece of e: no member of the two differs, and what closes e has not come.
func (e *stateItem) continues(next *stateItem) bool {
	named := func(name string) func(chunk.Member) bool {
		return func(m chunk.Member) bool { return m.Name == name }
	}
	if e.textual != "" && next.textual != "" && e.textual != next.textual || slices.ContainsFunc(e.members, named(next.textual)) || slices.ContainsFunc(next.members, named(e.textual)) {
		return false
	}
	for _, m := range next.members {
		empty := m.Value.IsNull() || string(m.Value) == `""`
		i := slices.IndexFunc(e.members, func(o chunk.Member) bool { return o.Name == m.Name })
		if i < 0 {
			if m.Name == "data" {
				return false
			}
			continue
		}
		v := e.members[i].Value
		if !empty && !v.IsNull() && string(v) != `""` && (string(v) != string(m.Value) || m.Name == "data" || m.Name == "signature") {
			return false
		}
		if !v.IsNull() && string(v) != `""` && m.Name == "signature" {
			return false
		}
	}
	return true
}

// flushStates returns what has come of the lists: the reasoning is over.
func (r *Reader) flushStates() {
	if r.states == nil {
		return
	}
	out := rawjson.Begin(nil)
	for _, l := range r.states {
		out.List(l.name, len(l.items), func(dst []byte, i int) []byte {
			o := rawjson.Begin(dst)
			for _, m := range l.items[i].members {
				o.Raw(m.Name, m.Value)
			}
			if e := l.items[i]; e.textual != "" {
				o.Content(e.textual, []byte(e.text.String()))
			}
			return o.End()
		})
	}
	r.states = nil
	r.add(Event{Kind: ReasoningEnd, State: out.End()})
}

// state returns the state with one member.
func state(name string, v chunk.Value) chunk.Value {
	o := rawjson.Begin(nil)
	o.Raw(name, slices.Clone(v))
	return o.End()
}
