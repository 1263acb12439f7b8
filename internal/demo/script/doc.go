// Package script holds what the demo agent says: scenarios, each a pure list of
// steps.
//
// A scenario and an Env give an Agent, and the same two give the same Agent,
// word for word and pause for pause. That is what lets a second worker go on
// where a first one was killed: it builds the list again and starts after the
// last step that is committed in the log.
//
//	scenario, ok := script.Find("tour")
//	agent := scenario.Agent(script.Env{Session: session, RunID: run})
//	for n, step := range agent.Steps {
//		for _, act := range step.Acts { … } // say, pause, or call sub-agents
//	}
//
// The frame around each step (step_start, step_end, checkpoint_created,
// step_committed) is no part of the list; whoever plays it puts that in. All
// other chunk types of the protocol are here: the scenarios together use every
// one of them.
package script
