package httpagent

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// A message of a user with data alone reaches an agent of each dialect: as a part, or as a line of JSON where messages have no data.
func TestDataReachesEachAgent(t *testing.T) {
	const part, line = `{"type":"data-place","data":{"lat":46.9}}`, `"content":"{\"type\":\"data-place\",\"data\":{\"lat\":46.9}}"`
	for dialect, want := range map[string]string{AISDK: part, Mastra: part, Native: part, AGUI: line, Kortyx: line} {
		t.Run(dialect, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { http.Error(rw, "no", http.StatusForbidden) })
			w.serve(w.agent(func(c *Config) { c.Dialect = dialect }))
			s := chunk.RootSession("acme", "data")
			w.post(control.Command{
				Kind: control.Execute, Session: s, AgentType: "app", RunID: "r1", Issued: time.Now(),
				Input: []chunk.InputMessage{{Data: []chunk.InputData{{Name: "place", Data: chunk.Value(`{"lat":46.9}`)}}}},
			})
			w.Await(s, "the failure", func(s fold.Snapshot) bool { return s.Status == fold.Failed })
			if body := w.requests()[0].body; !strings.Contains(body, want) {
				t.Errorf("body %s\nwant %s in it", body, want)
			}
		})
	}
}
