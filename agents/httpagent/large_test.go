package httpagent

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// The result of a tool, data of an agent and the file of a user, of several MiB each, are objects, and reach an agent of each dialect in full. AG-UI has no data of agents
// in requests, and Kortyx none of them.
func TestLargeValuesReachEachAgent(t *testing.T) {
	result := chunk.Value(`{"rows":["` + strings.Repeat(`row","`, 350_000) + `"]}`)
	data := []byte(strings.Repeat("pixel", 400<<10))
	picture := values.MakeDataURL("image/png", data)
	quoted, err := json.Marshal(string(result))
	if err != nil {
		t.Fatal(err)
	}
	_, encoded, _ := strings.Cut(picture, ",")
	file, output, table := `"url":"`+picture+`"`, `"output":`+string(result), `"data":`+string(result)
	for dialect, want := range map[string][]string{
		AISDK: {file, output, table}, Mastra: {file, output, table}, Native: {file, output, table}, AGUI: {`"value":"` + encoded + `"`, `"content":` + string(quoted)},
	} {
		t.Run(dialect, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { http.Error(rw, "no", http.StatusForbidden) })
			w.serve(w.agent(func(c *Config) { c.Dialect = dialect }))
			s := chunk.RootSession("acme", "large")
			r, err := w.NewWriter(producers.Config{}).Start(t.Context(), s, chunk.RunStarted{RunID: "r0", Input: []chunk.InputMessage{{Content: "Go."}}}, producers.AgentType("app"))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []chunk.Body{
				chunk.ToolStart{ToolCallID: "c", ToolName: "rows", Arguments: chunk.Value(`{}`)}, chunk.ToolEnd{ToolCallID: "c", ToolName: "rows", Result: result, ProviderExecuted: new(true)},
				chunk.Custom{EventName: "table", Data: result},
			} {
				if _, err := r.Write(t.Context(), chunk.Chunk{Body: b}); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.End(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			k := values.NewKey(r.Epoch()+1, chunk.TypeRunStarted, "input", data)
			if err := jsvalues.New(jsclient.New(w.JS), subjects.Layout{}).Put(t.Context(), s, k, "image/png", data); err != nil {
				t.Fatal(err)
			}
			w.post(control.Command{
				Kind: control.Execute, Session: s, AgentType: "app", RunID: "r1", Issued: time.Now(),
				Input: []chunk.InputMessage{{Content: "What is it?", Files: []chunk.InputFile{{URL: values.URL(s, k), MediaType: "image/png"}}}},
			})
			w.Await(s, "the failure", func(s fold.Snapshot) bool { return s.Status == fold.Failed })
			body := w.requests()[0].body
			for _, part := range want {
				if !strings.Contains(body, part) {
					t.Errorf("%d bytes without %.60s…: %.300s … %s", len(body), part, body, body[max(0, len(body)-600):])
				}
			}
			if strings.Contains(body, "tailraceValue") || strings.Contains(body, "/values/") {
				t.Error("the request has a reference")
			}
		})
	}
}
