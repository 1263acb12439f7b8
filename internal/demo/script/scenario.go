package script

import "slices"

// Scenario is one thing that the demo agent can be asked for.
type Scenario struct {
	Name    string // what the API calls it
	Title   string // what people see
	Summary string // one sentence about what there is to see
	Prompt  string // what the person says
	write   func(*pen)
	rate    float64 // tokens per second
}

// AgentType is the agent type of every scenario's root agent.
const AgentType = "demo"

// Agent is what the scenario does in one run. It is the same every time for the
// same Env.
func (s Scenario) Agent(env Env) Agent {
	p := newPen(env, AgentType, s.rate)
	s.write(p)
	return p.done(map[string]string{"scenario": s.Name})
}

// Find is the scenario of that name.
func Find(name string) (Scenario, bool) {
	all := Scenarios()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return all[i], true
}

// Scenarios are all scenarios, in the order in which to offer them.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "tour", Title: "The grand tour", rate: 45, write: (*pen).tour,
			Summary: "Everything an agent can say, in about a minute.",
			Prompt:  "Show me everything you can do.",
		}, {
			Name: "plain", Title: "A plain answer", rate: 32, write: (*pen).plain,
			Summary: "Text and nothing else.",
			Prompt:  "What is an event log?",
		}, {
			Name: "thinking", Title: "Thinking aloud", rate: 36, write: (*pen).thinking,
			Summary: "Two blocks of reasoning, then the answer.",
			Prompt:  "A long weekend in May: Porto or Valencia?",
		}, {
			Name: "tool-args", Title: "Streamed arguments", rate: 28, write: (*pen).toolArgs,
			Summary: "A tool call whose arguments arrive piece by piece.",
			Prompt:  "Write me a note for the trip.",
		}, {
			Name: "parallel", Title: "Three tools at once", rate: 30, write: (*pen).parallel,
			Summary: "Parallel calls, interleaved arguments, results out of order.",
			Prompt:  "How is the weather in Lisbon, Kyoto and Reykjavík?",
		}, {
			Name: "failing", Title: "Things go wrong", rate: 30, write: (*pen).failing,
			Summary: "A bad input, a broken tool, an error that passes, and a good end.",
			Prompt:  "Book a table for four on Thursday.",
		}, {
			Name: "subagents", Title: "Asking colleagues", rate: 28, write: (*pen).subagents,
			Summary: "Two sub-agents at the same time, one of them with a sub-agent of its own.",
			Prompt:  "Plan a hike for Sunday, without a car.",
		}, {
			Name: "state", Title: "A plan that changes", rate: 30, write: (*pen).planning,
			Summary: "State that is added, replaced, moved and removed.",
			Prompt:  "Plan my two days in Lisbon.",
		}, {
			Name: "sources", Title: "Sources and files", rate: 30, write: (*pen).sources,
			Summary: "Web sources, a document, a picture, progress events and a structured result.",
			Prompt:  "How long do readers stay away?",
		}, {
			Name: "approval", Title: "A rule decides", rate: 30, write: (*pen).approval,
			Summary: "Approvals that code gives and refuses.",
			Prompt:  "Clean up my drafts and old invoices.",
		}, {
			Name: "lifecycle", Title: "The life of a run", rate: 32, write: (*pen).lifecycle,
			Summary: "Paused, active, interrupted, resumed, resynchronised.",
			Prompt:  "Take a break when you need one.",
		}, {
			Name: "long", Title: "A long story", rate: 60, write: (*pen).long,
			Summary: "Twelve chapters in some thousand pieces. Good for closing the laptop in the middle.",
			Prompt:  "Tell me a long story about logs.",
		},
	}
}
