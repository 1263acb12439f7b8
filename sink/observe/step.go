package observe

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// step is the open step of a run.
type step struct {
	row   row.Observation
	text  text
	calls []stepCall
}

// stepCall is a call in the output of a step.
type stepCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// usage are the tokens and the cost of a step; nil is unknown.
type usage struct {
	input, output, cached, written, reasoning *int64
	cost                                      *row.Money
	currency, source                          string
}

// stepStart begins a step. The work on it has begun at StartedAt, before the record was written with the first output.
func (f *Folder) stepStart(s *session, b chunk.StepStart) {
	if s.run == nil || s.run.ended {
		return
	}
	f.endStep(s, row.Completed) // a writer that does not end steps
	st := &step{row: f.newStep(s)}
	if b.StartedAt != nil {
		if at := time.UnixMilli(*b.StartedAt).UTC(); *b.StartedAt > 0 && !at.After(st.row.StartTime) {
			st.row.StartTime = at
		}
	}
	s.run.step = st
}

func (f *Folder) newStep(s *session) row.Observation {
	o := f.newRow(s, row.Step, "GENERATION", "step", "")
	o.ParentID, o.ParentSpanID = s.run.row.ID, s.run.row.SpanID
	o.Model, o.Provider = s.run.row.Model, s.run.row.Provider
	if c := f.content(); c != nil {
		o.Metadata = metadata(c.Extra)
	}
	return o
}

// output notes the time of the first output of a step.
func (f *Folder) output(s *session) {
	if s.run == nil || s.run.step == nil || s.run.step.row.CompletionStartTime != nil {
		return
	}
	o, at := &s.run.step.row, f.time()
	o.CompletionStartTime = &at
	if d := at.Sub(o.StartTime).Milliseconds(); d >= 0 {
		o.TimeToFirstTokenMS = &d
	}
}

// addText adds a piece of text to the output of the step.
func (f *Folder) addText(s *session, piece string) {
	switch {
	case s.run == nil:
	case s.run.step != nil:
		s.run.step.text.add(piece)
	default:
		s.run.text.add(piece)
	}
}

// stepEnd ends the step. One without a start has no duration.
func (f *Folder) stepEnd(s *session, b chunk.StepEnd) {
	if s.run == nil || s.run.ended {
		return
	}
	if s.run.step == nil {
		s.run.step = &step{row: f.newStep(s)}
	}
	o := &s.run.step.row
	o.FinishReason = textOf(b.FinishReason)
	if b.Model != nil {
		o.Model = textOf(b.Model)
	}
	o.RequestModel = textOf(b.RequestModel)
	if b.Provider != nil {
		o.Provider = textOf(b.Provider)
	}
	if o.Model != "" {
		o.Name = o.Model
	}
	var u *usage
	if b.Usage != nil {
		u = f.usageOf(o, *b.Usage)
		u.set(o)
	}
	f.endStep(s, row.Completed)
	if u == nil {
		u = &usage{}
	}
	s.run.marks = append(s.run.marks, mark{ordinal: f.rec.Ordinal, usage: u})
}

// endStep writes the row of the open step.
func (f *Folder) endStep(s *session, status row.Status) {
	if s.run == nil || s.run.step == nil {
		return
	}
	st := s.run.step
	s.run.step = nil
	f.end(&st.row, status)
	if len(st.text.bytes) > 0 {
		s.run.text = st.text
	}
	if len(st.text.bytes)+len(st.calls) > 0 {
		out := struct {
			Text  string     `json:"text,omitempty"`
			Calls []stepCall `json:"calls,omitempty"`
		}{string(st.text.bytes), st.calls}
		if value, err := json.Marshal(out); err == nil {
			setOutput(&st.row, value, len(value))
		}
	}
	st.row.ContentTruncated = st.row.ContentTruncated || st.text.cut
	f.emit(&st.row)
}

// usageOf returns the tokens and the cost of a step. A cost that the provider has reported wins over that of the list.
func (f *Folder) usageOf(o *row.Observation, u chunk.Usage) *usage {
	out := &usage{
		input: tokens(&u.InputTokens), output: tokens(&u.OutputTokens), cached: tokens(u.CachedTokens), written: tokens(u.CacheWriteTokens),
		reasoning: tokens(u.ReasoningTokens),
	}
	if u.Cost != nil {
		if m, ok := row.ParseMoney(*u.Cost); ok {
			out.cost, out.currency, out.source = &m, "USD", "reported"
			if u.Currency != nil {
				out.currency = textOf(u.Currency)
			}
			return out
		}
	}
	if f.cfg.Price != nil && o.Model != "" {
		m, currency, ok := f.cfg.Price(Priced{
			Model: o.Model, Provider: o.Provider, At: f.time(), Input: *out.input, Output: *out.output, Cached: orZero(out.cached), Written: orZero(out.written),
		})
		if ok {
			out.cost, out.currency, out.source = &m, currency, "list"
		}
	}
	return out
}

func (u *usage) set(o *row.Observation) {
	o.InputTokens, o.OutputTokens, o.CachedTokens, o.CacheWriteTokens, o.ReasoningTokens = u.input, u.output, u.cached, u.written, u.reasoning
	o.Cost, o.Currency, o.CostSource = u.cost, u.currency, u.source
}

// tokens returns a number of tokens: not negative, without a fraction, at most what JavaScript represents exactly; nil for none.
func tokens(n *chunk.Number) *int64 {
	if n == nil {
		return nil
	}
	const most = 1<<53 - 1
	v, err := strconv.ParseFloat(string(*n), 64)
	if err != nil && !math.IsInf(v, 0) || math.IsNaN(v) {
		v = 0
	}
	return new(int64(min(max(v, 0), most)))
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// sums sets what the steps and calls of a run add up to.
func (f *Folder) sums(r *run) {
	var sum usage
	var steps, calls, fails int64
	mixed := false
	for _, m := range r.marks {
		if m.call {
			calls++
			if m.fails {
				fails++
			}
			continue
		}
		steps++
		add(&sum.input, m.usage.input)
		add(&sum.output, m.usage.output)
		add(&sum.cached, m.usage.cached)
		add(&sum.written, m.usage.written)
		add(&sum.reasoning, m.usage.reasoning)
		if m.usage.cost == nil {
			continue
		}
		mixed = mixed || sum.cost != nil && (sum.currency != m.usage.currency)
		if sum.cost == nil {
			sum.source = m.usage.source
		} else if sum.source != m.usage.source {
			sum.source = ""
		}
		add(&sum.cost, m.usage.cost)
		sum.currency = m.usage.currency
	}
	if mixed { // amounts of several currencies have no sum
		sum.cost, sum.currency, sum.source = nil, "", ""
	}
	sum.set(&r.row)
	r.row.Steps, r.row.ToolCalls, r.row.FailedToolCalls = &steps, &calls, &fails
}

// add adds n to a sum that is nil before the first one.
func add[N ~int64](sum **N, n *N) {
	if n == nil {
		return
	}
	if *sum == nil {
		*sum = new(*n)
		return
	}
	**sum += *n
}
