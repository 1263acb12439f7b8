package chat

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/producers"
)

// Every route is in the document, and every operation of the document is a route.
func TestEveryRouteIsDocumented(t *testing.T) {
	routes := newEnv(t).newEdge(nil).service.surface.Routes()
	slices.Sort(routes)
	if documented := openapitest.Load(t).Operations("chat"); !slices.Equal(routes, documented) {
		t.Errorf("the service has\n%q, the document\n%q", routes, documented)
	}
}

// Every response matches the document, and the tests cover every response in the document.
func TestAnswersAreDocumented(t *testing.T) {
	doc := openapitest.Load(t)
	w := newEnv(t)
	all := must(view.New(view.Config{Views: map[string]view.View{"all": {Types: []chunk.Type{"*"}}}}))(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Views = all })
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
	const agent = "?view=all&agentType=" + agentType
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
	for _, path := range []string{"/snapshot", "/stop", "/answers", "/queue", "/withdraw"} {
		method := http.MethodPost
		if path == "/snapshot" || path == "/queue" {
			method = http.MethodGet
		}
		ask(method, path+"?agentType=other", `{"toolCallId":"c1","result":1}`, nil)
	}
	ask(http.MethodGet, "/snapshot"+agent, "", nil)
	ask(http.MethodGet, "/snapshot?branch=msg-0", "", nil)
	ask(http.MethodGet, "/snapshot?branch=msg-999", "", nil)
	ask(http.MethodPost, "/stop"+agent, "", nil)
	ask(http.MethodPost, "/answers"+agent, `{"toolCallId":"c1","result":{"a":[1]}}`, nil)
	ask(http.MethodPost, "/answers", `{"toolCallId":"c1","result":2}`, nil)
	ask(http.MethodPost, "/answers", `{"toolCallId":"c9","result":2}`, nil)
	ask(http.MethodHead, "", "", nil)

	const (
		thread = `{"threadId":"%s","runId":"r","messages":[%s],"tools":[],"context":[]}`
		held   = `{"id":"m","role":"assistant","content":"x"}`
	)
	e.base = aguiPath
	ask(http.MethodPost, agent, fmt.Sprintf(thread, "t1", `{"id":"u1","role":"user","content":"hi"}`), nil)
	ask(http.MethodPost, "", `{}`, nil)
	snap, err := w.Reader.Snapshot(t.Context(), chunk.RootSession("acme", "t1"))
	if err != nil {
		t.Fatal(err)
	}
	done, err := w.NewWriter(producers.Config{}).Start(t.Context(), snap.Session, chunk.RunStarted{Mode: "resume"}, producers.TakeOver())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(done.End(t.Context(), nil), done.Close()); err != nil {
		t.Fatal(err)
	}
	if snap, err = w.Reader.Snapshot(t.Context(), snap.Session); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"X-Resume-From-Sequence", "X-Resume-At", "Last-Event-Id"} {
		ask(http.MethodPost, "", fmt.Sprintf(thread, "t1", held), http.Header{name: {fmt.Sprint(snap.Position.Seq)}})
	}
	e.base = threadPath[:len(threadPath)-len("{id}")] + "t2"
	for _, query := range []string{agent, "?agentType=other"} {
		ask(http.MethodPost, "/commands"+query, `{"id":1,"method":"run.start","params":{"input":{"messages":[{"type":"human","content":"hi"}]}}}`, nil)
		ask(http.MethodGet, "/state"+query, "", nil)
		ask(http.MethodPost, "/history"+query, `{"limit":1}`, nil)
		ask(http.MethodPost, "/runs/r1/cancel"+query, "", nil)
		ask(http.MethodPost, "/stream/events"+query, `{}`, nil)
	}
	open, err := e.try(http.MethodPost, "/stream/events"+agent, `{"channels":["messages"]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc.Check(t, open, nil)
	open.Body.Close() // it has no end
	ask(http.MethodPost, "/commands", `{}`, nil)
	ask(http.MethodPost, "/commands", `7`, http.Header{"Content-Encoding": {"gzip"}})
	e.base = ""

	// A run that no worker has started can be stopped, too.
	quiet := newEnv(t).newEdge(func(cfg *edgeConfig) { cfg.edge.Views = all })
	quiet.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil).until("start(msg-1)")
	e = quiet
	quiet.open(http.MethodPost, "", send("queue", user("u2", "and?")), nil)
	ask(http.MethodGet, "/queue"+agent, "", nil)
	ask(http.MethodPost, "/withdraw"+agent, `{"messageId":"u2"}`, nil)
	ask(http.MethodPost, "/withdraw", `{"messageId":"u2"}`, nil)
	ask(http.MethodPost, "/stop"+agent, `{"reason":"enough"}`, nil)
	ask(http.MethodGet, "/snapshot", "", nil)
	for _, what := range doc.Unseen("chat") {
		t.Errorf("%s was never tried", what)
	}
}

// The route of forks has a tag of its own.
func TestForkIsDocumented(t *testing.T) {
	rt := new(Service).forkRoutes()[0]
	if documented := openapitest.Load(t).Operations("forks"); len(documented) != 1 || documented[0] != rt.Method+" "+rt.Path {
		t.Errorf("the document has %q", documented)
	}
}
