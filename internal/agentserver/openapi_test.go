package agentserver

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/view"
)

// Every route is in the document, and every operation of the document is a route.
func TestEveryRouteIsDocumented(t *testing.T) {
	routes := newEnv(t, nil).server.surface.Routes()
	slices.Sort(routes)
	if documented := openapitest.Load(t).Operations("agents"); !slices.Equal(routes, documented) {
		t.Errorf("the server has\n%q, the document\n%q", routes, documented)
	}
}

// Every response matches the document, and the tests cover every response in the document.
func TestAnswersAreDocumented(t *testing.T) {
	doc := openapitest.Load(t)
	all := must(view.New(view.Config{Views: map[string]view.View{"all": {Types: []chunk.Type{"*"}}}}))(t)
	w := newEnv(t, func(cfg *edgeConfig) { cfg.edge.Views = all })
	ask := func(method, path, body string, header http.Header) {
		t.Helper()
		resp, err := w.try(t.Context(), method, "/agents"+path, body, header)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text []byte
		if resp.Header.Get("Content-Type") != "text/event-stream" {
			if text, err = io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
		}
		doc.Check(t, resp, text)
	}
	start := `{"sessionId":"s1","agentType":"helper","message":"hi"}`
	for _, path := range []string{"/start", "/resume", "/interrupt", "/abort", "/submit-tool-result"} {
		ask(http.MethodPost, path, `{"sessionId":"unknown"}`, nil)
		ask(http.MethodPost, path, `{}`, nil)
	}
	ask(http.MethodGet, "/status?sessionId=unknown", "", nil)
	ask(http.MethodGet, "/sse?sessionId=unknown", "", nil)
	ask(http.MethodPost, "/start?view=all", start, nil)
	ask(http.MethodGet, "/status?sessionId=s1&view=all", "", nil)

	w.work(asking(0))
	w.awaitStatus("s1", "suspended_client_tool")
	ask(http.MethodGet, "/status?sessionId=s1&view=all", "", nil)
	for _, name := range []string{"X-Resume-From-Sequence", "X-Resume-At", "Last-Event-ID"} {
		cursor := http.Header{}
		cursor.Set(name, "1")
		ask(http.MethodGet, "/sse?sessionId=s1&after=0&scope=session&types=text_delta&exclude=custom&view=all&dialect=native", "", cursor)
	}
	ask(http.MethodGet, "/sse?sessionId=s1&scope=world", "", nil)
	ask(http.MethodPost, "/resume?view=all", `{"sessionId":"s1"}`, nil)
	ask(http.MethodPost, "/submit-tool-result?view=all", `{"sessionId":"s1","toolCallId":"where","result":{"a":[1]}}`, nil)
	ask(http.MethodPost, "/submit-tool-result?view=all", `{"sessionId":"s1","toolCallId":"where","result":2}`, nil)
	ask(http.MethodPost, "/submit-tool-result?view=all", `{"sessionId":"s1","toolCallId":"pay","result":2}`, nil)
	ask(http.MethodPost, "/interrupt?view=all", `{"sessionId":"s1","reason":"lunch"}`, nil)
	ask(http.MethodPost, "/abort?view=all", `{"sessionId":"s1","reason":"enough"}`, nil)
	w.awaitStatus("s1", "failed")
	ask(http.MethodGet, "/status?sessionId=s1&view=all", "", nil)
	ask(http.MethodPost, "/start", start, nil)
	for _, what := range doc.Unseen("agents") {
		t.Errorf("%s was never tried", what)
	}
}
