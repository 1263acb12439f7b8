package sinktest

import (
	"github.com/tailrace/tailrace/chunk"
)

// start writes the beginning of a run with another id.
func (g *generator) start(mode string, input ...chunk.InputMessage) {
	g.epoch++
	g.run = g.name("r")
	g.begin(mode, mode == "execute" || len(input) > 0, input)
}

func (g *generator) begin(mode string, turn bool, input []chunk.InputMessage) {
	if mode == "execute" {
		g.step = 0
		if !g.oneIn("no input", 5) {
			input = []chunk.InputMessage{{Content: "canary"}}
		}
	}
	g.inStep = false
	b := chunk.RunStarted{RunID: g.run, Epoch: int64(g.epoch), Mode: mode, Input: input, Parent: g.parent, Model: maybe(g, "model of the run", "m0")}
	if g.oneIn("by", 2) {
		b.By = &chunk.Principal{Subject: of(g, "subject", "ann", "bob"), Issuer: maybe(g, "issuer", "https://i")}
	}
	g.write(b, g.extra()...)
	w := &g.written[len(g.written)-1]
	w.turn, w.run = turn, true
}

func (g *generator) runs() {
	switch g.pick("run", 7) {
	case 0, 1:
		g.start("execute")
	case 2, 3:
		g.start(of(g, "mode", "continue", "with_confirmation", "conclude"))
	case 4:
		g.start("with_message", chunk.InputMessage{Content: "canary"})
	default:
		g.takeOver()
	}
}

// takeOver writes what another worker writes after a crash: it removes the step that has not ended.
func (g *generator) takeOver() {
	g.epoch++
	unfinished, step := g.inStep, g.step
	g.begin("takeover", false, nil)
	if unfinished && g.Cleanups && !g.oneIn("no cleanup", 4) {
		g.removeAfter(step-1, g.startOfRun())
	}
}

func (g *generator) course() {
	switch g.pick("course", 12) {
	case 0, 1, 2:
		g.write(chunk.StreamEnd{StreamID: g.key.ID, FinalOutput: maybe(g, "output", values...)})
	case 3:
		g.write(chunk.StreamFailed{Error: "canary", ErrorDetail: &chunk.ErrorDetail{Message: "canary", Code: maybe(g, "code", "run_abandoned", "aborted", "other")}})
	case 4, 5, 6:
		g.write(chunk.RunPaused{RunID: g.run, Reason: "waits"})
		g.write(chunk.StreamPaused{})
	case 7:
		g.write(chunk.StreamActive{})
	case 8:
		g.write(chunk.RunInterrupted{RunID: g.run})
	case 9:
		g.write(chunk.RunResumed{RunID: g.run, Mode: "continue"})
	case 10:
		g.write(chunk.ExecutorSuperseded{})
	case 11:
		g.write(chunk.Output{Output: of(g, "output", values...)})
	}
}

func (g *generator) others() {
	switch g.pick("other", 5) {
	case 0:
		g.write(chunk.Custom{EventName: "progress", Data: chunk.Value(`"canary"`)})
	case 1:
		g.write(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(chunk.Value(`"canary"`))}}})
	case 2:
		g.write(chunk.Error{Error: "canary", Recoverable: true})
	case 3:
		g.write(chunk.CheckpointCreated{RunID: g.run, CheckpointID: "cp", StepCount: g.step})
	case 4:
		g.write(chunk.File{URL: "https://canary", MediaType: "image/png"})
	}
}

func (g *generator) hostile() {
	switch g.pick("hostile", 6) {
	case 0:
		g.raw(of(g, "type", chunk.TypeTextDelta, chunk.TypeToolEnd, chunk.TypeRunStarted, chunk.TypeTruncated), g.epoch, []byte(`{"type":"text_delta"`))
	case 1:
		g.raw(chunk.TypeStepEnd, g.epoch, []byte(`{"type":"text_delta","agentId":"s1","agentType":"a","timestamp":1,"delta":"x"}`))
	case 2:
		g.raw("new_kind", g.epoch, []byte(`{"type":"new_kind","agentId":"s1","agentType":"a","timestamp":1,"x":"canary"}`))
	case 3, 4:
		if g.epoch > 1 {
			g.raw(chunk.TypeToolStart, g.epoch-1, []byte(`{"type":"tool_start","agentId":"s1","agentType":"a","timestamp":1,"toolCallId":"f","toolName":"f","arguments":{}}`))
			if g.Fenced {
				g.ordinal-- // the present writer does not know it
			}
		}
	case 5:
		g.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: -5, Last: 0}, {First: 9, Last: 3}, {First: int64(g.ordinal) + 1, Last: 1 << 50}}})
	}
}
