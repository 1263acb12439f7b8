package ingest

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openapitest"
)

// Every route is in the document, and every operation of the document is a route.
func TestEveryRouteIsDocumented(t *testing.T) {
	routes := newEnv(t, nil).edges[0].server.surface.Routes()
	slices.Sort(routes)
	if documented := openapitest.Load(t).Operations("ingest"); !slices.Equal(routes, documented) {
		t.Errorf("the server has\n%q, the document\n%q", routes, documented)
	}
}

// Every response matches the document, and the tests cover every response in the document.
func TestAnswersAreDocumented(t *testing.T) {
	doc := openapitest.Load(t)
	w := newEnv(t, nil)
	ask := func(method, path, media, body string, header ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, w.edges[0].url+"/v1/sessions/s1/runs"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if media != "" {
			req.Header.Set("Content-Type", media)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		doc.Check(t, resp, text)
	}
	const jsonType, lines, q = "application/json", "application/x-ndjson", "?epoch=1&root=s1"
	ask(http.MethodGet, "/r1?root=s1", "", "")
	ask(http.MethodPost, "?root=s1", jsonType, openS1)
	ask(http.MethodPost, "?root=s1", jsonType, openS1)
	ask(http.MethodPost, "", jsonType, `{"runId":"r2"}`)
	ask(http.MethodPost, "/r1/chunks"+q+"&firstLine=1&dialect=native&strict=off", lines, "{\"type\":\"step_start\"}\n{\"type\":\"text_delta\",\"delta\":\"x\"}\n", "Tailrace-First-Line", "1", "Tailrace-Strict", "off")
	ask(http.MethodPost, "/r1/chunks"+q, lines, "{}", "Tailrace-First-Line", "3")
	ask(http.MethodPost, "/r1/chunks"+q, lines, `{"type":"step_start"}`)
	ask(http.MethodPost, "/r1/chunks"+q, lines, "{}", "Tailrace-First-Line", "5")
	ask(http.MethodPost, "/r1/events"+q+"&strict=off", mediaEvent, event("a", ""), "Tailrace-Strict", "off")
	ask(http.MethodPost, "/r1/events"+q, mediaEvent, "{}")
	ask(http.MethodGet, "/r1"+q, "", "")
	ask(http.MethodPost, "/r1/cleanup"+q, jsonType, `{"step":1}`)
	ask(http.MethodPost, "/r1/pause"+q, jsonType, `{"reason":"x"}`)
	ask(http.MethodPost, "/r1/end"+q, jsonType, `{"finalOutput":1}`)
	ask(http.MethodPost, "", jsonType, `{"runId":"r2"}`)
	ask(http.MethodPost, "/r2/fail?root=s1&epoch=2", jsonType, `{"error":"x"}`)
	for path, body := range map[string]string{"/end": "{}", "/pause": "{}", "/cleanup": `{"step":1}`} {
		ask(http.MethodPost, "/r2"+path+"?epoch=2", jsonType, body)
	}
	ask(http.MethodPost, "/r1/fail"+q, jsonType, `{"error":"x"}`)
	for _, what := range doc.Unseen("ingest") {
		t.Errorf("%s was never tried", what)
	}
}
