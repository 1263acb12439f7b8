package aisdk

import (
	"math"

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

func (m *Message) stepEnd(it *item, b chunk.StepEnd) {
	if !it.sp.own() {
		m.close(it.sp)
		return
	}
	m.closeAll()
	m.finishStep()
	m.steps.begun = false
	if b.FinishReason != nil {
		m.reason = m.opt.reason(*b.FinishReason)
	}
	m.meta.Steps++
	if u := b.Usage; u != nil {
		m.meta.InputTokens += tokens(&u.InputTokens)
		m.meta.OutputTokens += tokens(&u.OutputTokens)
		m.meta.CachedTokens += tokens(u.CachedTokens)
		m.meta.CacheWriteTokens += tokens(u.CacheWriteTokens)
	}
	if v := m.metadata(m.opt.StepMetadata); v != nil {
		m.open("message-metadata")
		m.guarded("messageMetadata", v)
		m.shut()
	}
}

func tokens(n *chunk.Number) int64 {
	if n == nil {
		return 0
	}
	f, ok := n.Float64()
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

// separate puts a step, though it says nothing, behind calls that the client
// was asked about and that have their outcome, when the answer ends with them. A
// client shows its application a start-step with the next change only: the last
// outcome is told once more.
func (m *Message) separate() {
	asked := m.steps.asked
	if m.steps.open || len(asked) == 0 || m.opt.NoSteps {
		return
	}
	for _, c := range asked {
		if !c.settled {
			return
		}
	}
	m.startStep()
	m.last = len(m.dst)
	m.dst = append(m.dst, asked[len(asked)-1].outcome...)
}
