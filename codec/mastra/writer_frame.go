package mastra

import (
	"cmp"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// Chunks of a sub-agent are wrapped in the output of the call that started it, and those of its own sub-agents once more, as in
//
//	{"type":"tool-output","runId":"r1","from":"USER","payload":{"toolCallId":"c1","toolName":"agent-x","output":
//		{"type":"text-delta","runId":"child-1","from":"AGENT","payload":{"id":"block-1","text":"Hello"}}}}
//
// Those of the agents and workflows of a network are the payload of its chunks agent-execution-event-<type> and workflow-execution-event-<type>.

// open begins a chunk of an agent. The members that follow are those of the payload, until shut.
func (p *printer) open(sp *speaker, kind string) {
	p.begin(sp, kind)
	p.envelope(sp)
	p.f.Nest("payload")
}

// shut ends the chunk that open began.
func (p *printer) shut(sp *speaker) {
	p.f.Close()
	p.end(sp)
}

// begin begins a chunk of an agent, up to its type. The first chunk of a response is start.
func (p *printer) begin(sp *speaker, kind string) {
	p.started = p.started || sp.agent.Own() && (kind == workflowStart || kind == routingStart) // the first chunk of a workflow, and of a network
	p.ensureStart()
	p.bare(sp, kind)
}

// ensureStart writes start unless the response has begun.
func (p *printer) ensureStart() {
	if !p.started {
		p.started = true
		p.start(p.own)
	}
}

// bare is begin without the start. A chunk of a sub-agent is in one of its parent: the output of the call that started it, or an event of the network that runs it.
func (p *printer) bare(sp *speaker, kind string) {
	f, parent := p.f, sp.parent
	switch {
	case sp.agent.Own():
		f.Open(kind)
		return
	case sp.event != 0:
		p.bare(parent, networkEvents[sp.event]+kind)
		p.envelope(parent)
		f.Name("payload")
	default:
		tool := "agent-"
		if sp.workflow {
			tool = workflowTool
		}
		p.bare(parent, "tool-output")
		p.runID(parent)
		f.Raw("from", []byte(`"USER"`))
		f.Nest("payload")
		f.String("toolCallId", sp.callID)
		f.String("toolName", tool+sp.kind)
		f.Name("output")
	}
	f.Dst = append(append(append(f.Dst, `{"type":"`...), kind...), '"')
}

// end ends the chunk that begin began.
func (p *printer) end(sp *speaker) {
	for ; !sp.agent.Own(); sp = sp.parent {
		if p.f.Close(); sp.event == 0 {
			p.f.Close()
		}
	}
	p.f.Shut()
}

// envelope writes the members of a chunk around its payload.
func (p *printer) envelope(sp *speaker) {
	p.runID(sp)
	from := `"AGENT"`
	switch {
	case sp.workflow:
		from = `"WORKFLOW"`
	case sp.network:
		from = `"NETWORK"`
	}
	p.f.Raw("from", []byte(from))
}

// runID writes the id of the run of an agent. That of a sub-agent is its session, unless chunks of its own have another one: clients put the chunks of one run
// together, and its runs are one delegation.
func (p *printer) runID(sp *speaker) {
	p.f.String("runId", cmp.Or(sp.run, sp.agent.Session))
}

// start begins the output of an agent. The response has begun.
func (p *printer) start(sp *speaker) {
	p.open(sp, "start")
	p.f.String("id", sp.kind)
	if sp.agent.Own() {
		p.f.String("messageId", p.message)
	}
	p.shut(sp)
}

// sendNotice writes a data part that is not a part of the message. write writes its members.
func (p *printer) sendNotice(sp *speaker, name string, write func(o *rawjson.Object)) {
	p.begin(sp, "data-"+name)
	p.f.Nest("data")
	p.f.Text("agentId", sp.agent.Session)
	write(&p.f.Object)
	p.f.Close()
	p.f.Flag("transient", true)
	p.end(sp)
}
