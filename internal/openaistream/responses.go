package openaistream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// textPart is a text of a response: of a part of an item, or the one of chat completions.
type textPart struct {
	kind           Kind
	field          string // of summaries, which are counted apart from contents
	id             string // of the item, "" if it is not known
	index, content int64
	text           strings.Builder
}

func (p *textPart) is(o *textPart) bool {
	return p.kind == o.kind && p.field == o.field && p.content == o.content && (p.id != "" && p.id == o.id || p.index == o.index && (p.id == "" || o.id == ""))
}

// part returns the text so far.
func (r *Reader) part(of *textPart) *textPart {
	if i := slices.IndexFunc(r.texts, of.is); i >= 0 {
		return r.texts[i]
	}
	return nil
}

// streamed adds a piece of a text.
func (r *Reader) streamed(of textPart, piece string) {
	p := r.part(&of)
	if p == nil {
		p = &of
		r.texts = append(r.texts, p)
	}
	appendText(&p.text, piece)
	r.piece(p.kind, piece)
}

// closing adds what was not streamed of a whole text. A whole text that differs from what was streamed is not read.
func (r *Reader) closing(o *dialect.Object, name string, of textPart, whole string) {
	repeats := func(p *textPart) bool { return p.kind == of.kind && p.text.String() == whole }
	p := r.part(&of)
	switch {
	case whole == "" || slices.ContainsFunc(r.texts, repeats):
	case p == nil:
		r.streamed(of, whole)
	default:
		rest, continues := strings.CutPrefix(whole, p.text.String())
		if !continues {
			o.Unread(name)
			return
		}
		r.streamed(of, rest)
	}
}

func (r *Reader) response(kind string, o *dialect.Object) {
	of := textPart{kind: Text, id: o.Or("item_id", ""), index: count(o.Peek("output_index")), content: count(o.Peek("content_index"))}
	if strings.HasPrefix(kind, "response.reasoning_summary") {
		of.field, of.content = "summary", count(o.Peek("summary_index"))
	}
	if strings.HasPrefix(kind, "response.reasoning") {
		of.kind = Reasoning
	}
	switch kind {
	case "response.created":
		r.created = true
		r.named(o.Object("response"))
	case "response.in_progress", "response.queued":
	case "response.output_text.delta", "response.refusal.delta", "response.audio.transcript.delta", "response.output_audio_transcript.delta",
		"response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		r.providerRan(of.kind)
		r.texting(o, "delta", of, false)
	case "response.output_text.done", "response.refusal.done", "response.audio.transcript.done", "response.output_audio_transcript.done",
		"response.reasoning_summary_text.done", "response.reasoning_text.done":
		r.providerRan(of.kind)
		for _, name := range []string{"text", "refusal", "transcript"} {
			r.texting(o, name, of, true)
		}
		if kind == "response.reasoning_text.done" {
			r.add(Event{Kind: ReasoningEnd})
		}
	case "response.content_part.added", "response.content_part.done", "response.reasoning_summary_part.added", "response.reasoning_summary_part.done":
		r.contentPart(o.Object("part"), of, true)
		if kind == "response.reasoning_summary_part.done" {
			r.add(Event{Kind: ReasoningEnd})
		}
	case "response.output_text.annotation.added":
		r.annotation(o.Object("annotation"))
	case "response.output_item.added":
		r.item(o.Object("item"), of.index, false)
	case "response.output_item.done":
		r.item(o.Object("item"), of.index, true)
	case "response.function_call_arguments.delta":
		if piece, ok := o.Text("delta"); ok && !r.arguments(r.call(of.index, "", ""), piece) {
			o.Unread("delta")
		}
	case "response.function_call_arguments.done":
		c := r.call(of.index, "", "")
		c.named(o, "call_id", "name")
		if args, ok := o.Text("arguments"); ok && !r.completeArguments(c, args) {
			o.Unread("arguments")
		}
	case "response.completed", "response.incomplete", "response.failed":
		r.terminal(kind, o.Object("response"))
	case "response.image_generation_call.in_progress", "response.image_generation_call.generating", "response.image_generation_call.completed":
	case "response.custom_tool_call_input.delta":
		if c := r.call(of.index, "", ""); !c.done {
			appendText(&c.input, o.Or("delta", ""))
		}
	case "response.custom_tool_call_input.done":
		if input, ok := o.Text("input"); ok && !r.input(r.call(of.index, "", ""), input) {
			o.Unread("input")
		}
	case "response.image_generation_call.partial_image", "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done",
		"response.audio.delta", "response.output_audio.delta": // the item has the whole
	default:
		r.unknown(kind, o)
	}
}

// unknown keeps an event that is not read here.
func (r *Reader) unknown(kind string, o *dialect.Object) {
	if kind == "" {
		kind = o.Or("object", "")
	}
	r.add(Event{Kind: Other, Body: Custom(kind, o.GetAll())})
}

// item reads an item of the output: at its start, or when it is complete.
func (r *Reader) item(item *dialect.Object, index int64, complete bool) {
	kind, of := item.Or("type", ""), textPart{kind: Text, id: item.Or("id", ""), index: index}
	switch kind {
	case "message":
		for i, p := range item.List("content") {
			r.providerRan(Text)
			of.content = int64(i)
			r.contentPart(p, of, true)
		}
	case "reasoning":
		of.kind = Reasoning
		for _, name := range []string{"content", "rawContent", "summary"} {
			for i, p := range item.List(name) {
				if of.content, of.field = int64(i), ""; name == "summary" || p.PeekText("type") == "input_text" { // in the Agents SDK for TypeScript the content is the summary
					of.field = "summary"
				}
				r.contentPart(p, of, true)
			}
		}
		// The endpoint stores nothing, so it takes an item only with this content.
		if v := item.Get("encrypted_content"); complete && rawjson.Kind(v) == '"' && r.once(v) {
			r.add(Event{Kind: ReasoningEnd, State: state("item", item.All())})
		}
	case "function_call", "custom_tool_call":
		r.callItem(kind, item, index, complete)
	case "image_generation_call":
		if v := item.Peek("result"); complete && r.once(v) {
			r.generated(item)
		}
	case "mcp_call":
		if complete {
			r.serverCall(item)
		}
	default:
		if v := item.GetAll(); v != nil && r.once(v) {
			r.add(Event{Kind: Other, Body: Custom("response.output_item."+map[bool]string{true: "done", false: "added"}[complete], state("item", v))})
		}
	}
}

func (r *Reader) callItem(kind string, item *dialect.Object, index int64, complete bool) {
	id := item.Or("call_id", item.Or("callId", ""))
	c := r.known(id)
	if c == nil {
		c = r.call(index, id, item.Or("name", ""))
	}
	c.named(item, "call_id", "name")
	c.named(item, "callId", "")
	if !complete {
		return
	}
	if kind == "function_call" {
		r.function(c, item, true)
		r.complete(c)
		return
	}
	if input, ok := item.Text("input"); ok && !r.input(c, input) {
		item.Unread("input")
	}
	if !c.done && !slices.Contains(r.custom, c) {
		r.custom = append(r.custom, c)
	}
}

// serverCall reads a call of an MCP server, once.
func (r *Reader) serverCall(item *dialect.Object) {
	v := item.All()
	if !r.once(v) {
		item.GetAll()
		return
	}
	r.providerRan(Text)
	r.output = true
	start, end := ServerCallOf(v)
	if !valid(start) || !valid(end) {
		r.add(Event{Kind: Other, Body: Custom("mcp_call", item.GetAll())})
		return
	}
	item.Get("output")
	for _, name := range []string{"id", "name", "arguments"} {
		item.Text(name)
	}
	r.add(Event{Kind: ServerCall, Value: v})
}

// input sets the text of a custom call, or reports that the call is complete with another one.
func (r *Reader) input(c *Call, text string) bool {
	if c.done {
		return c.input.String() == text
	}
	r.replace(c, &c.input, text)
	return true
}

// known returns the call with an id, nil if there is none.
func (r *Reader) known(id string) *Call {
	i := slices.IndexFunc(r.Calls, func(c *Call) bool { return id != "" && c.ID == id })
	if i < 0 {
		return nil
	}
	return r.Calls[i]
}

// providerRan completes the custom calls before a text of the answer: no model writes one before it has the outcome, so the endpoint has run them.
func (r *Reader) providerRan(kind Kind) {
	if kind != Text {
		return
	}
	for _, c := range r.custom {
		c.Provider = !c.done
		r.complete(c)
	}
	r.custom = nil
}

// generated reads an image that the model has generated.
func (r *Reader) generated(item *dialect.Object) {
	image, _ := item.Text("result")
	mediaType := "image/" + item.Or("output_format", "png")
	if body := (chunk.File{URL: "data:" + mediaType + ";base64," + image, MediaType: mediaType}); image != "" && valid(body) {
		r.output = true
		r.add(Event{Kind: Other, Body: body})
		return
	}
	item.Unread("result")
	item.Unread("output_format")
}

func (r *Reader) terminal(kind string, response *dialect.Object) {
	r.named(response)
	if u := response.Peek("usage"); isObject(u) {
		r.Usage = usageOf(u, "input", "output")
	}
	for i, item := range response.List("output") {
		r.item(item, int64(i), true)
	}
	r.Over = true
	switch kind {
	case "response.failed":
		r.fail(readError(response.Peek("error")))
	case "response.incomplete":
		r.finish(incomplete(response.Object("incomplete_details")))
	default:
		r.finish(FinishStop)
	}
}

func incomplete(details *dialect.Object) string {
	switch details.Or("reason", "") {
	case "max_output_tokens", "max_tokens":
		return FinishLength
	case "content_filter":
		return FinishFiltered
	}
	details.Unread("reason")
	return FinishOther
}

// annotation returns the source in an annotation, once. Chat completions nest its members.
func (r *Reader) annotation(a *dialect.Object) {
	v := a.All()
	if v == nil || !r.once(v) {
		a.GetAll()
		return
	}
	kind, o := a.Or("type", ""), a
	if inner := a.Object(kind); inner != nil {
		o = inner
	}
	r.sources++
	id := fmt.Sprintf("source_%d_%d", r.Step, r.sources)
	var body chunk.Body
	switch filename := o.Maybe("filename"); {
	case kind == "url_citation":
		body = chunk.SourceURL{SourceID: id, URL: o.Or("url", ""), Title: o.Maybe("title")}
	case (kind == "file_citation" || kind == "container_file_citation") && filename != nil:
		body = chunk.SourceDocument{SourceID: id, MediaType: "text/plain", Title: *filename, Filename: filename}
	case kind == "file_citation" || kind == "container_file_citation":
		body = chunk.SourceDocument{SourceID: id, MediaType: "text/plain", Title: o.Or("file_id", "")}
	}
	if body == nil || !valid(body) {
		body = Custom("annotation", a.GetAll())
	}
	r.add(Event{Kind: Other, Body: body})
}

func valid(b chunk.Body) bool { return chunk.Chunk{AgentID: "-", Body: b}.Validate() == nil }

// ServerCallOf returns the start and the outcome of the item of a ServerCall.
func ServerCallOf(item chunk.Value) (chunk.ToolStart, chunk.ToolEnd) {
	id, tool := dialect.TextAt(item, "id"), dialect.TextAt(item, "name")
	end := chunk.ToolEnd{ToolCallID: id, ToolName: tool, Result: rawjson.Get(item, "output"), ProviderExecuted: new(true)}
	if e := rawjson.Get(item, "error"); !chunk.Value(e).IsNull() {
		end.Error, end.Result = new("the tool failed"), nil
	}
	return chunk.ToolStart{ToolCallID: id, ToolName: tool, Arguments: chunk.Value(dialect.TextAt(item, "arguments"))}, end
}

// Extra returns the additional members of a chunk that has a state.
func Extra(state chunk.Value) []chunk.Member {
	if state == nil {
		return nil
	}
	o := rawjson.Begin(nil)
	o.Raw(dialect.OpenAI, state)
	p := chunk.Part{ProviderMetadata: o.End()}
	return p.Extra()
}

// Custom returns the event that keeps a value without what must not be stored. A value that exceeds the limits of a chunk is lost.
func Custom(kind string, v chunk.Value) chunk.Body {
	b := chunk.Custom{EventName: dialect.OpenAI + "." + kind, Data: Redacted(v)}
	if kind == "" || !valid(chunk.Custom{EventName: b.EventName}) {
		b.EventName = dialect.OpenAI + ".unknown"
	}
	if !valid(b) {
		b.Data = nil
	}
	return b
}

// leftOut has the members that are not kept, see docs/reference/dialects.md.
var leftOut = dialect.LeaveOut(map[string]string{
	"": "id object model service_tier system_fingerprint obfuscation error choices.delta.role choices.delta.tool_calls.type choices.delta.audio.id " +
		"choices.delta.audio.data choices.message.role choices.message.tool_calls.type choices.message.audio.id choices.message.audio.data choices.logprobs logprobs item_id item.id item.status item.role",
	"error": "message code param",
	"response.created response.in_progress response.queued": "response",
	"response.completed response.incomplete response.failed": "response.id response.object response.status response.background response.error response.instructions response.model " +
		"response.previous_response_id response.prompt response.prompt_cache_key response.prompt_cache_retention response.reasoning response.safety_identifier response.service_tier " +
		"response.text response.tool_choice response.tools response.truncation response.user response.metadata response.conversation response.output.id response.output.status " +
		"response.output.role response.output.error response.output.content.logprobs",
	"response.output_item.added":                                                         "item.encrypted_content item.arguments item.input",
	"response.image_generation_call.partial_image":                                       "partial_image_b64 output_format size quality background",
	"response.mcp_call_arguments.done":                                                   "arguments",
	"response.mcp_call_arguments.delta response.audio.delta response.output_audio.delta": "delta",
	"response.content_part.done response.content_part.added":                             "part.logprobs",
	"response.output_item.done":                                                          "item.content.logprobs item.error",
})
