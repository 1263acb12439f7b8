package observe

import (
	"cmp"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	modeExecute = "execute"

	// Codes of the error with which a run fails.
	codeAbandoned = "run_abandoned" // it was silent for too long
	codeAborted   = "aborted"       // a user stopped it

	failed      = row.Failed
	interrupted = row.Interrupted
)

// run is a run of a session.
type run struct {
	row   row.Observation
	ended bool // or suspended
	step  *step
	text  text // of the last step with a text
	final *output
	marks []mark // of its steps and calls so far
}

// output is the final output of a run.
type output struct {
	shown chunk.Value
	size  int
}

func (o *output) bytes() int {
	if o == nil {
		return 0
	}
	return len(o.shown)
}

// mark is what a step or a call adds to the sums of its run.
type mark struct {
	ordinal     chunk.Ordinal // of its last record: the sums are without it if a cleanup removes that
	usage       *usage        // of a step
	call, fails bool
}

// runStarted begins a run, or continues the present one: with the same id, a takeover.
func (f *Folder) runStarted(s *session, b chunk.RunStarted) {
	same := s.run != nil && s.run.row.RunID == row.Text(b.RunID)
	opens := s.turn == 0 || !same && (b.Mode == modeExecute || len(b.Input) > 0)
	s.agentType = row.Text(f.c.AgentType)
	f.endStep(s, interrupted)
	if opens {
		s.turn++
		f.endOldCalls(s)
	}
	if same {
		r := s.run
		r.row.Attempts = new(*r.row.Attempts + 1)
		f.reopen(s)
		return
	}
	f.superseded(s)
	s.run = nil
	f.callerOf(s, b)
	if opens {
		s.openTurn(f.rec, b.RunID)
	}
	r := &run{row: f.newRow(s, row.Run, "AGENT", f.c.AgentType, "")}
	r.row.RunID, r.row.Mode = row.Text(b.RunID), row.Text(b.Mode)
	r.row.ParentID, r.row.ParentSpanID = s.parent.id, s.parent.spanID
	r.row.Attempts = new(int64(1))
	r.row.Model, r.row.Provider = textOf(b.Model), textOf(b.Provider)
	if c := f.content(); c != nil {
		if shown, ok := chunk.As[chunk.RunStarted](*c); ok && len(shown.Input) > 0 {
			f.setMessages(&r.row, shown)
		}
		r.row.Metadata = metadata(c.Extra)
	}
	s.run = r
	f.sums(r)
	f.reopen(s)
}

// setMessages sets the messages of the user as the input of a run.
func (f *Folder) setMessages(o *row.Observation, shown chunk.RunStarted) {
	list := messagesOf(f.rec.Data)
	size := len(list)
	if f.cfg.Show != nil {
		if rec, ok := f.cfg.Show(f.rec); ok {
			list = messagesOf(rec.Data)
		}
	}
	if len(shown.Input) > 0 {
		setInput(o, list, size)
	}
}

// messagesOf returns the member input of a run_started.
func messagesOf(data []byte) chunk.Value {
	var m chunk.Members
	if err := m.Read(data); err != nil {
		return nil
	}
	return m.Get("input")
}

// callerOf sets who requested the run: the parent and its user in the session of a sub-agent.
func (f *Folder) callerOf(s *session, b chunk.RunStarted) {
	if b.By != nil {
		s.owner = b.By
	}
	if b.Parent == nil {
		return
	}
	s.parent = parent{session: row.Text(b.Parent.SessionID), call: row.Text(b.Parent.CallID), depth: 1}
	p := f.t.sessions[b.Parent.SessionID]
	if p == nil {
		return
	}
	s.parent.depth = p.parent.depth + 1
	s.owner = cmp.Or(p.owner, s.owner)
	if p.turnID != "" {
		s.turnID, s.traceID = p.turnID, p.traceID
	}
	if c := p.calls[b.Parent.CallID]; c != nil && !c.ended() {
		s.parent.id, s.parent.spanID = c.row.ID, c.row.SpanID
	}
}

// openTurn begins a turn. Sub-agents have that of their parent.
func (s *session) openTurn(rec chunk.Record, runID string) {
	if s.parent.session == "" || s.turnID == "" {
		s.turnID, s.traceID = row.Text(runID), hashOf("trace", rec, "")
	}
}

// reopen makes the present run active, and writes its row.
func (f *Folder) reopen(s *session) {
	r := s.run
	r.ended = false
	r.row.Status, r.row.Level, r.row.StatusMessage, r.row.ErrorCode = row.Running, levelDefault, "", ""
	r.row.EndTime, r.row.DurationMS = nil, nil
	f.emit(&r.row)
}

// continued makes a run that waits active again.
func (f *Folder) continued(s *session) {
	if s.run != nil && s.run.ended && (s.run.row.Status == row.Suspended || s.run.row.Status == interrupted) {
		f.reopen(s)
	}
}

// endRun writes the row of the present run at its end.
func (f *Folder) endRun(s *session, status row.Status) {
	r := s.run
	r.ended = true
	f.end(&r.row, status)
	f.sums(r)
	switch {
	case r.final != nil:
		setOutput(&r.row, r.final.shown, r.final.size)
	case len(r.text.bytes) > 0:
		setOutput(&r.row, chunk.Value(quoted(string(r.text.bytes))), len(r.text.bytes))
		r.row.ContentTruncated = r.row.ContentTruncated || r.text.cut
	}
	f.emit(&r.row)
}

// paused suspends the run. Its open calls that are not of sub-agents wait for the client.
func (f *Folder) paused(s *session) {
	if s.run == nil || s.run.ended {
		return
	}
	f.endStep(s, interrupted)
	for _, c := range s.openCalls() {
		if c.turn == s.turn && c.hasInput && !c.delegated && !c.providerExecuted && !c.approved && !c.approval.open() {
			f.await(s, c, &c.client, row.ClientTool, time.Time{})
		}
	}
	f.endRun(s, row.Suspended)
}

func (f *Folder) superseded(s *session) {
	if s.run != nil && !s.run.ended {
		f.endRun(s, row.Superseded)
	}
}

func (f *Folder) runInterrupted(s *session) {
	if s.run != nil && !s.run.ended {
		f.endAll(s, interrupted)
	}
}

// endAll ends the run, and with it what is open in it.
func (f *Folder) endAll(s *session, status row.Status) {
	f.endStep(s, interrupted)
	for _, c := range s.openCalls() {
		f.endCall(c, interrupted)
	}
	f.endRun(s, status)
}

// canEnd reports whether the run has not ended: a suspended one has not.
func (s *session) canEnd() bool {
	return s.run != nil && (!s.run.ended || s.run.row.Status == row.Suspended)
}

func (f *Folder) streamEnd(s *session, b chunk.StreamEnd) {
	if !s.canEnd() {
		return
	}
	if b.FinalOutput != nil {
		s.run.final = &output{size: len(*b.FinalOutput)}
		if shown, ok := shownBody[chunk.StreamEnd](f); ok && shown.FinalOutput != nil {
			s.run.final.shown = *shown.FinalOutput
		}
	}
	f.endAll(s, row.Completed)
}

func (f *Folder) streamFailed(s *session, b chunk.StreamFailed) {
	if f.rec.IsDeletion() {
		f.deleted(s)
		return
	}
	if !s.canEnd() {
		return
	}
	status, code := failed, ""
	if b.ErrorDetail != nil {
		code = textOf(b.ErrorDetail.Code)
	}
	switch code {
	case codeAbandoned:
		status = row.Abandoned
	case codeAborted:
		status = interrupted
	}
	shown, _ := shownBody[chunk.StreamFailed](f)
	fail(&s.run.row, shown.Error, code)
	if status == interrupted {
		s.run.row.Level = levelDefault
	}
	f.endAll(s, status)
}

// deleted writes that the rows of the session are erased, and forgets it.
func (f *Folder) deleted(s *session) {
	f.b.Gaps = append(f.b.Gaps, row.Gap{Place: f.place, Reason: row.Deleted, ToSeq: new(int64(f.rec.Seq))})
	s.reset()
	s.last, s.epoch = f.rec.Ordinal, f.rec.Epoch
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return row.Text(*s)
}
