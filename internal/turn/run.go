package turn

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// CodeAborted is the code in the detail of a stream_failed of a run that a user stopped permanently.
const CodeAborted = "aborted"

// modeExecute is the mode of a run that opens a turn; a run of another mode continues the open turn, unless it has input.
const modeExecute = "execute"

// course is where the runs of the session's agent are.
type course struct {
	turn    bool   // a record of the session was handled
	run     []byte // id of the latest run, as the content of a JSON string
	outcome outcome
}

// opensTurn reports whether a record is a run that begins another turn.
func (c *course) opensTurn(it *Item) bool {
	return it.Rec.Type == chunk.TypeRunStarted && c.turn && !bytes.Equal(c.run, it.Content("runId")) &&
		(it.Text("mode") == modeExecute || !isEmpty(it.Get("input")))
}

// resumes follows a record that resumes the turn, and reports whether it is one.
func (c *course) resumes(it *Item) (resumes bool) {
	switch it.Rec.Type {
	case chunk.TypeRunStarted:
		resumes = !c.opensTurn(it)
	case chunk.TypeStreamActive:
		resumes = c.outcome == paused
	case chunk.TypeRunResumed:
		resumes = c.outcome == interrupted
	}
	if resumes {
		c.outcome = running
	}
	return resumes
}

// resumesParent reports whether a record of a sub-agent resumes a turn that waits: users may have answered the sub-agent.
func (c *course) resumesParent(it *Item) bool {
	return it.Rec.Type == chunk.TypeRunStarted && c.outcome == paused
}

// stop follows a record that stops the turn, and reports whether it does.
func (c *course) stop(it *Item) bool {
	to, latest := paused, running
	switch it.Rec.Type {
	case chunk.TypeStreamPaused:
	case chunk.TypeRunInterrupted:
		to = interrupted
	case chunk.TypeError:
		if to = failed; it.Is("recoverable") {
			return false
		}
	case chunk.TypeStreamEnd:
		to, latest = finished, paused
	case chunk.TypeStreamFailed:
		to, latest = failed, interrupted
	default:
		return false
	}
	if c.outcome > latest {
		return false
	}
	c.outcome = to
	return true
}

// isResumedBy reports whether the record resumes a turn that waits or was stopped.
func (m *Machine) isResumedBy(it *Item) (resumes bool) {
	if !it.By.Own() {
		resumes = m.resumesParent(it)
		it.By.Suspended = it.By.Suspended && !resumes
		return resumes
	}
	if resumes = m.resumes(it); resumes {
		for _, a := range m.allAgents() {
			a.Suspended = false
		}
	}
	return resumes
}

// isEmpty reports whether an array has no elements.
func isEmpty(array chunk.Value) bool {
	return len(array) < 2 || len(bytes.TrimSpace(array[1:len(array)-1])) == 0
}

// control handles a control record. That of a sub-agent ends only the output of the sub-agent.
func (m *Machine) control(it *Item) {
	if !it.By.Own() {
		m.agentControl(it)
		return
	}
	switch it.Rec.Type {
	case chunk.TypeRunStarted:
		m.runStarted(it)
	case chunk.TypeStreamActive:
		m.own.Paused = false
		if !m.idle {
			m.respond(it)
		}
	case chunk.TypeStreamPaused:
		m.streamPaused(it)
	case chunk.TypeStreamEnd:
		m.streamEnd(it)
	case chunk.TypeStreamFailed:
		m.streamFailed(it)
	case chunk.TypeTruncated:
		m.truncated(it)
	}
}

func (m *Machine) runStarted(it *Item) {
	if m.opensTurn(it) {
		if m.open {
			m.out.Begin(m.out.Dst, chunk.Cursor{}) // the record is of the next turn, whose Machine has its cursor
			m.endResponse(&Event{Kind: End, Reason: Superseded})
		}
		m.over = true
		return
	}
	open := m.open
	if open { // another worker has taken the run over
		m.closeSteps(it)
	}
	m.run = bytes.Clone(it.Content("runId"))
	m.own.Paused = false
	m.own.First = 0
	m.respond(it)
	m.emit(&Event{Kind: Run, Item: it, Open: open})
}

// streamPaused ends the response if the run waits for the client, which sends nothing while it reads a response. A run that waits for sub-agents alone continues
// without the client, which would not get the rest after an end of the response.
func (m *Machine) streamPaused(it *Item) {
	if m.outcome == finished || m.outcome == failed {
		return
	}
	m.stop(it)
	m.own.Paused = true
	m.closeSteps(it)
	m.own.First = 0
	switch {
	case !m.open || m.idle:
	case m.delegates() && !m.asks():
		m.emit(&Event{Kind: Wait, Item: it})
	default:
		m.endResponse(&Event{Kind: Pause, Item: it})
	}
}

// asks reports whether the turn waits for the client.
func (m *Machine) asks() bool {
	return slices.ContainsFunc(m.calls.list(), m.asksAbout) || m.Suspended()
}

// Suspended reports whether an agent waits for data of a user.
func (m *Machine) Suspended() bool {
	return m.own.Suspended || slices.ContainsFunc(m.order, func(a *Agent) bool { return a.Suspended })
}

func (m *Machine) asksAbout(c *Call) bool {
	if c.ApprovalID != nil || c.SuspendedAt > 0 {
		return true
	}
	if m.rules.Asks != nil {
		return m.rules.Asks(c)
	}
	return m.WaitsForClient(c)
}

// WaitsForClient reports whether the client runs a call: its agent waits, and nothing else runs it.
func (m *Machine) WaitsForClient(c *Call) bool {
	return c.Sent && !c.Approved && !c.Delegated && c.By.Paused && m.runs[c.Key] == 0
}

// delegates reports whether a sub-agent of the session's agent runs, or will: workers start sub-agents after the pause.
func (m *Machine) delegates() bool {
	return slices.ContainsFunc(m.order, func(a *Agent) bool { return a.Running && a.Parent.Own() }) ||
		slices.ContainsFunc(m.calls.list(), func(c *Call) bool { return c.Delegated })
}

// agentControl ends the output of a sub-agent. A sub-agent that waits for users, while the session's own agent waits for it, ends the response.
func (m *Machine) agentControl(it *Item) {
	a := it.By
	m.closeBlock(a, it)
	a.First = 0
	switch it.Rec.Type {
	case chunk.TypeRunStarted:
		a.Paused = false
		m.works[a] = true
		m.closeStep(a, it)
		if !m.idle {
			m.respond(it)
		}
		m.emit(&Event{Kind: AgentRun, Item: it, Quiet: m.idle})
	case chunk.TypeStreamActive:
		a.Paused = false
		m.works[a] = true
	case chunk.TypeStreamEnd, chunk.TypeStreamFailed:
		worked := m.works[a]
		m.closeStep(a, it)
		a.Paused = false
		delete(m.works, a)
		kind := AgentEnd
		if it.Rec.Type == chunk.TypeStreamFailed {
			kind = AgentFail
		}
		if m.open && !m.idle {
			m.emit(&Event{Kind: kind, Item: it})
		}
		if worked && len(m.works) == 0 && m.outcome == paused && m.open && !m.idle && m.asks() {
			m.endResponse(&Event{Kind: Pause, Item: it}) // the run continues only when the user has answered, too
		}
		a.release()
	case chunk.TypeTruncated:
		if taken := removedBy(it); taken != nil {
			m.calls.removeWaits(a, taken)
			m.emit(&Event{Kind: AgentRemoved, Item: it, Taken: taken, Quiet: !m.open || m.idle})
		}
	case chunk.TypeStreamPaused:
		a.Paused = true
		delete(m.works, a)
		if m.open && m.outcome == paused && m.asks() {
			m.endResponse(&Event{Kind: Pause, Item: it})
		}
	}
}

func (m *Machine) streamEnd(it *Item) {
	if !m.stop(it) {
		return
	}
	m.own.First = 0
	if m.wantsEnd() {
		m.respond(it)
		if v := it.Get("finalOutput"); v != nil {
			m.emit(&Event{Kind: Final, Item: it, Value: v})
		}
		m.endResponse(&Event{Kind: End, Item: it, Reason: Success, Value: it.Get("finalOutput")})
	}
}

// wantsEnd reports whether a client gets the end of the turn: it has a response, or wants another one.
func (m *Machine) wantsEnd() bool {
	return !m.idle || m.rules.EndAgain || (m.again || m.open) && !m.ahead.isResumed()
}

func (m *Machine) streamFailed(it *Item) {
	if !m.stop(it) {
		return
	}
	m.own.First = 0
	if !m.wantsEnd() {
		return
	}
	m.respond(it)
	code := it.Content("errorDetail", "code")
	if string(code) == CodeAborted {
		m.endResponse(&Event{Kind: End, Item: it, Reason: Aborted})
		return
	}
	m.endResponse(&Event{Kind: Fail, Item: it, Failure: it.Get("error"), Code: it.Get("errorDetail", "code")})
}

// reported handles an error that an agent reports.
func (m *Machine) reported(it *Item) {
	m.closeBlock(it.By, it)
	code := it.Get("code")
	if code == nil {
		code = it.Get("errorDetail", "code")
	}
	e := &Event{Kind: Error, Item: it, Failure: it.Get("error"), Code: code}
	if !m.rules.ErrorEnds || !it.By.Own() || it.Is("recoverable") {
		m.emit(e)
		return
	}
	if m.stop(it) {
		e.Kind = Fail
		m.endResponse(e)
	}
}

// interrupted ends the response: the run was stopped. It may be resumed.
func (m *Machine) interrupted(it *Item) {
	m.closeBlock(it.By, it)
	if !it.By.Own() || !m.stop(it) {
		return
	}
	m.emit(&Event{Kind: Notice, Item: it})
	m.endResponse(&Event{Kind: End, Item: it, Reason: Interrupted})
}

// endResponse ends everything that is open, and the response: clients refuse an end of the response before that.
func (m *Machine) endResponse(e *Event) {
	if m.rules.CloseAll {
		m.closeTexts(e.Item)
	}
	for _, a := range m.order {
		m.closeStep(a, e.Item)
	}
	m.closeStep(&m.own, e.Item)
	for _, c := range m.calls.list() {
		c.waited = true
	}
	e.Quiet = m.ahead.isResumed() && e.Reason != Superseded
	m.emit(e)
	m.open, m.idle = m.open && e.Quiet, true
}

// closeStep ends the open text and the open step of an agent. it may be nil.
func (m *Machine) closeStep(a *Agent, it *Item) {
	m.closeBlock(a, it)
	if a.StepOpen {
		m.emit(&Event{Kind: StepClose, Item: it, Agent: a})
		a.StepOpen, a.StepID = false, nil
	}
}

// closeSteps ends the open text and step of the session's agent, and the texts of the others if the dialect wants that.
func (m *Machine) closeSteps(it *Item) {
	m.closeTexts(it)
	m.closeStep(&m.own, it)
}

func (m *Machine) closeTexts(it *Item) {
	m.closeBlock(&m.own, it)
	if m.rules.CloseAll {
		for _, a := range m.order {
			m.closeBlock(a, it)
		}
	}
}

func (m *Machine) stepStart(it *Item) {
	a := it.By
	if a.Own() {
		m.closeTexts(it)
	}
	m.closeStep(a, it)
	a.First = 0
	a.StepOpen, a.StepNo = true, a.Step
	if id := it.Content("stepId"); len(id) > 0 {
		a.StepID = bytes.Clone(id)
	}
	m.emit(&Event{Kind: StepOpen, Item: it})
}

func (m *Machine) stepEnd(it *Item) {
	a := it.By
	if a.Own() {
		m.closeTexts(it)
		m.calls.kept = [...]map[string]any{nil, m.calls.kept[0]}
	}
	m.closeBlock(a, it)
	a.First = 0
	m.emit(&Event{Kind: StepEnd, Item: it})
	a.StepOpen, a.StepID = false, nil
}
