// Package demo is the agent that everybody can try: a worker that plays scripts
// into the log, the HTTP handler that asks it to, and the page that shows it.
//
// It uses commands, inbox, producers and consumers as any worker would, and nothing
// else; read it as an example of one.
//
//	worker, err := demo.NewWorker(demo.WorkerConfig{Queue: queue, Producer: producer, Log: reader, Inbox: box})
//	go worker.Run(ctx)                                   // plays what is asked for
//	front, err := demo.NewHandler(demo.HandlerConfig{Queue: queue, Tenant: "default"})
//	mux.Handle("/", front)                               // the page
//	mux.Handle("/v1/demo/", front)                       // POST runs, GET scenarios
//
// # What happens when a worker dies
//
// Nothing is remembered but the log. At the end of each step the worker writes
// checkpoint_created and step_committed, and goes on when they are stored. A
// worker that gets a command reads the session first:
//
//   - nothing of the run is there: it starts the run,
//   - the run is unfinished: it takes the run over with a higher epoch, which
//     stops the other worker should it still live; removes what came after the
//     last committed step, says so (stream_resync), and goes on with the next step,
//   - the run is finished: it acknowledges the command.
//
// Sub-agents have sessions of their own, whose names follow from the run and
// the call. A step that called sub-agents and was not finished is played again:
// it finds their sessions, and each goes on in the same way from where it was.
package demo
