package aisdk

import (
	"math"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// steps is how the steps of the agent stand.
type steps struct {
	begun bool // a step began that has said nothing yet
	open  bool // start-step went out, finish-step did not

	// asked are the calls since the last start-step that the client was asked
	// about. Its predicates look at the parts after that one: without another
	// start-step they would see the answered calls again and again, and post for
	// ever.
	asked []*call

	delegated []*call // the calls since the last start-step that sub-agents do

	beganAt    chunk.Ordinal // record of the latest step_start
	startedAt  chunk.Ordinal // record of that for which start-step was sent
	firstAt    chunk.Ordinal // record of which the first thing after it was told
	producedAt chunk.Ordinal // latest record of which something stays in the message
	unclear    bool          // records of the step were not seen, or a sub-agent has said something in it
	kept       bool          // reset-step left the step-start of a step that was taken back
}

// stepStart begins a step. start-step goes out with the first thing that it
// says: the snapshot has none for a step that says nothing.
func (m *Message) stepStart(it *item) {
	if !it.sp.own() {
		m.close(it.sp)
		return
	}
	m.closeAll()
	m.finishStep()
	m.steps.begun, m.steps.beganAt = true, it.rec.Ordinal
}

func (m *Message) stepEnd(it *item) {
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
	// Nobody else sees the sums.
	if m.opt.StartMetadata != nil || m.opt.StepMetadata != nil || m.opt.FinishMetadata != nil {
		m.meta.InputTokens += tokens(it.Get("usage", "inputTokens"))
		m.meta.OutputTokens += tokens(it.Get("usage", "outputTokens"))
		m.meta.CachedTokens += tokens(it.Get("usage", "cachedTokens"))
		m.meta.CacheWriteTokens += tokens(it.Get("usage", "cacheWriteTokens"))
	}
	if v := m.metadata(m.opt.StepMetadata); v != nil {
		m.open("message-metadata")
		m.guarded("messageMetadata", v)
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

// speak is called before a part is told: the step of the message's own agent
// begins with the first.
func (m *Message) speak(it *item) {
	m.produced(it)
	if it.sp.own() && m.steps.begun {
		m.finishStep() // that of a question, see setApart
		m.startStep()
	}
}

// produced notes that something of a record stays in the message.
func (m *Message) produced(it *item) {
	if it.sp.own() {
		m.steps.producedAt = it.rec.Ordinal
	} else {
		m.steps.unclear = true
	}
}

func (m *Message) startStep() {
	kept := m.steps.kept
	m.steps = steps{
		open: true, beganAt: m.steps.beganAt, startedAt: m.steps.beganAt,
		firstAt: m.own.ordinal, producedAt: m.steps.producedAt,
	}
	if !kept && !m.opt.NoSteps {
		m.open("start-step")
		m.shut()
	}
}

func (m *Message) finishStep() {
	if m.steps.open && !m.opt.NoSteps {
		m.open("finish-step")
		m.shut()
	}
	m.steps.open = false
}

// setApart begins a step for a question of a sub-agent, if the one before it has the
// call that waits for the sub-agent. The page's predicate for approvals wants an
// outcome of every call since the last start-step: it would never post a decision.
// A question that is open there keeps the new one with it, or the page would post
// without an answer to the first.
func (m *Message) setApart() {
	if m.opt.NoSteps || slices.ContainsFunc(m.steps.asked, (*call).unanswered) || !slices.ContainsFunc(m.steps.delegated, (*call).open) {
		return
	}
	begun := m.steps.begun
	m.finishStep()
	m.startStep()
	m.steps.begun = begun
}

// separate puts a step, though it says nothing, behind calls that the client
// was asked about and of which one was answered, when the answer ends with them,
// well or not. Without it the page's predicates say yes at the end, and it posts
// without end. Behind an error it rests first, but:
//  1. the browser's own call is answered, the approval beside it is still open,
//  2. the page posts, because its predicate for calls passes those of ours over,
//  3. the run fails, and the page rests, as after every error,
//  4. a person decides the approval. Version 6 asks the predicate although the
//     question is gone, finds the answered call, and posts to a run that is over.
//
// A client shows its application a start-step with the next change only: the last
// answer is told once more.
func (m *Message) separate() {
	c := m.answered()
	if c == nil || m.opt.NoSteps {
		return
	}
	m.finishStep()
	m.startStep()
	m.release()
	m.last = len(m.dst)
	m.dst = append(m.dst, c.again...)
}

// answered is the latest call since the last start-step that the client was
// asked about and that was answered, nil for none.
func (m *Message) answered() *call {
	for _, c := range slices.Backward(m.steps.asked) {
		if c.again != nil {
			return c
		}
	}
	return nil
}
