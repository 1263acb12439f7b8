package workers

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// An approval of another input than the one in the log is not used: the call fails with a code and is not executed, and the audit log has it. The records of the
// answers have the clients that gave them, without their tokens.
func TestApprovalOfAnotherInput(t *testing.T) {
	for name, tt := range map[string]struct {
		input string
		ran   int64
	}{
		"the same, written otherwise": {`{ "euro": 5.0 }`, 1},
		"another one":                 {`{"euro":500}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "asking", "Hello?")
			var ran atomic.Int64
			w.serve(w.worker(map[string]Agent{"asking": askingAgent(0, &ran)}))
			w.Request(c)
			w.AwaitStatus(c.Session, fold.Paused)
			where, pay := location(c), payment(c, true, "")
			where.By = &chunk.Principal{Subject: "ann", TokenID: "token-1"}
			pay.By = &chunk.Principal{Subject: "bob", Issuer: new("https://login.example"), TokenID: "token-2"}
			pay.InputHash = control.InputHash(chunk.Value(tt.input))
			w.answer(where)
			w.answer(pay)
			w.resume(c.Session, "asking", "r1")
			snap := w.AwaitStatus(c.Session, fold.Ended)
			if ran.Load() != tt.ran {
				t.Errorf("ran %d times, want %d:\n%s", ran.Load(), tt.ran, transcript(snap))
			}
			var log strings.Builder
			for _, rec := range w.Records(c.Session) {
				log.Write(rec.Data)
			}
			if text := log.String(); !strings.Contains(text, `"by":{"subject":"ann"}`) || strings.Contains(text, "token-") ||
				strings.Contains(text, `"by":{"subject":"bob","issuer":"https://login.example"}`) != (tt.ran == 1) || strings.Contains(text, CodeInputMismatch) != (tt.ran == 0) {
				t.Errorf("log: %s", text)
			}
			store, err := jscontrol.NewAudit(w.JS, subjects.Layout{})
			if err != nil {
				t.Fatal(err)
			}
			rejected := 0
			for e, err := range store.Events(t.Context(), jscontrol.AuditQuery{}) {
				if err != nil || e.Act != audit.RejectAnswer || e.By.TokenID != "token-2" {
					t.Errorf("%+v, %v", e, err)
				}
				if e.Session == c.Session {
					rejected++
				}
			}
			if rejected != int(1-tt.ran) {
				t.Errorf("%d events", rejected)
			}
		})
	}
}
