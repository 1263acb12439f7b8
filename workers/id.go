package workers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// The key of a side effect is a function of the log: another worker must find it after a crash.

// idempotencyKey returns the key of the side effect of a call.
func idempotencyKey(s chunk.Session, run, call string) string {
	return digest("effect", s.Tenant, s.Root, s.ID, run, call)
}

// approvalID returns the id by which answers refer to an approval.
func approvalID(run, call string) string { return run + "::" + call }

// approvalRun returns the run that requested an approval, or fallback if the SDK did not create the id.
func approvalRun(approval, fallback string) string {
	if run, _, ok := strings.Cut(approval, "::"); ok && run != "" {
		return run
	}
	return fallback
}

func stepID(run string, n int64) string { return fmt.Sprintf("%s-%d", run, n) }

// checkpointID returns the id of the checkpoint of step n. It contains the epoch, because the same step may
// have been committed and rolled back under an earlier one.
func checkpointID(s chunk.Session, run string, epoch chunk.Epoch, n int64) string {
	return fmt.Sprintf("cpv1-%s-s%d-t%d-%s", s.ID, n, time.Now().UnixMilli(), digest("checkpoint", run, fmt.Sprintf("%d/%d", epoch, n))[:6])
}

// digest returns 128 bits of a hash of the parts, each preceded by its length.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
