package workers

import "testing"

// A worker takes a run over and stalls before it reads the progress of the run, until a successor has
// committed a step and paused. It must not continue from that step: the side effects of the next step would
// have a key of the wrong run, and would be repeated under the right one.
func TestFrozenWorkerIgnoresStepsOfSuccessor(t *testing.T) {
	x := newSimulation(t)
	x.runUndisturbed("call+ask")
	sched := x.start("call+ask", nil)
	crashed := sched.deliver(sched.queued[0])
	sched.until(crashed, 1, "agent: step 1")
	sched.kill(crashed)
	frozen := sched.deliver(sched.queued[0])
	sched.until(frozen, 2, "read the log of s0")
	sched.finish(sched.deliver(sched.queued[0]))
	if err := sched.end(x.want["call+ask"]); err != nil {
		t.Errorf("%v\n%s", err, sched.trace())
	}
}

// A client aborts a suspended run and crashes before it queues the command. The command of the pause must not
// end the run: its acknowledgement may be in flight and would remove it while the worker that starts the run
// in order to end it crashes.
func TestAbortUsesSeparateCommand(t *testing.T) {
	x := newSimulation(t)
	sched := x.start("chain", nil)
	sched.stopped = true
	frozen := sched.deliver(sched.queued[0])
	sched.until(frozen, 1, "acknowledge")
	client := sched.abort()
	sched.until(client, 1, "request abort of s0/r0 after 1")
	sched.kill(client)
	starter := sched.deliver(sched.queued[0])
	sched.step(starter, noFault) // it loads the session
	sched.step(starter, noFault) // and finds the stop request
	sched.kill(starter)
	if err := sched.end(outcomes{}); err != nil {
		t.Errorf("%v\n%s", err, sched.trace())
	}
}
