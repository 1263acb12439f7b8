package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/values"
)

// The result of a tool of 600 KiB is stored in each dialect, also one with more members than a record may have. Pages have a reference to it in each dialect, or all of it for a client that asks for it.
func TestLargeResults(t *testing.T) {
	w := newEnv(t, nil)
	for kind, result := range map[string]string{"text": `"` + strings.Repeat("rows ", 120<<10) + `"`, "rows": `[0` + strings.Repeat(",12345678901", 50_000) + `]`} {
		w.largeResults(t, kind, result)
	}
}

func (w *env) largeResults(t *testing.T, kind, result string) {
	t.Helper()
	content := result // a text of JSON
	if kind == "rows" {
		content = `"` + result + `"`
	}
	for name, lines := range map[string][]string{
		"native": {`{"type":"tool_start","toolCallId":"c","toolName":"f","arguments":{}}`, `{"type":"tool_end","toolCallId":"c","toolName":"f","result":` + result + `}`},
		"aisdk": {
			`{"type":"start"}`, `{"type":"tool-input-available","toolCallId":"c","toolName":"f","input":{}}`, `{"type":"tool-output-available","toolCallId":"c","output":` + result + `}`,
			`{"type":"finish"}`,
		},
		"agui": {
			`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`,
			`{"type":"TOOL_CALL_END","toolCallId":"c"}`, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":` + content + `}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		},
	} {
		t.Run(kind+" "+name, func(t *testing.T) {
			session := "/v1/sessions/large-" + kind + "-" + name
			a := w.ask(http.MethodPost, session+"/runs", `{"runId":"r"}`)
			if a.status != http.StatusCreated {
				t.Fatal(a)
			}
			query := fmt.Sprintf("?epoch=%d", a.number("epoch"))
			if name != "native" {
				query += "&dialect=" + name
			}
			if a := w.append(session+"/runs/r/chunks"+query, strings.Join(lines, "\n")+"\n"); a.status != http.StatusOK {
				t.Fatalf("%s %.500s", a, a.body)
			}
			for _, dialect := range []string{"native", "aisdk", "agui", "helix", "mastra"} { // pages of Kortyx have no results of tools
				page := session + "/snapshot?partial=1&dialect=" + dialect
				if a := w.ask(http.MethodGet, page, ""); a.status == http.StatusBadRequest {
					continue // a dialect without snapshots
				} else if a.status != http.StatusOK || strings.Contains(a.body, result[1:100]) || !strings.Contains(a.body, "-tool_end-result-") {
					t.Errorf("%s: %s %.1000s", dialect, a, a.body)
				}
				shown := result
				if dialect == "agui" && content != result {
					shown = content // a text of JSON
				}
				if a := w.ask(http.MethodGet, page+"&inline=1048576", ""); !strings.Contains(a.body, shown) {
					t.Errorf("%s inline: %s %.1000s", dialect, a, a.body)
				}
			}
		})
	}
}

// A file of 32 MiB arrives in a line. One byte more fails its part, and the run continues. A line over the limit is refused, and so is one for which its tenant has no
// share of the memory of bodies; the lines before it are stored.
func TestLargestLines(t *testing.T) {
	file := func(size int) string {
		return `{"type":"file","mediaType":"image/png","url":"` + values.MakeDataURL("image/png", make([]byte, size)) + `"}` + "\n"
	}
	largest := file(values.MaxBytes)
	for name, tt := range map[string]struct {
		memory            int64 // of bodies, 0 for the default
		line, want, shown string
	}{
		"the largest value": {0, largest, "", `"url":"/v1/sessions/largest/values/1-file-url-`},
		"one byte more":     {0, file(values.MaxBytes + 1), "", "value_too_large"},
		"a longer line":     {0, `{"type":"custom","eventName":"x","data":"` + strings.Repeat("x", 44<<20) + `"}` + "\n", "LINE_TOO_LARGE", ""},
		"without a share":   {32 << 20, largest, "TOO_MANY_BODIES", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(c *envConfig) { c.edge.BodyBytes = tt.memory })
			if a := w.ask(http.MethodPost, "/v1/sessions/largest/runs", openS1); a.status != http.StatusCreated {
				t.Fatal(a)
			}
			const text = `{"type":"text_delta","delta":"ok"}` + "\n"
			if a := w.append("/v1/sessions/largest/runs/r1/chunks?epoch=1", text+tt.line+text); !strings.Contains(a.body, tt.want) || tt.want == "" && a.text("code") != "" {
				t.Errorf("%s %.300s, want %s", a, a.body, tt.want)
			}
			var stored string
			for _, r := range w.Records(chunk.RootSession(tenant, "largest")) {
				stored += string(r.Data) + "\n"
			}
			if !strings.Contains(stored, `"delta":"ok"`) || !strings.Contains(stored, tt.shown) {
				t.Errorf("records %.1000s, want %s", stored, tt.shown)
			}
		})
	}
}
