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

// The result of a tool arrives in a CloudEvent of each mode as in a line. A value of more than 32 MiB fails its part, and the run continues; a body over the limit is
// refused, and so is one for which its tenant has no share of the memory of bodies.
func TestLargeEvents(t *testing.T) {
	const head = `{"specversion":"1.0","id":"e1","source":"a","type":"tool_end","data":`
	result := func(size int) string {
		return `{"toolCallId":"c","toolName":"f","result":"` + strings.Repeat("x", size) + `"}`
	}
	binary := []string{"ce-specversion", "1.0", "ce-id", "e1", "ce-source", "a", "ce-type", "tool_end"}
	for name, tt := range map[string]struct {
		memory      int64 // of bodies, 0 for the default
		media, body string
		header      []string
		want, shown string
	}{
		"structured":      {0, mediaEvent, head + result(5<<20) + "}", nil, "200", `"tailraceValue":"1-tool_end-result-`},
		"a batch":         {0, mediaBatch, "[" + head + result(5<<20) + "}]", nil, "200", `"tailraceValue":"1-tool_end-result-`},
		"binary":          {0, "application/json", result(5 << 20), binary, "200", `"tailraceValue":"1-tool_end-result-`},
		"over the limit":  {0, "application/json", result(values.MaxBytes), binary, "200", values.CodeTooLarge},
		"a longer body":   {0, mediaEvent, head + result(44<<20) + "}", nil, "413 CONTENT_TOO_LARGE", ""},
		"without a share": {1 << 20, mediaEvent, head + result(5<<20) + "}", nil, "503 TOO_MANY_BODIES", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(c *envConfig) { c.edge.BodyBytes = tt.memory })
			w.open(openS1)
			if a := w.append("/v1/sessions/s1/runs/r1/chunks?epoch=1", `{"type":"tool_start","toolCallId":"c","toolName":"f","arguments":{}}`+"\n"); a.status != http.StatusOK {
				t.Fatal(a)
			}
			a, err := w.edges[0].send(t.Context(), http.MethodPost, eventsS1, tt.media, strings.NewReader(tt.body), tt.header...)
			if err != nil || a.String() != tt.want {
				t.Errorf("%s %.300s %v, want %s", a, a.body, err, tt.want)
			}
			var stored string
			for _, r := range w.Records(chunk.RootSession(tenant, "s1"))[2:] {
				stored += string(r.Data)
			}
			if !strings.Contains(stored, tt.shown) || len(stored) > 1000 || tt.shown == "" && stored != "" {
				t.Errorf("records %.1000s, want %s", stored, tt.shown)
			}
		})
	}
}

// The file of a user and the output are stored in the requests that open and end a run, as in lines.
func TestLargeInputAndOutput(t *testing.T) {
	w := newEnv(t, nil)
	w.open(`{"runId":"r1","input":[{"content":"What is it?","files":[{"url":"` + values.MakeDataURL("image/png", make([]byte, 3<<20)) + `","mediaType":"image/png"}]}]}`)
	if a := w.ask(http.MethodPost, "/v1/sessions/s1/runs/r1/end?epoch=1", `{"finalOutput":"`+strings.Repeat("x", 5<<20)+`"}`); a.status != http.StatusOK {
		t.Errorf("%s %.300s", a, a.body)
	}
	var stored string
	for _, r := range w.Records(chunk.RootSession(tenant, "s1")) {
		stored += string(r.Data)
	}
	if len(stored) > 2000 || !strings.Contains(stored, `"/v1/sessions/s1/values/1-run_started-input-`) || !strings.Contains(stored, `"tailraceValue":"1-stream_end-finalOutput-`) {
		t.Errorf("records %.2000s, want two references", stored)
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
