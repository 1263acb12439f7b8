package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// SessionGenerator writes random sessions: turns of several steps with text, tools, state, and occasionally a crash with a
// cleanup.
type SessionGenerator struct {
	Session      chunk.Session
	WithCleanups bool // write crashes with cleanups

	log  *Log
	rng  *rand.Rand
	run  int
	step int64
	call int
}

// NewSessionGenerator returns a SessionGenerator. The same seed writes the same records.
func NewSessionGenerator(log *Log, s chunk.Session, seed uint64) *SessionGenerator {
	return &SessionGenerator{Session: s, WithCleanups: true, log: log, rng: rand.New(rand.NewPCG(seed, 7))}
}

// Write writes about n records and returns them.
func (a *SessionGenerator) Write(tb testing.TB, n int) []chunk.Record {
	tb.Helper()
	var out []chunk.Record
	write := func(body chunk.Body) { out = append(out, a.log.Append(tb, a.Session, a.step, body)) }
	for len(out) < n {
		switch k := a.rng.IntN(100); {
		case a.run == 0 || k < 4:
			a.start(write)
		case k < 60:
			write(chunk.TextDelta{Delta: strings.Repeat("word ", 1+a.rng.IntN(5))})
		case k < 70:
			write(chunk.Thinking{Content: "hm ", IsComplete: a.rng.IntN(4) == 0})
		case k < 80:
			a.tool(write)
		case k < 85:
			v := chunk.Value(strconv.Itoa(a.rng.IntN(100)))
			write(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: fmt.Sprintf("/k%d", a.rng.IntN(5)), Value: &v}}})
		case k < 94:
			write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "3", OutputTokens: "4"}})
			a.step++
			write(chunk.StepStart{})
		case k < 96:
			write(chunk.StreamEnd{StreamID: a.Session.ID})
			a.start(write)
		case k < 98:
			out = append(out, a.log.AppendRaw(a.Session, chunk.TypeTextDelta, []byte(`{"type":"text_delta"}`)))
		case a.WithCleanups:
			write(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: 1, Mode: "takeover"})
			a.step = max(0, a.step-1)
			if truncation, ok := a.log.AppendTruncation(tb, a.Session, a.step); ok {
				out = append(out, truncation)
			}
		}
	}
	return out
}

func (a *SessionGenerator) start(write func(chunk.Body)) {
	a.run++
	a.step = 0
	write(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: fmt.Sprintf("question %d", a.run)}}})
	a.step = 1
	write(chunk.StepStart{})
}

func (a *SessionGenerator) tool(write func(chunk.Body)) {
	a.call++
	id, executed := fmt.Sprintf("c%d", a.call), true
	write(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":1}`)})
	if a.rng.IntN(5) > 0 {
		write(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"found":2}`), ProviderExecuted: &executed})
	}
}
