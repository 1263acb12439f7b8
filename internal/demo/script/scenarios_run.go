package script

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// subAgentRate is the pace of sub-agents in tokens per second.
const subAgentRate = 28

// topicKettle is the topic of a call that only takes some time.
const topicKettle = "kettle"

// lifecycle shows the records of the run itself: a suspension until a sub-agent has ended, an interruption, and
// a step whose first attempt is rolled back.
func (p *scriptBuilder) lifecycle() {
	run := p.agent.RunID
	p.text(prose("lifecycle_1"))
	p.ask(call{"fact-checker", map[string]any{"message": "Tell me when the kettle has boiled.", "topic": topicKettle}})
	p.step("tool-calls")
	p.text(prose("lifecycle_2"))
	p.step("stop")

	p.open.Discarded = []Action{{Say: chunk.TextDelta{Delta: "This attempt fails and is rolled back."}}}
	p.chunk(chunk.RunInterrupted{RunID: run, Reason: new("a soft stop, to show one")})
	p.chunk(chunk.ExecutorSuperseded{Reason: new("the same run continues in another executor")})
	p.wait(800 * time.Millisecond)
	p.chunk(chunk.RunResumed{RunID: run, FromStepCount: int64(len(p.agent.Steps)), Mode: "from_checkpoint"})
	p.text(prose("lifecycle_3"))
	p.step("stop")
}

// subagents calls two sub-agents concurrently; the researcher calls a third.
func (p *scriptBuilder) subagents() {
	p.text(prose("subagents_before"))
	p.ask(
		call{"researcher", map[string]any{"message": "Find a way to the lake on Sunday, without a car."}},
		call{"cartographer", map[string]any{"message": "Say in which direction the ridge is better walked."}},
	)
	p.step("tool-calls")
	p.text(prose("subagents_after"))
	p.step("stop")
}

// call is a sub-agent with its input.
type call struct {
	agentType string
	input     map[string]any
}

// ask calls sub-agents concurrently. It must be the last action of a step.
func (p *scriptBuilder) ask(calls ...call) {
	var list []Call
	for _, c := range calls {
		list = append(list, Call{ID: p.call(), AgentType: c.agentType, Input: value(c.input)})
	}
	p.act(Action{After: p.tokenDelay(), Ask: list})
}

func (p *scriptBuilder) researcher() any {
	p.text(prose("researcher_1"))
	search := p.streamedTool("search_timetable", map[string]any{"to": "the lake", "day": "Sunday", "before": "09:00"})
	p.wait(500 * time.Millisecond)
	p.result(search, "search_timetable", []map[string]any{{"train": "RE 7", "at": "07:12", "arrives": "08:40"}, {"bus": "42", "at": "08:50"}})
	p.step("tool-calls")
	p.thought("The bus on Sundays is a guess of mine. A colleague should check it.")
	p.text(prose("researcher_2"))
	p.ask(call{"fact-checker", map[string]any{"message": "Does the bus go on Sundays?"}})
	p.step("tool-calls")
	p.text(prose("researcher_3"))
	p.chunk(chunk.SourceURL{SourceID: "src-rail", URL: "https://example.org/timetable", Title: new("Timetable of the valley")})
	return map[string]any{"train": "07:12", "walkMinutes": 15}
}

func (p *scriptBuilder) checker() any {
	p.wait(300 * time.Millisecond)
	p.text(prose("checker"))
	p.state(put("add", "/claims", []map[string]any{{"claim": "bus on Sundays", "holds": false}}))
	return map[string]any{"holds": false}
}

func (p *scriptBuilder) kettle() any {
	p.wait(1500 * time.Millisecond)
	p.custom("kettle", map[string]any{"celsius": 100})
	return map[string]any{"boiled": true}
}

func (p *scriptBuilder) cartographer() any {
	p.text(prose("cartographer_1"))
	p.state(put("add", "/route", map[string]any{"kilometres": 9, "metresUp": 640}))
	p.step("stop")
	p.text(prose("cartographer_2"))
	p.state(put("add", "/route/direction", "north to south"))
	return map[string]any{"kilometres": 9, "metresUp": 640, "direction": "north to south"}
}
