package mastra

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// Types of Mastra that the Writer treats separately.
const (
	workflowStart      = "workflow-start"
	workflowStepStart  = "workflow-step-start"
	workflowStepResult = "workflow-step-result"
	routingStart       = "routing-agent-start"
	workflowTool       = "workflow-" // begins the names of tools that are workflows
	toolProgress       = "tool-output"
)

// networkEvents begin the types of the chunks around those of what a network runs.
var networkEvents = [...]string{eventOfAgent: "agent-execution-event-", eventOfWorkflow: "workflow-execution-event-"}

const (
	eventOfAgent    = 1
	eventOfWorkflow = 2
)

// part writes a source or a file of the answer: the data of a data URL, or any other URL in its place.
func (p *printer) part(it *turn.Item, sp *speaker) {
	if it.Rec.Type == chunk.TypeFile {
		p.open(sp, "file")
		if head, data, ok := strings.Cut(it.Text("url"), ","); ok && strings.HasPrefix(head, "data:") && strings.HasSuffix(head, ";base64") {
			p.f.String("data", data)
			p.f.String("base64", data)
		} else {
			p.f.Raw("data", it.Get("url"))
		}
	} else {
		p.open(sp, "source")
		p.f.Raw("id", it.Get("sourceId"))
		p.f.String("sourceType", strings.TrimPrefix(string(it.Rec.Type), "source_"))
		p.f.Raw("title", it.Get("title"))
		p.f.Raw("url", it.Get("url"))
	}
	p.f.Raw("mimeType", it.Get("mediaType"))
	p.f.Raw("filename", it.Get("filename"))
	p.shut(sp)
}

// output writes the structured output of an agent. That of a workflow is in its last chunk.
func (p *printer) output(it *turn.Item, sp *speaker, v chunk.Value) {
	sp.outputAt = max(it.Rec.Ordinal, 1)
	switch {
	case sp.network:
	case sp.workflow:
		sp.output = append([]byte(nil), v...)
	default:
		p.begin(sp, "object-result")
		p.envelope(sp)
		p.f.Raw("object", v)
		p.end(sp)
	}
}

// notice writes a record about the state of the session. The state of the run of a sub-agent is not shown, nor is a suspension_marker.
func (p *printer) notice(it *turn.Item, sp *speaker) {
	if it.IsNotice() && (sp.agent.Own() || it.Rec.Type == chunk.TypeStatePatch) {
		p.sendNotice(sp, strings.ReplaceAll(string(it.Rec.Type), "_", "-"), it.WriteNotice)
	}
}

// carry writes a chunk that cannot be written as it is.
func (p *printer) carry(it *turn.Item, sp *speaker, whole []byte) {
	p.begin(sp, "data-mastra-chunk")
	p.f.Nest("data")
	p.f.Raw("chunk", whole)
	p.f.Number("sequence", int64(it.Rec.Seq))
	p.f.Close()
	p.f.Flag("transient", true)
	p.end(sp)
}

// custom writes an event of the application. A chunk of Mastra that a Translator kept is written as it was.
func (p *printer) custom(it *turn.Item, sp *speaker) {
	name, data := it.Text("eventName"), it.OrNull("data")
	if kind, ok := strings.CutPrefix(name, keptPrefix); ok && rawjson.Kind(data) == '{' {
		p.original(it, sp, kind, redact(data, chunk.MaxDepth))
		return
	}
	if name == toolProgress && p.toolOutput(sp, data) {
		return
	}
	p.begin(sp, "data-"+dataName(name)) // without an envelope, as those of Mastra's tools
	p.f.Raw("data", data)
	p.end(sp)
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
func (p *printer) toolOutput(sp *speaker, data chunk.Value) bool {
	o := dialect.Read(data)
	_, isID := o.Text("toolCallId")
	_, isName := o.Text("toolName")
	output, inner := o.Peek("output"), o.Object("output")
	if !isID || !isName || output == nil || strings.HasPrefix(inner.Or("type", ""), "data-") && inner.Peek("data") == nil {
		return false
	}
	p.begin(sp, "tool-output")
	p.runID(sp)
	p.f.Raw("from", []byte(`"USER"`))
	p.f.Nest("payload")
	p.f.Raw("output", redact(output, chunk.MaxDepth))
	p.f.Raw("toolCallId", o.Peek("toolCallId"))
	p.f.Raw("toolName", o.Peek("toolName"))
	p.shut(sp)
	return true
}

// original writes a chunk that a Translator kept. A chunk of a type that it translates was kept because it lacks members, and would stop clients, which expect
// them.
func (p *printer) original(it *turn.Item, sp *speaker, kind string, whole chunk.Value) {
	m := dialect.Read(whole)
	if typ, ok := m.Text("type"); !ok || typ != kind || !harmless(m, kind) {
		p.carry(it, sp, whole)
		return
	}
	payload := m.Object("payload")
	sp.network = sp.network || isOfNetwork(kind)
	switch id, _ := payload.Text("id"); kind {
	case "agent-execution-start", "workflow-execution-start":
		sp.executing, _ = payload.Text("runId")
		if sp.runs = eventOfAgent; kind != "agent-execution-start" {
			sp.runs = eventOfWorkflow
		}
	case workflowStart:
		sp.workflow = true
	case workflowStepStart:
		sp.pending = nil
	case workflowStepResult:
		sp.workStep = id
	case "workflow-step-suspended":
		sp.suspend(it)
	case "tool-call-suspended":
		call, _ := payload.Text("toolCallId")
		if c := p.turn.OpenCall(turn.CallKey{Agent: sp.agent.Session, ID: call}); c != nil {
			c.SuspendedAt = it.Rec.Ordinal
		} else {
			sp.suspend(it)
		}
	}
	if run, ok := m.Text("runId"); ok && (sp.workflow || sp.network) {
		sp.run = run // clients put the chunks of one run together
	}
	p.turn.ForgetHead()
	p.begin(sp, kind)
	for name, value := range rawjson.Members(whole) {
		if name.Is("payload") && kind == "background-task-suspended" {
			value = suspendPayload(payload, value)
		}
		if !name.Is("type") {
			p.f.Dst = append(append(append(append(p.f.Dst, ','), name...), ':'), value...)
		}
	}
	p.end(sp)
}

// suspend makes an agent wait for data of a user.
func (sp *speaker) suspend(it *turn.Item) { sp.agent.Suspended, sp.suspendedAt = true, it.Rec.Ordinal }

// suspendPayload returns the payload of background-task-suspended with the name that the product's clients read for what the task waits for, if it has the one of the
// product's documentation.
func suspendPayload(o *dialect.Object, payload chunk.Value) chunk.Value {
	data := o.Peek("suspendData")
	if data == nil || o.Peek("suspendPayload") != nil {
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

// harmless reports whether clients accept a chunk of a type at any place, which a Translator has kept: of those that it translates, only those that lack members. Clients take a member "type" of the payload for the type of a chunk that they do not know.
func harmless(o *dialect.Object, kind string) bool {
	if kind == "object" {
		return true
	}
	if _, translated := members[kind]; translated || dataName(kind) != kind || strings.HasPrefix(kind, "data-") {
		return false
	}
	payload := o.Object("payload")
	if kind == "tool-call-suspended" {
		_, isCall := payload.Text("toolCallId")
		return isCall
	}
	return payload != nil && (payload.Peek("type") == nil || strings.HasPrefix(kind, "background-task-") || kind == "response-metadata")
}
