// Package script holds the scenarios of the demo agents, each a pure list of steps.
//
// A scenario and a RunInfo give an Agent; the same Session and Turn give the same Agent with the same pauses.
// After a crash or a suspension another worker builds the list again and continues with the first step that is
// not committed:
//
//	scenario, ok := script.Find("tour")
//	agent := scenario.Agent(script.RunInfo{Session: session, Turn: turn, RunID: run})
//	for _, step := range agent.Steps {
//		for _, act := range step.Acts { … } // write a chunk, or call sub-agents
//	}
//
// The workers SDK adds the records around steps, calls, suspensions and retries. All other chunk types of the
// protocol are in the scenarios.
package script
