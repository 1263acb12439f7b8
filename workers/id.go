package workers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// What has to be found again after a worker died is a function of what the log
// has: the session and the run of a sub-agent, and the key of a side effect.

// childSession is the session of the sub-agent that a call of a run starts.
func childSession(s chunk.Session, run, call string) chunk.Session {
	return s.Child("sub-" + digest("session", s.Tenant, s.Root, s.ID, run, call))
}

// childRun is the first run in it.
func childRun(s chunk.Session, run, call string) string {
	return "run-" + digest("run", s.Tenant, s.Root, s.ID, run, call)
}

// idempotencyKey names a side effect of a call.
func idempotencyKey(s chunk.Session, run, call string) string {
	return digest("effect", s.Tenant, s.Root, s.ID, run, call)
}

// approvalID is how people's answers name an approval.
func approvalID(run, call string) string { return run + "::" + call }

// askedBy is the run that asked for an approval, fallback when its id is not of
// our making.
func askedBy(approval, fallback string) string {
	if run, _, ok := strings.Cut(approval, "::"); ok && run != "" {
		return run
	}
	return fallback
}

func stepID(run string, n int64) string { return fmt.Sprintf("%s-%d", run, n) }

// checkpointID names the checkpoint that step n of a writer's run makes. The
// epoch tells it from one of the same step that was taken back.
func checkpointID(s chunk.Session, run string, epoch chunk.Epoch, n int64) string {
	return fmt.Sprintf("cpv1-%s-s%d-t%d-%s", s.ID, n, time.Now().UnixMilli(), digest("checkpoint", run, fmt.Sprintf("%d/%d", epoch, n))[:6])
}

// digest is 128 bits of a hash of the parts, each behind its length.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
