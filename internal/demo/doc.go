// Package demo provides the demo agents, and the HTTP handler that starts them.
//
// The agents are workers.Agents that play the scenarios of package script:
//
//	w, err := workers.New(js, workers.Config{Agents: demo.Agents(demo.ScaledPace(1))})
//	go w.Run(ctx)
//	handler, err := demo.NewHandler(demo.HandlerConfig{Queue: queue, Shared: edge.Shared()})
//	edge.Mount(handler)                                  // POST runs, GET scenarios
//
// They keep no state: the next step of a turn follows from the number of committed steps, after a crash as well
// as after a suspension.
package demo
