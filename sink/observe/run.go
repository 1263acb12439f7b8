package observe

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	modeExecute = "execute"

	// Codes of the error with which a run fails.
	codeAbandoned = "run_abandoned" // it was silent for too long
	codeAborted   = "aborted"       // a user stopped it
)

// runState is what only a run has.
type runState struct {
	interrupted bool   // it may be resumed
	text        *value // the last one
	final       *value // output
	sums        usage
	mixed       bool // costs of several currencies have no sum
	steps       int64
	calls       int64 // that ended in this run
	failedCalls int64
}

// runStarted begins a run, or continues the present one: with the same id, a takeover.
func (s *session) runStarted(b chunk.RunStarted) {
	id := row.Text(b.RunID)
	same := s.turn > 0 && s.at(s.run).row.RunID == id
	opens := s.turn == 0 || !same && (b.Mode == modeExecute || s.e.flag)
	s.endStep(row.Interrupted)
	if opens {
		if s.turn > 0 {
			s.takeRunText(s.own(s.run)) // it is in entries that are dropped
		}
		s.save(true)
	}
	if same {
		s.phase = active
		it := s.edit(s.run)
		it.row.Attempts = new(*it.row.Attempts + 1)
		s.continueRun(it)
		return
	}
	s.supersede()
	s.retire(s.run)
	if opens {
		s.incomplete = s.incomplete && b.Mode != modeExecute && !s.e.flag
		s.openTurn()
	}
	s.newRun(id, b, opens)
	it := s.at(s.run)
	it.row.Mode, it.row.Model, it.row.Provider = row.Text(b.Mode), textOf(b.Model), textOf(b.Provider)
	it.in = s.e.value
	s.write(it)
}

// importRun begins a run without a run_started: of an import, or the log has lost it.
func (s *session) importRun() {
	s.save(true)
	s.openTurn()
	meta := s.e.meta
	s.e.meta = ""
	s.newRun("", chunk.RunStarted{}, true)
	s.e.meta = meta
	s.write(s.at(s.run))
}

// openTurn begins a turn. The calls of the turn before the last one end with it: no record completes them.
func (s *session) openTurn() {
	s.turn++
	s.interruptCalls(s.turn - 2)
	s.trim()
}

// newRun adds a run. That of a sub-agent has the turn and the user of the parent.
func (s *session) newRun(id string, b chunk.RunStarted, opens bool) {
	e, c := s.e, s.e.caller
	if b.By != nil || opens {
		s.owner = b.By
	}
	if c != nil && c.owner != nil {
		s.owner = c.owner
	}
	changes := b.Parent != nil && (!c.parent.of(s.parent) || opens && c.parent.id != "") // else the call is the same, and may have ended before the sub-agent
	if changes {
		s.parent = c.parent
	}
	switch {
	case changes && c.traceID != "", opens && c != nil && c.traceID != "" && s.parent.session == "":
		s.turnID, s.traceID = c.turnID, c.traceID
	case opens && (s.parent.session == "" || s.traceID == ""):
		s.turnID, s.traceID = id, idOf(s.key, "trace", e, "")
	}
	s.agentType, s.phase, s.run = e.agentType, active, 0
	s.section = section{from: e.ordinal}
	r, it := s.add(row.Run, "AGENT", e.agentType, "")
	it.run = &runState{}
	it.row.RunID, it.row.Attempts = id, new(int64(1))
	it.row.ParentID, it.row.ParentSpanID = s.parent.id, s.parent.spanID
	it.setSums()
	s.run = r
}

// applyRun applies the records of the course of a run, as projector/fold does.
func (s *session) applyRun(body chunk.Body) {
	it := s.at(s.run)
	switch b := body.(type) {
	case chunk.StreamPaused:
		s.pause()
	case chunk.StreamActive:
		if s.phase == paused {
			s.resume()
		}
	case chunk.RunResumed:
		if s.phase == paused && it.run.interrupted {
			s.resume()
		}
	case chunk.RunInterrupted:
		if s.phase == active {
			s.phase = paused
			s.edit(s.run).run.interrupted = true
			s.endRun(row.Interrupted)
		}
	case chunk.ExecutorSuperseded:
		s.supersede()
	case chunk.StreamEnd:
		s.streamEnd()
	case chunk.StreamFailed:
		s.streamFailed(b)
	}
}

// continueRun makes the present run active, and writes its row.
func (s *session) continueRun(it *item) {
	it.run.interrupted = false
	it.row.Status, it.row.Level, it.row.StatusMessage, it.row.ErrorCode = row.Running, levelDefault, "", ""
	it.row.EndTime, it.row.DurationMS, it.out = nil, nil, nil
	s.write(it)
}

func (s *session) resume() {
	s.phase = active
	s.continueRun(s.edit(s.run))
}

// supersede ends the run because another one, or another executor, takes its place. Its calls may still end.
func (s *session) supersede() {
	if it := s.at(s.run); it != nil && it.row.Status == row.Running {
		s.closeRun(row.Superseded)
	}
}

// pause suspends the run. Its open calls that are not of sub-agents wait for the client.
func (s *session) pause() {
	if s.phase == closed {
		return
	}
	s.phase = paused
	s.endStep(row.Interrupted)
	s.awaitClients()
	if s.at(s.run).row.Status == row.Running {
		s.closeRun(row.Suspended)
	}
}

func (s *session) streamEnd() {
	if s.phase == closed {
		return
	}
	it := s.edit(s.run)
	if s.e.value != nil {
		it.run.final = s.e.value
	}
	if it.run.interrupted { // it may be resumed
		s.phase = paused
		s.endRun(row.Interrupted)
		return
	}
	s.phase = closed
	s.endRun(row.Completed)
}

func (s *session) streamFailed(b chunk.StreamFailed) {
	if s.phase == closed {
		return
	}
	s.phase = closed
	status, code := row.Failed, ""
	if b.ErrorDetail != nil {
		code = orEmpty(b.ErrorDetail.Code)
	}
	switch code {
	case codeAbandoned:
		status = row.Abandoned
	case codeAborted:
		status = row.Interrupted
	}
	it := s.edit(s.run)
	fail(it.row, s.e.text, code)
	if status == row.Interrupted {
		it.row.Level = levelDefault
	}
	s.endRun(status)
}

// endRun ends the run, and with it what is open in its turn.
func (s *session) endRun(status row.Status) {
	s.endStep(row.Interrupted)
	s.interruptCalls(s.turn)
	s.closeRun(status)
}

// closeRun writes the row of the run at its end.
func (s *session) closeRun(status row.Status) {
	it := s.edit(s.run)
	s.takeRunText(it)
	s.end(it, status)
	if it.out = it.run.final; it.out == nil {
		it.out = it.run.text
	}
	s.write(it)
}

// takeRunText makes the text since the last step the text of the run.
func (s *session) takeRunText(it *item) {
	if text, of, ok := s.takeText(); ok {
		it.run.text = &value{json: quoted(text), size: of.size, cut: of.cut}
		it.sign(uint64(of.size))
	}
}
