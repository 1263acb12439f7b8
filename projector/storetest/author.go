package storetest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// Author writes a session that looks like one: turns of several steps with
// text, tools, state and now and then a crash that is cleaned up.
type Author struct {
	Session chunk.Session
	Crashes bool // with clean-ups

	log  *Log
	rng  *rand.Rand
	run  int
	step int64
	call int
}

// NewAuthor is an author with a seed; the same seed writes the same.
func NewAuthor(log *Log, s chunk.Session, seed uint64) *Author {
	return &Author{Session: s, Crashes: true, log: log, rng: rand.New(rand.NewPCG(seed, 7))}
}

// Write writes about n records and returns them.
func (a *Author) Write(tb testing.TB, n int) []chunk.Record {
	tb.Helper()
	var out []chunk.Record
	say := func(body chunk.Body) { out = append(out, a.log.Append(tb, a.Session, a.step, body)) }
	for len(out) < n {
		switch k := a.rng.IntN(100); {
		case a.run == 0 || k < 4:
			a.start(say)
		case k < 60:
			say(chunk.TextDelta{Delta: strings.Repeat("word ", 1+a.rng.IntN(5))})
		case k < 70:
			say(chunk.Thinking{Content: "hm ", IsComplete: a.rng.IntN(4) == 0})
		case k < 80:
			a.tool(say)
		case k < 85:
			v := chunk.Value(strconv.Itoa(a.rng.IntN(100)))
			say(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: fmt.Sprintf("/k%d", a.rng.IntN(5)), Value: &v}}})
		case k < 94:
			say(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "3", OutputTokens: "4"}})
			a.step++
			say(chunk.StepStart{})
		case k < 96:
			say(chunk.StreamEnd{StreamID: a.Session.ID})
			a.start(say)
		case k < 98:
			out = append(out, a.log.AppendRaw(a.Session, chunk.TypeTextDelta, []byte(`{"type":"text_delta"}`)))
		case a.Crashes:
			say(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: 1, Mode: "takeover"})
			a.step = max(0, a.step-1)
			if mark, ok := a.log.Mark(tb, a.Session, a.step); ok {
				out = append(out, mark)
			}
		}
	}
	return out
}

func (a *Author) start(say func(chunk.Body)) {
	a.run++
	a.step = 0
	say(chunk.RunStarted{RunID: fmt.Sprintf("r%d", a.run), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: fmt.Sprintf("question %d", a.run)}}})
	a.step = 1
	say(chunk.StepStart{})
}

func (a *Author) tool(say func(chunk.Body)) {
	a.call++
	id, ours := fmt.Sprintf("c%d", a.call), true
	say(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":1}`)})
	if a.rng.IntN(5) > 0 {
		say(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"found":2}`), ProviderExecuted: &ours})
	}
}
