//go:build e2e && mixed

package compat

import (
	"os"
	"testing"
)

// TestOldBinaryReads checks that an earlier build reads the data that this build has added to the
// recorded store.
func TestOldBinaryReads(t *testing.T) {
	base := os.Getenv("TAILRACE_COMPAT_BASE")
	if base == "" {
		t.Fatal("TAILRACE_COMPAT_BASE is not set: want the path of an earlier tailrace binary")
	}
	dir, want := openStore(t)
	w := startEnv(t, binary(t), dir)
	w.continueWork(t, want)
	after := recorded{}
	for _, x := range want.Answers {
		if x.Ask.Until == "" { // the others have ended by now and are checked below
			after.Answers = append(after.Answers, exchange{x.Ask, w.ask(t, x.Ask)})
		}
	}
	for _, session := range []string{openCall, openApproval, queued, queuedChat} {
		for _, a := range []ask{{Path: "/v1/sessions/" + session + "/events"}, {Path: "/api/chat/" + session + "/stream", Cursor: "1"}, {Args: []string{"tail", session}}} {
			after.Answers = append(after.Answers, exchange{a, w.ask(t, a)})
		}
	}
	w.up.stop(t)
	w = startEnv(t, base, dir)
	w.compare(t, after)
	for _, session := range []string{openCall, openApproval, queued, queuedChat} {
		w.await(t, session, "ended")
	}
}
