package chat

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tailrace/tailrace/internal/control"
)

// reportWait reports once that a command waits for a worker: to the page, which would show nothing for up to a day, to the log and to the metrics.
func (st *stream) reportWait(ctx context.Context, c *control.Command) error {
	waited, limit := time.Since(c.Issued), st.service.cfg.WaitNotice
	if st.noticed || limit < 0 || waited < limit {
		return nil
	}
	st.noticed = true
	st.service.metrics.waited()
	st.service.shared.Log.WarnContext(ctx, "no worker has started the run", "session", c.Session.String(), "run", c.RunID, "agentType", c.AgentType, "waited", waited.Round(time.Second))
	var notice struct {
		Type string `json:"type"`
		Data struct {
			RunID   string `json:"runId"`
			Seconds int    `json:"seconds"`
		} `json:"data"`
		Transient bool `json:"transient"`
	}
	notice.Type, notice.Transient = "data-run-waiting", true
	notice.Data.Seconds = int(waited.Seconds())
	if st.message.view.RunIDs() {
		notice.Data.RunID = c.RunID
	}
	data, err := json.Marshal(notice)
	if err != nil {
		return err
	}
	st.buffer = append(append(append(st.buffer, "data: "...), data...), "\n\n"...)
	return st.flush()
}
