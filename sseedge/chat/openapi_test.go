package chat

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openapitest"
)

// Every route is in the document, and every operation of the document is a route.
func TestEveryRouteIsDocumented(t *testing.T) {
	routes := newEnv(t).newEdge(nil).service.router.Routes()
	slices.Sort(routes)
	if documented := openapitest.Load(t).Operations("chat"); !slices.Equal(routes, documented) {
		t.Errorf("the service has\n%q, the document\n%q", routes, documented)
	}
}

// Every response matches the document, and the tests cover every response in the document.
func TestAnswersAreDocumented(t *testing.T) {
	doc := openapitest.Load(t)
	w := newEnv(t)
	e := w.newEdge(nil)
	ask := func(method, path, body string, header http.Header) {
		t.Helper()
		resp, err := e.try(method, path, body, header)
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
	const agent = "?agentType=" + agentType
	w.work(asking("c1", "c2"))
	for _, path := range []string{"", "/stream"} {
		ask(http.MethodGet, path, "", nil) // 204
	}
	ask(http.MethodPost, agent, chatBody("", user("u1", "hi")), nil)
	ask(http.MethodPost, "", `{}`, nil)
	e.base = "/api/chat"
	ask(http.MethodPost, agent, chatBody("", user("u1", "hi")), nil)
	ask(http.MethodPost, "", `{}`, nil)
	e.base = ""
	for _, name := range []string{"X-Resume-From-Sequence", "X-Resume-At", "Last-Event-Id"} {
		for _, path := range []string{"", "/stream"} {
			ask(http.MethodGet, path+agent, "", http.Header{name: {"1"}})
			ask(http.MethodGet, path+"?agentType=other", "", nil)
		}
	}
	for _, path := range []string{"/snapshot", "/stop", "/answers"} {
		method := http.MethodPost
		if path == "/snapshot" {
			method = http.MethodGet
		}
		ask(method, path+"?agentType=other", `{"toolCallId":"c1","result":1}`, nil)
	}
	ask(http.MethodGet, "/snapshot"+agent, "", nil)
	ask(http.MethodPost, "/stop"+agent, "", nil)
	ask(http.MethodPost, "/answers"+agent, `{"toolCallId":"c1","result":{"a":[1]}}`, nil)
	ask(http.MethodPost, "/answers", `{"toolCallId":"c1","result":2}`, nil)
	ask(http.MethodPost, "/answers", `{"toolCallId":"c9","result":2}`, nil)
	ask(http.MethodHead, "", "", nil)

	// A run that no worker has started can be stopped, too.
	quiet := newEnv(t).newEdge(nil)
	quiet.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
	e = quiet
	ask(http.MethodPost, "/stop"+agent, `{"reason":"enough"}`, nil)
	ask(http.MethodGet, "/snapshot", "", nil)
	for _, what := range doc.Unseen("chat") {
		t.Errorf("%s was never tried", what)
	}
}
