// Package health observes the dependencies of a process in the background and serves its probes.
//
// A probe answers from the memory of the process. Without that, one stream without a leader would make each process that
// needs it unready at the same time: a balancer would have no backend left for clients that the other streams can serve,
// and each probe would be a dozen requests to the servers that have the problem.
//
//	monitor := health.NewMonitor(registry, log)
//	monitor.Add(health.Check{Dependencies: []string{"nats"}, Probe: …})
//	mux.Handle("/", health.Probes{Ready: []health.Condition{…}, Monitor: monitor}.Handler())
//	err = monitor.Run(ctx)
//
// /readyz depends on conditions of the process alone. The states of the dependencies are in its body, in the metric
// tailrace_dependency_up and, when they change, in the log.
package health
