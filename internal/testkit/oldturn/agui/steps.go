package agui

import (
	"bytes"
	"math"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// closeSteps ends the messages and the steps of all agents.
func (w *Writer) closeSteps() {
	for _, a := range w.order {
		w.closeStepName(a)
	}
	w.closeStepName(&w.own)
}

func (w *Writer) stepStart(it *item) {
	a := it.by
	w.closeStepName(a)
	a.closeStep()
	if id := it.content("stepId"); len(id) > 0 {
		a.stepName = bytes.Clone(id)
	} else {
		a.stepName = strconv.AppendInt([]byte("step-"), a.step, 10)
	}
	w.stepEvent("STEP_STARTED", a)
}

func (w *Writer) stepEnd(it *item) {
	a := it.by
	w.close(a)
	a.closeStep()
	usage, reason := it.Get("usage"), it.Get("finishReason")
	w.usage.add(usage)
	if a.stepName == nil {
		return
	}
	w.out.Open("STEP_FINISHED")
	w.out.Content("stepName", a.stepName)
	w.tag(a)
	if usage != nil || reason != nil {
		w.out.Nest("metadata")
		w.out.Raw("finishReason", reason)
		w.out.Raw("usage", usage)
		w.out.Close()
	}
	w.out.Shut()
	a.stepName = nil
}

// closeStepName ends the message and the step of an agent.
func (w *Writer) closeStepName(a *agentState) {
	w.close(a)
	if a.stepName != nil {
		w.stepEvent("STEP_FINISHED", a)
		a.stepName = nil
	}
}

func (w *Writer) stepEvent(kind string, a *agentState) {
	w.out.Open(kind)
	w.out.Content("stepName", a.stepName)
	w.tag(a)
	w.out.Shut()
}

// usage has the tokens of the steps since RUN_STARTED.
type usage struct {
	known                             bool
	input, output, cached, cacheWrite int64
}

func (u *usage) add(v chunk.Value) {
	if v == nil {
		return
	}
	u.known = true
	for name, sum := range map[string]*int64{
		"inputTokens": &u.input, "outputTokens": &u.output, "cachedTokens": &u.cached, "cacheWriteTokens": &u.cacheWrite,
	} {
		*sum = min(chunk.MaxInteger, *sum+tokens(rawjson.Get(v, name)))
	}
}

func tokens(n chunk.Value) int64 {
	if n == nil {
		return 0
	}
	f, ok := chunk.Number(n).Float64()
	if !ok || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, chunk.MaxInteger))
}

// writeUsage writes the tokens of the run.
func (w *Writer) writeUsage() {
	if u := w.usage; u.known {
		w.out.Name("usage")
		w.out.Dst = append(w.out.Dst, '[')
		o := rawjson.Begin(w.out.Dst)
		o.Name("inputTokens")
		o.Dst = strconv.AppendInt(o.Dst, u.input, 10)
		o.Name("outputTokens")
		o.Dst = strconv.AppendInt(o.Dst, u.output, 10)
		o.Int("cachedInputTokens", u.cached)
		o.Int("cacheWriteInputTokens", u.cacheWrite)
		w.out.Dst = append(o.End(), ']')
	}
	w.usage = usage{}
}
