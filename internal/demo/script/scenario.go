package script

import "slices"

// Scenario is a script of the root agent.
type Scenario struct {
	Name    string // in the API
	Title   string // shown to users
	Summary string // one sentence, shown to users
	Prompt  string // the user message
	write   func(*scriptBuilder)
	rate    float64 // tokens per second
}

// AgentType is the agent type of every scenario.
const AgentType = "demo"

// Agent returns the script of the scenario, a function of the session and the turn of info.
func (s Scenario) Agent(info RunInfo) Agent {
	p := newBuilder(info, AgentType, s.rate)
	s.write(p)
	return p.done(map[string]string{"scenario": s.Name})
}

// Find returns the scenario with a name.
func Find(name string) (Scenario, bool) {
	all := Scenarios()
	i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
	if i < 0 {
		return Scenario{}, false
	}
	return all[i], true
}

// Scenarios returns all scenarios in the order for users.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "tour", Title: "The grand tour", rate: 45, write: (*scriptBuilder).tour,
			Summary: "Everything an agent can say, in about a minute.",
			Prompt:  "Show me everything you can do.",
		}, {
			Name: "plain", Title: "A plain answer", rate: 32, write: (*scriptBuilder).plain,
			Summary: "Text and nothing else.",
			Prompt:  "What is an event log?",
		}, {
			Name: "thinking", Title: "Thinking aloud", rate: 36, write: (*scriptBuilder).thinking,
			Summary: "Two blocks of reasoning, then the answer.",
			Prompt:  "A long weekend in May: Porto or Valencia?",
		}, {
			Name: "tool-args", Title: "Streamed arguments", rate: 28, write: (*scriptBuilder).toolArgs,
			Summary: "A tool call whose arguments arrive piece by piece.",
			Prompt:  "Write me a note for the trip.",
		}, {
			Name: "parallel", Title: "Three tools at once", rate: 30, write: (*scriptBuilder).parallel,
			Summary: "Parallel calls, interleaved arguments, results out of order.",
			Prompt:  "How is the weather in Lisbon, Kyoto and Reykjavík?",
		}, {
			Name: "failing", Title: "Things go wrong", rate: 30, write: (*scriptBuilder).failing,
			Summary: "A bad input, a broken tool, an error that passes, and a good end.",
			Prompt:  "Book a table for four on Thursday.",
		}, {
			Name: "subagents", Title: "Asking colleagues", rate: 28, write: (*scriptBuilder).subagents,
			Summary: "Two sub-agents at the same time, one of them with a sub-agent of its own.",
			Prompt:  "Plan a hike for Sunday, without a car.",
		}, {
			Name: "state", Title: "A plan that changes", rate: 30, write: (*scriptBuilder).planning,
			Summary: "State that is added, replaced, moved and removed.",
			Prompt:  "Plan my two days in Lisbon.",
		}, {
			Name: "sources", Title: "Sources and files", rate: 30, write: (*scriptBuilder).sources,
			Summary: "Web sources, a document, a picture, progress events and a structured result.",
			Prompt:  "How long do readers stay away?",
		}, {
			Name: "approval", Title: "A rule decides", rate: 30, write: (*scriptBuilder).approval,
			Summary: "Approvals that code gives and refuses.",
			Prompt:  "Clean up my drafts and old invoices.",
		}, {
			Name: "asking", Title: "You decide", rate: 30, write: (*scriptBuilder).asking,
			Summary: "A call that waits until you allow or deny it.",
			Prompt:  "Delete my old drafts.",
		}, {
			Name: "lifecycle", Title: "The life of a run", rate: 32, write: (*scriptBuilder).lifecycle,
			Summary: "Paused, active, interrupted, resumed, resynchronised.",
			Prompt:  "Take a break when you need one.",
		}, {
			Name: "long", Title: "A long story", rate: 60, write: (*scriptBuilder).long,
			Summary: "Twelve chapters in some thousand pieces. Good for closing the laptop in the middle.",
			Prompt:  "Tell me a long story about logs.",
		},
	}
}
