package aisdk

import (
	"math"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// steps is the state of the steps of the agent.
type steps struct {
	begun bool // a step began that has no output yet
	open  bool // start-step was written, finish-step was not

	// questions has the calls since the last start-step that the client must answer. Its predicates check the parts after that one: without another start-step
	// they would find the answered calls each time, and post indefinitely.
	questions []*call

	delegated []*call // the calls since the last start-step that sub-agents execute, without finished ones

	number int // of start-steps

	beganAt    chunk.Ordinal // record of the latest step_start
	startedAt  chunk.Ordinal // record of the step_start for which start-step was written
	firstAt    chunk.Ordinal // record of the first part after it
	producedAt chunk.Ordinal // latest record with output in the message
	unclear    bool          // records of the step are missing, or a sub-agent has output in it
	kept       bool          // reset-step left the step-start of a removed step
}

// stepStart begins a step. start-step is written with its first output: the snapshot has none for a step without output.
func (m *MessageWriter) stepStart(it *item) {
	if !it.sp.own() {
		m.close(it.sp)
		return
	}
	m.closeAll()
	m.finishStep()
	m.steps.begun, m.steps.beganAt = true, it.rec.Ordinal
}

func (m *MessageWriter) stepEnd(it *item) {
	if !it.sp.own() {
		m.close(it.sp)
		return
	}
	m.closeAll()
	m.finishStep()
	m.steps.begun = false
	if reason := it.Text("finishReason"); reason != "" {
		m.reason = m.opt.reason(reason)
	}
	m.meta.Steps++
	// Only metadata functions use the sums.
	if m.opt.StartMetadata != nil || m.opt.StepMetadata != nil || m.opt.FinishMetadata != nil {
		m.meta.InputTokens += tokens(it.Get("usage", "inputTokens"))
		m.meta.OutputTokens += tokens(it.Get("usage", "outputTokens"))
		m.meta.CachedTokens += tokens(it.Get("usage", "cachedTokens"))
		m.meta.CacheWriteTokens += tokens(it.Get("usage", "cacheWriteTokens"))
	}
	if v := m.metadata(m.opt.StepMetadata); v != nil {
		m.open("message-metadata")
		m.sanitized("messageMetadata", v)
		m.shut()
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

// beginPart is called before a part is written. The first part of a step of the message's own agent writes start-step.
func (m *MessageWriter) beginPart(it *item) {
	m.markVisible(it)
	if it.sp.own() && m.steps.begun {
		m.finishStep() // see separateStep
		m.startStep()
	}
}

// markVisible records that a record has output in the message.
func (m *MessageWriter) markVisible(it *item) {
	if it.sp.own() {
		m.steps.producedAt = it.rec.Ordinal
	} else {
		m.steps.unclear = true
	}
}

func (m *MessageWriter) startStep() {
	kept, questions := m.steps.kept, m.steps.questions
	m.steps = steps{
		number: m.steps.number + 1,
		open:   true, beganAt: m.steps.beganAt, startedAt: m.steps.beganAt,
		firstAt: m.own.ordinal, producedAt: m.steps.producedAt,
	}
	if !kept && !m.opt.NoSteps {
		m.open("start-step")
		m.shut()
	}
	for _, c := range questions {
		m.finish(c)
	}
}

// finishStep ends the step that was written. A block can be open in a step that a question of a sub-agent begins: the record that ended it was removed.
func (m *MessageWriter) finishStep() {
	if m.steps.open && !m.opt.NoSteps {
		m.closeAll()
		m.open("finish-step")
		m.shut()
	}
	m.steps.open = false
}

// separateStep begins a step for a request of a sub-agent, if the current step has the call that waits for the sub-agent. The client's predicate for
// approvals requires an outcome of every call since the last start-step, so it would never post a decision. If an earlier request of the step is open, the
// step continues, because otherwise the client would post without an answer to it.
func (m *MessageWriter) separateStep() {
	if m.opt.NoSteps || slices.ContainsFunc(m.steps.questions, (*call).unanswered) || !slices.ContainsFunc(m.steps.delegated, (*call).open) {
		return
	}
	begun := m.steps.begun
	m.finishStep()
	m.startStep()
	m.steps.begun = begun
}

// separate writes an empty step after calls that the client had to answer, if one of them was answered and the answer ends with them, successfully or not.
// Otherwise the client's predicates return true at the end, and it posts indefinitely. After an error it does not post at first, but:
//  1. the browser's own call is answered, an approval of the same step is still open,
//  2. the client posts, because its predicate for calls ignores calls that run on the server,
//  3. the run fails, and the client stops posting, as after every error,
//  4. the user decides the approval. Version 6 evaluates the predicate although the request no longer exists, finds the answered call, and posts to a run
//     that is over.
//
// A client passes a start-step to its application with the next change only, so the last answer is written again.
func (m *MessageWriter) separate() {
	c := m.answered()
	if c == nil || m.opt.NoSteps {
		return
	}
	m.finishStep()
	m.startStep()
	m.release()
	m.last = len(m.json.Dst)
	m.json.Dst = append(m.json.Dst, c.again...)
}

// answered returns the latest call since the last start-step that the client had to answer and that is answered, nil for none.
func (m *MessageWriter) answered() *call {
	for _, c := range slices.Backward(m.steps.questions) {
		if c.again != nil {
			return c
		}
	}
	return nil
}
