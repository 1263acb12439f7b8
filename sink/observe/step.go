package observe

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/sink/row"
)

// stepState is what only a step has.
type stepState struct {
	calls []stepCall
	bytes int // of calls in the output
}

// stepCall is a call in the output of a step.
type stepCall struct{ id, name string }

// stepStart begins a step. The work on it has begun at StartedAt, before the record was written with the first output.
func (s *session) stepStart(b chunk.StepStart) {
	if s.isDue() {
		s.save(false)
	}
	s.endStep(row.Completed) // a writer that does not end steps
	s.takeRunText(s.edit(s.run))
	o := s.newStep().row
	if b.StartedAt != nil && *b.StartedAt > 0 {
		if at := time.UnixMilli(*b.StartedAt).UTC(); !at.After(o.StartTime) {
			o.StartTime = at
		}
	}
}

func (s *session) newStep() *item {
	run := s.at(s.run).row
	r, it := s.add(row.Step, "GENERATION", "step", "")
	it.step = &stepState{}
	it.row.ParentID, it.row.ParentSpanID, it.row.Model, it.row.Provider = run.ID, run.SpanID, run.Model, run.Provider
	s.step = r
	return it
}

// awaitsOutput reports whether the next output is the first one of the open step.
func (s *session) awaitsOutput() bool {
	it := s.at(s.step)
	return it != nil && it.row.CompletionStartTime == nil
}

// output notes the time of the first output of a step.
func (s *session) output() {
	if !s.awaitsOutput() {
		return
	}
	at, o := s.e.at, s.edit(s.step).row
	o.CompletionStartTime = &at
	if d := at.Sub(o.StartTime).Milliseconds(); d >= 0 {
		o.TimeToFirstTokenMS = &d
	}
}

// stepEnd ends the step. One without a start has no duration.
func (s *session) stepEnd(b chunk.StepEnd) {
	if s.step == 0 {
		s.newStep()
	}
	run, o := s.edit(s.run), s.edit(s.step).row
	o.FinishReason, o.RequestModel = textOf(b.FinishReason), textOf(b.RequestModel)
	if b.Model != nil {
		o.Model = textOf(b.Model)
	}
	if b.Provider != nil {
		o.Provider = textOf(b.Provider)
	}
	if o.Model != "" {
		o.Name = o.Model
	}
	run.run.steps++
	if o.FinishReason != "" {
		run.row.FinishReason = o.FinishReason
	}
	if b.Usage != nil {
		u := s.usageOf(o, *b.Usage)
		u.set(o)
		run.run.add(&u)
	}
	run.setSums()
	s.endStep(row.Completed)
	s.rewriteEnded(run)
}

// rewriteEnded writes the row of a run again that has ended before a record that changes its sums.
func (s *session) rewriteEnded(run *item) {
	if run.row.Status != row.Running {
		s.write(run)
	}
}

// endStep writes the row of the open step.
func (s *session) endStep(status row.Status) {
	if s.step == 0 {
		return
	}
	it := s.edit(s.step)
	s.step = 0
	s.end(it, status)
	text, of, ok := s.takeText()
	if ok {
		it.sign(uint64(of.size))
		run := s.edit(s.run)
		run.run.text = &value{json: quoted(text), size: of.size, cut: of.cut}
		run.sign(uint64(of.size))
	}
	if ok || len(it.step.calls) > 0 {
		it.out = &value{json: it.step.output(text), size: of.size, cut: of.cut}
		if len(it.out.json) > maxContent+maxContent/2 {
			it.out.json, it.out.cut = "", true
		}
	}
	s.finish(it)
}

// output returns the text and the calls of a step.
func (st *stepState) output(text []byte) row.JSON {
	o := rawjson.Begin(nil)
	if len(text) > 0 {
		o.Bytes("text", text)
	}
	o.List("calls", len(st.calls), func(dst []byte, i int) []byte {
		call := rawjson.Begin(dst)
		call.String("id", st.calls[i].id)
		call.String("name", st.calls[i].name)
		return call.End()
	})
	return row.JSON(o.End())
}
