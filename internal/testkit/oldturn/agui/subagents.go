package agui

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// child is the state of a sub-agent according to the records of its parent.
type child struct {
	running   bool
	announced bool // SUBAGENT_STARTED was written in this run
	starts    int  // how often it was started
	by        *agentState
	call      string // id of the call that started it
	shown     []byte // the same in the messages, as the content of a JSON string
	name      []byte // its definition, as the content of a JSON string
	at        chunk.Ordinal
}

// subAgent returns the state of a sub-agent, by session.
func (w *Writer) subAgent(session string) *agentState {
	if a := w.agents[session]; a != nil {
		return a
	}
	if w.agents == nil {
		w.agents = make(map[string]*agentState)
	}
	a := &agentState{agent: session, tag: escaped(session), carrier: noCarrier}
	w.agents[session] = a
	w.order = append(w.order, a)
	return a
}

// isDropped reports whether a record of a sub-agent is of a type that is not written.
func (w *Writer) isDropped(rec *chunk.Record) bool {
	if w.opt.SubAgents || rec.Type.Control() {
		return false
	}
	switch rec.Type {
	case chunk.TypeCustom, chunk.TypeSubagentStart, chunk.TypeSubagentEnd, chunk.TypeError, chunk.TypeToolApprovalRequest, chunk.TypeToolStart,
		chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError, chunk.TypeToolApprovalResponse:
		return false
	}
	return true
}

// isShown reports whether a record of a sub-agent that isDropped lets through is written.
func (w *Writer) isShown(it *item) bool {
	if w.opt.SubAgents || it.by.own() || it.kind != 0 {
		return true
	}
	switch it.rec.Type {
	case chunk.TypeToolApprovalRequest:
		return !it.is("isAutomatic")
	case chunk.TypeToolStart:
		name := it.Text("toolName")
		return w.calls[callKey{it.by.agent, it.Text("toolCallId")}] != nil || w.opt.ClientTool != nil && w.opt.ClientTool(name)
	case chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError, chunk.TypeToolApprovalResponse:
		return w.calls[callKey{it.by.agent, it.Text("toolCallId")}] != nil
	}
	return true
}

func (w *Writer) subagentStart(it *item) {
	w.close(it.by)
	session := it.Text("subSessionId")
	a := w.subAgent(session)
	if a.child.running || a == it.by || session == w.session.ID {
		return // a repeated start
	}
	it.by.openStep(it.rec)
	w.startChild(it, a)
}

func (w *Writer) startChild(it *item, a *agentState) {
	w.closeStepName(a)
	a.closeStep() // a message and a step have one tag
	callID := it.Text("callId")
	a.child = child{
		running: true, starts: a.child.starts + 1, by: it.by, call: callID, at: it.rec.Ordinal,
		shown: escaped(w.shownCallID(callKey{it.by.agent, callID})), name: bytes.Clone(it.content("subAgentType")),
	}
	// A client rejects an id that was used in this run: the sub-agent was started again.
	if a.tag = escaped(a.agent); a.child.starts > 1 {
		a.tag = strconv.AppendInt(append(a.tag, '_'), int64(a.child.starts), 10)
	}
	w.announce(a)
}

// shownCallID returns the id in the messages of the latest call with a key.
func (w *Writer) shownCallID(key callKey) string {
	if c := w.calls[key]; c != nil {
		return c.id
	}
	return key.shownID(max(1, w.reused[key]))
}

// announce writes the start of a sub-agent.
func (w *Writer) announce(a *agentState) {
	a.child.announced = true
	w.out.Open("SUBAGENT_STARTED")
	w.out.Content("subagentRunId", a.tag)
	w.out.Content("name", a.child.name)
	if by := a.child.by; !by.own() && by.child.announced {
		w.out.Content("parentSubagentRunId", by.tag)
	}
	if a.child.call != "" {
		w.out.Content("parentToolCallId", a.child.shown)
	}
	w.out.Shut()
}

func (w *Writer) subagentEnd(it *item) {
	session := it.Text("subSessionId")
	a := w.subAgent(session)
	if a == it.by || session == w.session.ID {
		return
	}
	if !a.child.running {
		it.by.openStep(it.rec) // the snapshot has an entry for the end alone
		w.startChild(it, a)
	}
	w.closeStepName(a)
	a.child.running = false
	if failure := rawjson.Get(it.Get("result"), "error"); isObject(it.Get("result")) && failure != nil && !chunk.Value(failure).IsNull() {
		w.out.Open("SUBAGENT_ERROR")
		w.out.Content("subagentRunId", a.tag)
		if failure[0] == '"' {
			w.out.Raw("message", failure)
		} else {
			w.out.Bytes("message", failure)
		}
		w.out.Shut()
		return
	}
	w.out.Open("SUBAGENT_FINISHED")
	w.out.Content("subagentRunId", a.tag)
	if result := it.Get("result"); !result.IsNull() {
		w.out.Raw("result", result)
	}
	w.outcomeOf("success")
	w.out.Shut()
}

// suspendChildren ends the sub-agents that are running for the client, because the run ends for it: a client rejects an end of the run before them.
func (w *Writer) suspendChildren() {
	for _, a := range slices.Backward(w.order) {
		if a.child.running && a.child.announced {
			w.suspend(a)
		}
	}
}

func (w *Writer) suspend(a *agentState) {
	w.closeStepName(a)
	a.child.announced = false
	w.out.Open("SUBAGENT_FINISHED")
	w.out.Content("subagentRunId", a.tag)
	w.out.Nest("outcome")
	w.out.String("type", "suspended")
	var ids [][]byte
	for _, c := range w.openCalls {
		if c.by == a && c.approvalID != nil {
			ids = append(ids, c.approvalID)
		}
	}
	w.out.List("interruptIds", len(ids), func(dst []byte, i int) []byte { return append(append(append(dst, '"'), ids[i]...), '"') })
	w.out.Close()
	w.out.Shut()
}
