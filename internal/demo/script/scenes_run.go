package script

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// lifecycle tells of the run itself. Its pauses end by themselves: nobody is
// asked for anything.
func (p *pen) lifecycle() {
	run := p.agent.RunID
	p.text(prose("lifecycle_1"))
	p.fact(chunk.SuspensionMarker{Kind: "suspended_awaiting_children", Payload: value(map[string]any{"children": []any{}})})
	p.fact(chunk.RunPaused{RunID: run, Reason: "waiting for the kettle"})
	p.act(Act{Pause: "waiting for the kettle"})
	p.wait(1500 * time.Millisecond)
	p.act(Act{Activate: true})
	p.fact(chunk.RunResumed{RunID: run, FromCheckpointID: p.checkpoint(), FromStepCount: int64(p.number() - 1), Mode: "continue"})
	p.text(prose("lifecycle_2"))
	p.step("stop")

	p.fact(chunk.StepDiscarded{RunID: run, StepID: p.agent.StepID(p.number()), Reason: "interrupted before anything was staged"})
	p.fact(chunk.RunInterrupted{RunID: run, CheckpointID: p.checkpoint(), Reason: new("a soft stop, to show one")})
	p.fact(chunk.ExecutorSuperseded{Reason: new("the same run goes on in another executor")})
	p.wait(800 * time.Millisecond)
	p.fact(chunk.RunResumed{RunID: run, FromCheckpointID: p.checkpoint(), FromStepCount: int64(p.number() - 1), Mode: "from_checkpoint"})
	// The numbers of the checkpoint are known to the player, who fills them in.
	p.fact(chunk.StreamResync{Reason: "retry"})
	p.text(prose("lifecycle_3"))
	p.step("stop")
}

// checkpoint is the last one before the step that is being written, nil before
// the first.
func (p *pen) checkpoint() *string {
	if len(p.agent.Steps) == 0 {
		return nil
	}
	return new(p.agent.CheckpointID(len(p.agent.Steps)))
}

// subagents asks two colleagues at the same time; the researcher asks a third.
func (p *pen) subagents() {
	p.text(prose("subagents_before"))
	p.ask(map[string]string{
		"researcher":   "Find a way to the lake on Sunday, without a car.",
		"cartographer": "Say in which direction the ridge is better walked.",
	}, p.researcher(), p.cartographer())
	p.step("tool-calls")
	p.text(prose("subagents_after"))
	p.step("stop")
}

// ask calls the agents as tools, each with its task, and waits for all of them.
func (p *pen) ask(tasks map[string]string, calls ...Call) {
	for _, c := range calls {
		p.say(chunk.ToolStart{ToolCallID: c.ID, ToolName: c.ToolName(), Arguments: value(map[string]any{"task": tasks[c.Agent.Type]})})
	}
	p.act(Act{Ask: calls})
}

func (p *pen) researcher() Call {
	id := p.call()
	q := newPen(p.agent.child(id), "researcher", p.rate)
	q.text(prose("researcher_1"))
	search := q.streamedTool("search_timetable", map[string]any{"to": "the lake", "day": "Sunday", "before": "09:00"})
	q.wait(500 * time.Millisecond)
	q.result(search, "search_timetable", []map[string]any{{"train": "RE 7", "at": "07:12", "arrives": "08:40"}, {"bus": "42", "at": "08:50"}})
	q.step("tool-calls")
	q.thought("The bus on Sundays is a guess of mine. A colleague should check it.")
	q.text(prose("researcher_2"))
	q.ask(map[string]string{"fact-checker": "Does the bus go on Sundays?"}, q.checker())
	q.step("tool-calls")
	q.text(prose("researcher_3"))
	q.fact(chunk.SourceURL{SourceID: "src-rail", URL: "https://example.org/timetable", Title: new("Timetable of the valley")})
	return Call{ID: id, Agent: q.done(map[string]any{"train": "07:12", "walkMinutes": 15})}
}

func (p *pen) checker() Call {
	id := p.call()
	q := newPen(p.agent.child(id), "fact-checker", p.rate)
	q.wait(300 * time.Millisecond)
	q.text(prose("checker"))
	q.state(put("add", "/claims", []map[string]any{{"claim": "bus on Sundays", "holds": false}}))
	return Call{ID: id, Agent: q.done(map[string]any{"holds": false})}
}

func (p *pen) cartographer() Call {
	id := p.call()
	q := newPen(p.agent.child(id), "cartographer", p.rate)
	q.text(prose("cartographer_1"))
	q.state(put("add", "/route", map[string]any{"kilometres": 9, "metresUp": 640}))
	q.step("stop")
	q.text(prose("cartographer_2"))
	q.state(put("add", "/route/direction", "north to south"))
	return Call{ID: id, Agent: q.done(map[string]any{"kilometres": 9, "metresUp": 640, "direction": "north to south"})}
}
