package workers

import "testing"

// A worker takes a run over, and sleeps before it reads how far the run came; until
// another one has done a step, and paused. It does not go on from there: what the
// next step does to the world would be done under a key of the wrong run, and
// once more under the right one.
func TestASleeperDoesNotGoOnFromTheStepsOfOthers(t *testing.T) {
	x := newExplorer(t)
	x.calm("call+ask")
	tale := x.begin("call+ask", nil)
	dead := tale.deliver(tale.waiting[0])
	tale.until(dead, 1, "agent: step 1")
	tale.kill(dead)
	sleeper := tale.deliver(tale.waiting[0])
	tale.until(sleeper, 2, "read the log of s0")
	tale.finish(tale.deliver(tale.waiting[0]))
	if err := tale.end(x.want["call+ask"]); err != nil {
		t.Errorf("%v\n%s", err, tale.account())
	}
}

// An abort is wanted of a run that has paused, and who wanted it died before he
// could ask for it. It is not the command of the pause that ends the run: an
// acknowledgement of that may be on its way, and takes it away from whoever opens
// the run to end it, and dies.
func TestAnAbortIsACommandOfItsOwn(t *testing.T) {
	x := newExplorer(t)
	tale := x.begin("chain", nil)
	tale.stopped = true
	sleeper := tale.deliver(tale.waiting[0])
	tale.until(sleeper, 1, "acknowledge")
	person := tale.abort()
	tale.until(person, 1, "request abort of s0/r0 behind 1")
	tale.kill(person)
	opener := tale.deliver(tale.waiting[0])
	tale.step(opener, pass) // it looks at the session,
	tale.step(opener, pass) // and finds the wish
	tale.kill(opener)
	if err := tale.end(outcomes{}); err != nil {
		t.Errorf("%v\n%s", err, tale.account())
	}
}
