// Package demo provides the demo agents.
//
// The agents are workers.Agents that play the scenarios of package script:
//
//	w, err := workers.New(js, workers.Config{Agents: demo.Agents(demo.ScaledPace(1))})
//	go w.Run(ctx)
//
// They keep no state: the next step of a turn follows from the number of committed steps, after a crash as well
// as after a suspension.
package demo
