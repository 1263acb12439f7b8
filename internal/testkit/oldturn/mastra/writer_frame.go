package mastra

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/oldturn/dialect"
)

// Chunks of a sub-agent are wrapped in the output of the call that started it, and those of its own sub-agents once more, as in
//
//	{"type":"tool-output","runId":"r1","from":"USER","payload":{"toolCallId":"c1","toolName":"agent-x","output":
//		{"type":"text-delta","runId":"child-1","from":"AGENT","payload":{"id":"block-1","text":"Hello"}}}}
//
// Those of the agents and workflows of a network are the payload of its chunks agent-execution-event-<type> and workflow-execution-event-<type>.

// open begins a chunk of an agent. The members that follow are those of the payload, until shut.
func (w *Writer) open(sp *speaker, kind string) {
	w.begin(sp, kind)
	w.envelope(sp)
	w.frames.Nest("payload")
}

// shut ends the chunk that open began.
func (w *Writer) shut(sp *speaker) {
	w.frames.Close()
	w.end(sp)
}

// begin begins a chunk of an agent, up to its type. The first chunk of a response is start.
func (w *Writer) begin(sp *speaker, kind string) {
	if w.isOwn(sp) && (kind == workflowStart || kind == routingStart) {
		w.started = true // the first chunk of a workflow, and of a network
	}
	w.ensureStart()
	w.bare(sp, kind)
}

// ensureStart writes start unless the response has begun.
func (w *Writer) ensureStart() {
	if !w.started {
		w.started = true
		w.start(&w.own)
	}
}

// bare is begin without the start.
func (w *Writer) bare(sp *speaker, kind string) {
	if w.isOwn(sp) {
		w.frames.Open(kind)
		return
	}
	w.wrap(sp, kind)
	w.frames.Dst = append(w.frames.Dst, `{"type":"`...)
	w.frames.Dst = append(w.frames.Dst, kind...)
	w.frames.Dst = append(w.frames.Dst, '"')
}

// wrap begins the chunk around one of a sub-agent: the output of the call that started it, or an event of the network that runs it.
func (w *Writer) wrap(sp *speaker, kind string) {
	f, parent := &w.frames, sp.parent
	if sp.event != "" {
		w.bare(parent, sp.event+kind)
		w.envelope(parent)
		f.Name("payload")
		return
	}
	w.bare(parent, "tool-output")
	f.Content("runId", parent.run)
	f.Raw("from", []byte(`"USER"`))
	f.Nest("payload")
	f.String("toolCallId", sp.callID)
	f.String("toolName", sp.toolName())
	f.Name("output")
}

// end ends the chunk that begin began.
func (w *Writer) end(sp *speaker) {
	for ; !w.isOwn(sp); sp = sp.parent {
		if w.frames.Close(); sp.event == "" {
			w.frames.Close()
		}
	}
	w.frames.Shut()
}

// envelope writes the members of a chunk around its payload.
func (w *Writer) envelope(sp *speaker) {
	w.frames.Content("runId", sp.run)
	from := `"AGENT"`
	switch {
	case sp.workflow:
		from = `"WORKFLOW"`
	case sp.network:
		from = `"NETWORK"`
	}
	w.frames.Raw("from", []byte(from))
}

// toolName returns the name of the tool that a sub-agent is for its parent.
func (sp *speaker) toolName() string {
	if sp.workflow {
		return workflowTool + sp.kind
	}
	return "agent-" + sp.kind
}

// start begins the output of an agent.
func (w *Writer) start(sp *speaker) {
	w.bare(sp, "start")
	w.envelope(sp)
	w.frames.Nest("payload")
	w.frames.String("id", sp.kind)
	if w.isOwn(sp) {
		w.frames.String("messageId", w.cfg.MessageID)
	}
	w.shut(sp)
}

// data begins a data part. The caller writes the member data, and then calls end. Data parts have no envelope, as those of Mastra's tools.
func (w *Writer) data(sp *speaker, name string) { w.begin(sp, "data-"+name) }

// sendNotice writes a data part that is not a part of the message. write writes its members.
func (w *Writer) sendNotice(sp *speaker, name string, write func(f *dialect.Frames)) {
	w.data(sp, name)
	w.frames.Nest("data")
	if !w.isOwn(sp) {
		w.frames.String("agentId", sp.session)
	}
	write(&w.frames)
	w.frames.Close()
	w.frames.Flag("transient", true)
	w.end(sp)
}

// escaped returns the content of the JSON string for s.
func escaped(s string) []byte { return rawjson.AppendEscaped(nil, s) }

// orNull returns v, null if it is missing.
func orNull(v chunk.Value) chunk.Value {
	if v == nil {
		return chunk.Value("null")
	}
	return v
}
