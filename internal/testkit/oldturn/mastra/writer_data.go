package mastra

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// Types of Mastra that the Writer treats separately.
const (
	workflowStart      = "workflow-start"
	workflowStepStart  = "workflow-step-start"
	workflowStepResult = "workflow-step-result"
	routingStart       = "routing-agent-start"
	agentEvent         = "agent-execution-event-" // begins the types of chunks around those of an agent of a network
	workflowEvent      = "workflow-execution-event-"
	workflowTool       = "workflow-" // begins the names of tools that are workflows
	toolProgress       = "tool-output"
)

// source writes a source of the answer.
func (w *Writer) source(it *item, kind string) {
	w.close(it.sp)
	w.open(it.sp, "source")
	w.frames.Raw("id", it.Get("sourceId"))
	w.frames.String("sourceType", kind)
	w.frames.Raw("title", it.Get("title"))
	w.frames.Raw("url", it.Get("url"))
	w.frames.Raw("mimeType", it.Get("mediaType"))
	w.frames.Raw("filename", it.Get("filename"))
	w.shut(it.sp)
}

// file writes a file: the data of a data URL, or any other URL in its place.
func (w *Writer) file(it *item) {
	w.close(it.sp)
	w.open(it.sp, "file")
	url := it.Get("url")
	if data, ok := base64Of(it.Text("url")); ok {
		w.frames.String("data", data)
		w.frames.String("base64", data)
	} else {
		w.frames.Raw("data", url)
	}
	w.frames.Raw("mimeType", it.Get("mediaType"))
	w.frames.Raw("filename", it.Get("filename"))
	w.shut(it.sp)
}

// base64Of returns the data of a data URL in base64.
func base64Of(url string) (string, bool) {
	head, data, ok := strings.Cut(url, ",")
	return data, ok && strings.HasPrefix(head, "data:") && strings.HasSuffix(head, ";base64")
}

// output writes the structured output of an agent. That of a workflow is in its last chunk.
func (w *Writer) output(sp *speaker, v chunk.Value) {
	sp.outputAt = max(sp.ordinal, 1)
	if sp.network {
		return
	}
	if sp.workflow {
		sp.output = append([]byte(nil), v...)
		return
	}
	w.begin(sp, "object-result")
	w.envelope(sp)
	w.frames.Raw("object", orNull(v))
	w.end(sp)
}

// notices has the members of the records that become notices of the same name.
var notices = map[chunk.Type][]string{
	chunk.TypeStatePatch:         {"patches"},
	chunk.TypeRunPaused:          {"runId", "reason", "pendingToolName", "pendingToolCallId"},
	chunk.TypeRunResumed:         {"runId", "fromCheckpointId", "fromStepCount", "mode"},
	chunk.TypeCheckpointCreated:  {"runId", "checkpointId", "stepCount"},
	chunk.TypeStepCommitted:      {"runId", "stepId", "checkpointId"},
	chunk.TypeStepDiscarded:      {"runId", "stepId", "reason"},
	chunk.TypeStreamResync:       {"checkpointId", "stepCount", "messageCount", "fromSequence", "reason"},
	chunk.TypeExecutorSuperseded: {"reason"},
}

// notice writes a record about the state of the session. The state of the run of a sub-agent is not shown, nor is a suspension_marker.
func (w *Writer) notice(it *item) {
	members, ok := notices[it.rec.Type]
	if !ok {
		return
	}
	switch it.rec.Type {
	case chunk.TypeRunPaused, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		w.close(it.sp)
	}
	if !w.isOwn(it.sp) && it.rec.Type != chunk.TypeStatePatch {
		return
	}
	w.sendNotice(it.sp, strings.ReplaceAll(string(it.rec.Type), "_", "-"), func(f *dialect.Frames) {
		for _, name := range members {
			f.Raw(name, it.Get(name))
		}
	})
}

// carry writes a chunk of a dialect that cannot be written as it is.
func (w *Writer) carry(it *item, name string, whole []byte) {
	w.data(it.sp, name+"-chunk")
	w.frames.Nest("data")
	w.frames.Raw("chunk", whole)
	w.frames.Name("sequence")
	w.frames.Dst = strconv.AppendUint(w.frames.Dst, uint64(it.rec.Seq), 10)
	w.frames.Close()
	w.frames.Flag("transient", true)
	w.end(it.sp)
}

// custom writes an event of the application. A chunk of Mastra that a Translator kept is written as it was.
func (w *Writer) custom(it *item) {
	name, data := it.Text("eventName"), orNull(it.Get("data"))
	if kind, ok := strings.CutPrefix(name, keptPrefix); ok && isObject(data) {
		w.original(it, kind, redact(data, chunk.MaxDepth))
		return
	}
	if name == toolProgress && w.toolOutput(it, data) {
		return
	}
	w.data(it.sp, dataName(name))
	w.frames.Raw("data", data)
	w.end(it.sp)
}

// dataName returns the name of an event as part of the type of a data part.
func dataName(name string) string {
	reduced := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return -1
	}, name)
	return cmp.Or(reduced, "custom")
}

// toolOutput writes what a running tool wrote. It reports false for an event of another form.
func (w *Writer) toolOutput(it *item, data chunk.Value) bool {
	o := read(data)
	_, isID := o.text("toolCallId")
	_, isName := o.text("toolName")
	output, ok := o["output"]
	inner := read(output)
	kind, _ := inner.text("type")
	if _, hasData := inner["data"]; !isID || !isName || !ok || strings.HasPrefix(kind, "data-") && !hasData {
		return false
	}
	w.begin(it.sp, "tool-output")
	w.frames.Content("runId", it.sp.run)
	w.frames.Raw("from", []byte(`"USER"`))
	w.frames.Nest("payload")
	w.frames.Raw("output", redact(output, chunk.MaxDepth))
	w.frames.Raw("toolCallId", o["toolCallId"])
	w.frames.Raw("toolName", o["toolName"])
	w.shut(it.sp)
	return true
}

// original writes a chunk that a Translator kept. A chunk of a type that it translates was kept because it lacks members, and would stop clients, which expect
// them.
func (w *Writer) original(it *item, kind string, whole chunk.Value) {
	sp, m := it.sp, read(whole)
	if typ, ok := m.text("type"); !ok || typ != kind || !m.harmless(kind) {
		w.carry(it, "mastra", whole)
		return
	}
	payload := m.object("payload")
	sp.network = sp.network || isOfNetwork(kind)
	switch id, _ := payload.text("id"); kind {
	case "agent-execution-start", "workflow-execution-start":
		sp.executing, _ = payload.text("runId")
		if sp.runs = agentEvent; kind != "agent-execution-start" {
			sp.runs = workflowEvent
		}
	case workflowStart:
		sp.workflow = true
	case workflowStepStart:
		sp.pending = nil
	case workflowStepResult:
		sp.workStep = id
	case "workflow-step-suspended":
		sp.suspended = true
	case "tool-call-suspended":
		call, _ := payload.text("toolCallId")
		if c := sp.calls[call]; c != nil && !c.complete {
			c.suspended = true
		} else {
			sp.suspended = true
		}
	}
	if run, ok := m.text("runId"); ok && (sp.workflow || sp.network) {
		sp.run = escaped(run) // clients put the chunks of one run together
	}
	w.begin(sp, kind)
	for name, value := range rawjson.Members(whole) {
		if name.Is("payload") && kind == "background-task-suspended" {
			value = suspendPayload(payload, value)
		}
		if !name.Is("type") {
			w.frames.Dst = append(append(append(w.frames.Dst, ','), name...), ':')
			w.frames.Dst = append(w.frames.Dst, value...)
		}
	}
	w.end(sp)
}

// suspendPayload returns the payload of background-task-suspended with the name that the product's clients read for what the task waits for, if it has the one of the
// product's documentation.
func suspendPayload(o object, payload chunk.Value) chunk.Value {
	data, documented := o["suspendData"]
	if _, ok := o["suspendPayload"]; ok || !documented {
		return payload
	}
	return append(append(append(slices.Clone(payload[:len(payload)-1]), `,"suspendPayload":`...), data...), '}')
}

// isOfNetwork reports whether a type is one of the chunks of a network.
func isOfNetwork(kind string) bool {
	return slices.ContainsFunc([]string{"routing-agent-", "agent-execution-", "workflow-execution-", "tool-execution-", "network-"}, func(family string) bool {
		return strings.HasPrefix(kind, family)
	})
}

// startsWorkStep reports whether a record is the chunk of the workflow step that waits for its step-start.
func (w *Writer) startsWorkStep(it *item) bool {
	return it.sp.pending != nil && it.Text("eventName") == keptPrefix+workflowStepStart && it.Text("data", "payload", "id") == it.sp.pending.id
}

// translated has the types that a Translator keeps only if they lack members.
var translated = map[string]bool{
	"start": true, "step-start": true, "step-finish": true, "finish": true, "text-start": true, "text-delta": true, "text-end": true,
	"reasoning-start": true, "reasoning-delta": true, "reasoning-end": true, "source": true, "file": true, "object-result": true,
	"tool-call-input-streaming-start": true, "tool-call-delta": true, "tool-call-input-streaming-end": true, "tool-call": true, "tool-result": true,
	"tool-error": true, "tool-call-approval": true, "tool-output-denied": true, "tool-output": true, "error": true, "abort": true, "tripwire": true,
	"workflow-finish": true,
}

// harmless reports whether clients accept a chunk of a type at any place. They take a member "type" of the payload for the type of a chunk that they do not know.
func (o object) harmless(kind string) bool {
	if translated[kind] || dataName(kind) != kind || strings.HasPrefix(kind, "data-") {
		return false
	}
	if kind == "object" {
		return true
	}
	payload := o.object("payload")
	_, nested := payload["type"]
	if kind == "tool-call-suspended" {
		_, isCall := payload.text("toolCallId")
		return isCall
	}
	return payload != nil && (!nested || strings.HasPrefix(kind, "background-task-") || kind == "response-metadata")
}
