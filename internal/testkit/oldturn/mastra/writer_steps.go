package mastra

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// stepTotal is what finish needs of a step that has ended.
type stepTotal struct {
	at     chunk.Ordinal // of its step_end
	reason string        // "" for none
	usage  usageTotal
}

type usageTotal struct{ input, output, cached, cacheWrite int64 }

// pendingStep is a step that may be one of a workflow: then the chunk of the workflow that follows replaces step-start.
type pendingStep struct{ id string }

// stepOf begins a step if the record has a higher step than the records before, and is not the start of one.
func (w *Writer) stepOf(it *item) {
	sp := it.sp
	if it.rec.Type != chunk.TypeCustom || !w.startsWorkStep(it) {
		w.flushStep(sp)
	}
	if it.step <= sp.step {
		return
	}
	sp.step = it.step
	w.close(sp)
	if w.isOwn(sp) && it.rec.Type != chunk.TypeStepStart {
		w.beginStep(sp)
	}
}

// flushStep writes the step-start that waits for the record after it.
func (w *Writer) flushStep(sp *speaker) {
	if sp.pending != nil {
		sp.pending = nil
		w.beginStep(sp)
	}
}

func (w *Writer) stepStart(it *item) {
	w.close(it.sp)
	it.sp.compactCalls()
	if id := it.Get("stepId"); id != nil {
		w.finishStep(it.sp, reasonOther, usageTotal{})
		it.sp.pending = &pendingStep{id: it.Text("stepId")}
		return
	}
	w.beginStep(it.sp)
}

func (w *Writer) beginStep(sp *speaker) {
	if sp.network {
		return
	}
	w.finishStep(sp, reasonOther, usageTotal{})
	sp.stepping = true
	w.open(sp, "step-start")
	if w.isOwn(sp) {
		w.frames.String("messageId", w.cfg.MessageID) // without it the client's message has no id
	}
	w.frames.Raw("request", []byte("{}"))
	w.frames.Raw("warnings", []byte("[]"))
	w.shut(sp)
}

func (w *Writer) stepEnd(it *item) {
	sp := it.sp
	w.close(sp)
	total := stepTotal{at: it.rec.Ordinal, reason: w.intern(it.text("finishReason")), usage: usageTotal{
		input: tokens(it.Get("usage", "inputTokens")), output: tokens(it.Get("usage", "outputTokens")),
		cached: tokens(it.Get("usage", "cachedTokens")), cacheWrite: tokens(it.Get("usage", "cacheWriteTokens")),
	}}
	sp.steps = append(sp.steps, total)
	if sp.workStep != "" && it.Text("stepId") == sp.workStep {
		sp.workStep = "" // the chunk of the workflow before it is its end
		return
	}
	total.reason = cmp.Or(total.reason, reasonStop)
	w.finishStep(sp, total.reason, total.usage)
}

// finishStep writes the end of the open step.
func (w *Writer) finishStep(sp *speaker, reason string, usage usageTotal) {
	if !sp.stepping {
		return
	}
	w.close(sp)
	sp.stepping = false
	f := &w.frames
	w.open(sp, "step-finish")
	if w.isOwn(sp) {
		f.String("messageId", w.cfg.MessageID)
	}
	f.Nest("stepResult")
	f.String("reason", reason)
	f.Bool("isContinued", reason == reasonToolCalls && sp.openCalls == 0)
	f.Close()
	w.usage(usage)
	f.Raw("metadata", []byte("{}"))
	w.shut(sp)
}

// usage writes the member output of the end of a step or a run. Clients read the usage without looking whether there is one.
func (w *Writer) usage(u usageTotal) {
	f := &w.frames
	f.Nest("output")
	f.Nest("usage")
	number := func(name string, n int64) {
		f.Name(name)
		f.Dst = strconv.AppendInt(f.Dst, n, 10)
	}
	number("inputTokens", u.input)
	number("outputTokens", u.output)
	number("totalTokens", u.input+u.output)
	f.Int("cachedInputTokens", u.cached)
	f.Int("cacheCreationInputTokens", u.cacheWrite)
	f.Close()
	f.Close()
}

// total returns the usage of all steps.
func (sp *speaker) total() (u usageTotal) {
	for _, s := range sp.steps {
		u.input += s.usage.input
		u.output += s.usage.output
		u.cached += s.usage.cached
		u.cacheWrite += s.usage.cacheWrite
	}
	return u
}

// reason returns the finish reason of the last step that gave one.
func (sp *speaker) reason() string {
	for _, s := range slices.Backward(sp.steps) {
		if s.reason != "" {
			return s.reason
		}
	}
	return reasonStop
}

// tokens returns a number of tokens, at most 2^31, so that no sum overflows.
func tokens(n chunk.Value) int64 {
	if n == nil {
		return 0
	}
	f, ok := chunk.Number(n).Float64()
	if !ok || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, 1<<31))
}

// Finish reasons.
const (
	reasonStop      = "stop"
	reasonToolCalls = "tool-calls"
	reasonError     = "error"
	reasonOther     = "other"
	reasonTripwire  = "tripwire"
)
