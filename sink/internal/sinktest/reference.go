package sinktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// Row is a row of the reference: what a reader of the rules expects of a run, step, call or wait. Two rows of one observation are equal with ==.
type Row struct {
	Kind                           row.Kind
	Status                         row.Status
	Start, End                     time.Time // the zero End is open
	Steps, Calls, Failed, Attempts int64     // of a run
	Usage                          string    // of a step, or of the steps of a run, see UsageOf
}

// Key names the row of an observation in the reference.
func Key(tenant, root, session string, kind row.Kind, firstSeq int64, call string) string {
	return fmt.Sprintf("%s/%s/%s %s %d %s", tenant, root, session, kind, firstSeq, call)
}

// RowOf is the row of an observation, as far as the reference has it.
func RowOf(o row.Observation) Row {
	r := Row{Kind: o.Kind, Status: o.Status, Start: o.StartTime, Usage: UsageOf(o)}
	if o.EndTime != nil {
		r.End = *o.EndTime
	}
	if o.Kind == row.Run {
		r.Steps, r.Calls, r.Failed, r.Attempts = *o.Steps, *o.ToolCalls, *o.FailedToolCalls, *o.Attempts
	}
	return r
}

// HasRow reports whether an observation has a row: a call or a step that is open has one only if it had ended before a cleanup, which Reference leaves out.
func (r Row) HasRow() bool { return r.Kind != row.Tool && r.Kind != row.Step || !r.End.IsZero() }

// Stable leaves out what depends on when the row of a run that is running was written.
func (r Row) Stable() Row {
	if r.Kind == row.Run && r.Status == row.Running {
		r.Steps, r.Calls, r.Failed, r.Attempts, r.Usage = 0, 0, 0, 0, ""
	}
	return r
}

// Reference computes the rows that the rules demand of a log without cleanups, independently of package observe: one list, nothing is forgotten. The rules are those of
// docs/guides/analytics.md, docs/reference/tables.md and of the records. Sessions that were deleted have the rows of later runs only. The ordinals of a session do not begin again.
func Reference(log Log, prices Prices) map[string]Row {
	trees := map[chunk.Session]map[chunk.Session]*reference{}
	for _, rec := range log {
		tree := trees[rec.Session.Tree()]
		if tree == nil {
			tree = map[chunk.Session]*reference{}
			trees[rec.Session.Tree()] = tree
		}
		if tree[rec.Session] == nil {
			tree[rec.Session] = &reference{prices: prices}
		}
		r := tree[rec.Session]
		if !r.read(rec) {
			continue
		}
		if rec.Session.IsRoot() {
			clear(tree)
		}
		tree[rec.Session] = &reference{prices: prices, rec: chunk.Record{Epoch: rec.Epoch}}
	}
	rows := map[string]Row{}
	for _, tree := range trees {
		for _, r := range tree {
			for key, p := range r.all {
				if p.HasRow() {
					p.Usage = p.sums.String()
					rows[key] = p.Stable()
				}
			}
		}
	}
	return rows
}

// read applies a record, and reports whether it is that of a deletion.
func (r *reference) read(rec chunk.Record) (deleted bool) {
	if rec.Epoch < r.rec.Epoch {
		return false
	}
	r.rec = rec
	c, err := rec.Decode()
	if _, opaque := c.Body.(chunk.Opaque); err != nil || opaque || c.Type() != rec.Type {
		return false
	}
	r.at = rec.StoredAt.UTC()
	if c.Timestamp > 0 {
		r.at = time.UnixMilli(c.Timestamp).UTC()
	}
	if b, ok := c.Body.(chunk.StreamFailed); ok && b.ErrorDetail.IsDeletion() {
		return true
	}
	r.apply(c)
	return false
}

// plain is a row while its session is read.
type plain struct {
	Row

	sums            sums
	model, provider string // of a run

	id          string // of a call
	turn        int
	done        bool // a call has its outcome
	complete    bool // its input is complete
	byServer    bool
	byChild     bool
	approved    bool
	childFailed bool
	approval    *plain
	client      *plain
}

func (p *plain) end(status row.Status, at time.Time) {
	if p != nil {
		p.Status, p.End = status, at
	}
}

func (p *plain) isOpen() bool {
	return p != nil && (p.Status == row.Running || p.Status == row.Waiting)
}

// reference is the state of a session.
type reference struct {
	prices      Prices
	all         map[string]*plain
	calls       []*plain
	run, step   *plain
	runID       string
	turn        int
	phase       string
	interrupted bool
	at          time.Time
	rec         chunk.Record
}

func (r *reference) add(kind row.Kind, status row.Status, call string) *plain {
	p := &plain{Row: Row{Kind: kind, Status: status, Start: r.at}, id: call, turn: r.turn}
	if r.all == nil {
		r.all = map[string]*plain{}
	}
	of := r.rec.Session
	r.all[Key(of.Tenant, of.Root, of.ID, kind, int64(r.rec.Seq), call)] = p
	return p
}

// call returns the latest call with an id that is known in this turn and the one before.
func (r *reference) call(id string) *plain {
	for _, c := range slices.Backward(r.calls) {
		if c.id == id && c.turn >= r.turn-1 {
			return c
		}
	}
	return nil
}

func (r *reference) begins(id, tool string) *plain {
	if tool == "__finish__" {
		return nil
	}
	c := r.call(id)
	if c == nil || c.done || c.turn < r.turn {
		if c != nil && !c.done {
			r.interrupt(c)
		}
		c = r.add(row.Tool, row.Running, id)
		c.byChild = strings.HasPrefix(tool, "subagent__")
		r.calls = append(r.calls, c)
	}
	return c
}

func (r *reference) interrupt(c *plain) {
	if !c.isOpen() {
		return
	}
	for _, w := range []*plain{c.approval, c.client} {
		if w.isOpen() {
			w.end(row.Interrupted, r.at)
		}
	}
	c.end(row.Interrupted, r.at)
}

// completes returns the call that a record completes.
func (r *reference) completes(id, tool string) *plain {
	c := r.call(id)
	switch {
	case tool == "__finish__", c != nil && c.done:
		return nil
	case c == nil:
		c = r.begins(id, tool)
		c.complete = true
	}
	return c
}

func (r *reference) outcome(c *plain, status row.Status) {
	if c == nil {
		return
	}
	if c.client.isOpen() {
		c.client.end(status, r.at)
	}
	if c.approval.isOpen() {
		c.approval.end(map[bool]row.Status{true: row.Denied, false: row.Unknown}[status == row.Denied], r.at)
	}
	c.done = true
	c.end(status, r.at)
	r.run.Calls++
	if status == row.Failed || status == row.Rejected {
		r.run.Failed++
	}
}

func (r *reference) wait(c *plain, w **plain, kind row.Kind) {
	c.Status, c.End = row.Waiting, time.Time{}
	if !(*w).isOpen() {
		*w = r.add(kind, row.Waiting, c.id)
	}
}

func (r *reference) client(id string) {
	if c := r.call(id); c != nil && !c.done && !c.approval.isOpen() {
		r.wait(c, &c.client, row.ClientTool)
	}
}

func (r *reference) endStep(status row.Status) {
	r.step.end(status, r.at)
	r.step = nil
}

func (r *reference) endRun(status row.Status) {
	r.endStep(row.Interrupted)
	for _, c := range r.calls {
		if c.turn == r.turn && !c.done {
			r.interrupt(c)
		}
	}
	r.run.end(status, r.at)
}

func (r *reference) start(b chunk.RunStarted) {
	r.endStep(row.Interrupted)
	same := r.turn > 0 && r.runID == b.RunID
	opens := r.turn == 0 || !same && (b.Mode == "execute" || len(b.Input) > 0)
	r.phase, r.interrupted = "active", false
	if same {
		r.run.Status, r.run.End = row.Running, time.Time{}
		r.run.Attempts++
		return
	}
	if r.run.isOpen() {
		r.run.end(row.Superseded, r.at)
	}
	if opens {
		r.turn++
		for _, c := range r.calls {
			if c.turn == r.turn-2 && !c.done {
				r.interrupt(c)
			}
		}
	}
	r.run, r.runID = r.add(row.Run, row.Running, ""), b.RunID
	r.run.Attempts, r.run.model, r.run.provider = 1, text(b.Model), text(b.Provider)
}

func (r *reference) apply(c chunk.Chunk) {
	b, isStart := c.Body.(chunk.RunStarted)
	switch {
	case isStart:
		r.start(b)
		return
	case r.turn == 0 && (r.rec.Type.Control() || isPiece(r.rec.Type)):
		return
	case r.turn == 0:
		r.turn, r.phase = 1, "active"
		r.run = r.add(row.Run, row.Running, "")
		r.run.Attempts = 1
	}
	r.applyRun(c.Body)
	r.applyCall(c)
}

func (r *reference) applyRun(body chunk.Body) {
	switch b := body.(type) {
	case chunk.StepStart:
		r.endStep(row.Completed)
		r.step = r.add(row.Step, row.Running, "")
		if b.StartedAt != nil && *b.StartedAt > 0 && *b.StartedAt <= r.at.UnixMilli() {
			r.step.Start = time.UnixMilli(*b.StartedAt).UTC()
		}
	case chunk.StepEnd:
		if r.step == nil {
			r.step = r.add(row.Step, row.Running, "")
		}
		r.addUsage(b)
		r.endStep(row.Completed)
		r.run.Steps++
	case chunk.StreamPaused:
		if r.phase != "closed" {
			r.pause()
		}
	case chunk.StreamActive, chunk.RunResumed:
		if _, always := b.(chunk.StreamActive); r.phase == "paused" && (always || r.interrupted) {
			r.phase, r.interrupted = "active", false
			r.run.Status, r.run.End = row.Running, time.Time{}
		}
	case chunk.RunInterrupted:
		if r.phase == "active" {
			r.phase, r.interrupted = "paused", true
			r.endRun(row.Interrupted)
		}
	case chunk.ExecutorSuperseded:
		if r.run.isOpen() {
			r.run.end(row.Superseded, r.at)
		}
	case chunk.StreamEnd:
		switch {
		case r.phase == "closed":
		case r.interrupted:
			r.phase = "paused"
			r.endRun(row.Interrupted)
		default:
			r.phase = "closed"
			r.endRun(row.Completed)
		}
	case chunk.StreamFailed:
		if r.phase == "closed" {
			return
		}
		r.phase = "closed"
		status := row.Failed
		if d := b.ErrorDetail; d != nil && d.Code != nil && *d.Code == "run_abandoned" {
			status = row.Abandoned
		} else if d != nil && d.Code != nil && *d.Code == "aborted" {
			status = row.Interrupted
		}
		r.endRun(status)
	}
}

func (r *reference) pause() {
	r.phase = "paused"
	r.endStep(row.Interrupted)
	for _, c := range r.calls {
		if c.turn == r.turn && !c.done && c.complete && !c.approved && !c.byServer && !c.byChild && !c.approval.isOpen() {
			r.wait(c, &c.client, row.ClientTool)
		}
	}
	if r.run.isOpen() {
		r.run.end(row.Suspended, r.at)
	}
}

// isPiece reports whether a record is a piece of text, of reasoning or of arguments. Before the first run it has no effect.
func isPiece(t chunk.Type) bool {
	return t == chunk.TypeTextDelta || t == chunk.TypeThinking || t == chunk.TypeToolArgStreamDelta
}
