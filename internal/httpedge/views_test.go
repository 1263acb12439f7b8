package httpedge_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	audience "github.com/tailrace/tailrace/internal/view"
)

var theAudiences = map[string]audience.View{
	"words":  {Types: []chunk.Type{chunk.TypeTextDelta}, Hide: map[chunk.Type][]string{"*": {"agentType"}}, SubAgents: true},
	"public": {Preset: audience.Public},
	"masked": {Preset: audience.Analytics, Mask: map[chunk.Type][]string{"output": {"output"}, "stream_end": {"finalOutput"}}},
	"staff":  {Types: []chunk.Type{"*"}, SubAgents: true},
	"audit":  {Types: []chunk.Type{"*"}, SubAgents: true, Extra: true},
}

// audiences has no default: a request without a view gets everything.
var audiences = mustViews(audience.Config{Views: theAudiences})

func mustViews(cfg audience.Config) *audience.Views {
	views, err := audience.New(cfg)
	if err != nil {
		panic(err)
	}
	return views
}

// anonymous returns a chunk without the name of its agent.
func anonymous(data string) string {
	return strings.Replace(data, `"agentType":"tester"`, `"agentType":""`, 1)
}

// A view applies to every stream: one session, several, a sub-agent alone. With a default, the query cannot select more than the configuration allows.
func TestViewsOfStreams(t *testing.T) {
	free := audiences
	bound := mustViews(audience.Config{Views: theAudiences, Default: "public", Selectable: []string{"staff"}})
	const (
		secret = `"arguments":{"key":"s3cret"}`
		blank  = `"arguments":{}`
		many   = "/v1/events?session=root&session=other"
		root   = "/v1/sessions/root/events"
		kid    = "/v1/sessions/kid-1/events?root=root"
	)
	for _, tt := range []struct {
		views  *audience.Views
		path   string
		status int
		want   string
	}{
		{nil, root, http.StatusOK, secret},
		{nil, root + "?view=", http.StatusOK, secret},
		{nil, root + "?view=public", http.StatusBadRequest, codeBadParameter},
		{free, root, http.StatusOK, secret},
		{free, root + "?view=public", http.StatusOK, blank},
		{free, root + "?view=masked&types=tool_start", http.StatusOK, `"arguments":{"key":"•"}`},
		{free, root + "?view=staff", http.StatusOK, secret},
		{free, root + "?view=unknown", http.StatusBadRequest, codeBadParameter},
		{free, root + "?view=public&view=staff", http.StatusBadRequest, codeBadParameter},
		{bound, root, http.StatusOK, blank},
		{bound, root + "?view=", http.StatusOK, blank},
		{bound, root + "?view=public", http.StatusOK, blank},
		{bound, root + "?scope=session&types=tool_start", http.StatusOK, blank},
		{bound, root + "?view=staff", http.StatusOK, secret},
		{bound, root + "?view=audit", http.StatusBadRequest, codeBadParameter},
		{bound, root + "?view=unknown", http.StatusBadRequest, codeBadParameter},
		{bound, many, http.StatusOK, blank},
		{bound, many + "&view=staff", http.StatusOK, secret},
		{bound, many + "&view=audit", http.StatusBadRequest, codeBadParameter},
		{bound, kid, http.StatusOK, `"end"`},
		{bound, kid + "&view=staff", http.StatusOK, secret},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{edge: httpedge.Config{Views: tt.views}})
			for _, s := range []chunk.Session{theRoot, theRoot.Child("kid-1"), chunk.RootSession("default", "other")} {
				w.log.Append(s, chunk.TypeToolStart, `"toolCallId":"c1","toolName":"open",`+secret)
				w.log.Append(s, chunk.TypeStreamEnd, `"streamId":"x","finalOutput":{"key":"s3cret"}`)
			}
			resp := w.get(t.Context(), tt.path, nil)
			defer resp.Body.Close()
			body := readAll(t, resp.Body)
			if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%s: %d, want %d and %s\n%s", tt.path, resp.StatusCode, tt.status, tt.want, body)
			}
			if tt.want != secret && strings.Contains(body, "s3cret") {
				t.Errorf("%s tells\n%s", tt.path, body)
			}
			if tt.status != http.StatusOK && (strings.Contains(body, "audit") || strings.Contains(body, "staff")) {
				t.Errorf("%s: the refusal names views\n%s", tt.path, body)
			}
		})
	}
}

const codeBadParameter = "BAD_PARAMETER"

// pages are snapshots of two sessions with a question, a thought and a call.
func pages(tb testing.TB) httpedge.Snapshots {
	tb.Helper()
	log := storetest.NewLog()
	secret := chunk.Value(`"s3cret"`)
	for _, s := range []chunk.Session{s1, chunk.RootSession("default", "other").Child(s1.ID)} {
		log.Append(tb, s, 0, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "why?"}}})
		log.Append(tb, s, 1, chunk.Thinking{Content: "s3cret", IsComplete: true})
		log.Append(tb, s, 1, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "", Value: &secret}}})
		log.Append(tb, s, 0, chunk.StreamEnd{StreamID: "r1"})
		log.Append(tb, s, 0, chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "execute"})
		log.Append(tb, s, 1, chunk.ToolStart{ToolCallID: "c1", ToolName: "open", Arguments: chunk.Value(`{"key":"s3cret"}`)})
		log.Append(tb, s, 1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "open", Result: secret})
		log.AppendRaw(s, chunk.TypeTextDelta, []byte(`{"type":"text_delta"}`)) // a fault
		log.Append(tb, s, 0, chunk.StreamEnd{StreamID: "r2"})
	}
	return projector.NewReader(storetest.NewMemory(), log)
}

// Pages use the same views as streams.
func TestViewsOfPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := mustViews(audience.Config{Views: theAudiences, Default: "public", Selectable: []string{"staff"}})
		w := newEnv(t, envConfig{})
		edge, err := httpedge.New(w.log, pages(t), httpedge.Config{Authenticator: authtest.None(t, "default"), Views: views})
		if err != nil {
			t.Fatal(err)
		}
		const (
			asked    = `{"id":"msg-0","role":"user","parts":[{"type":"text","text":"why?","state":"done"}]}`
			answered = `{"id":"msg-2","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"open","toolCallId":"c1","state":"output-available","input":null,"output":null}]}`
			rest     = `"status":"ended","checkpointId":null,"timestamp":946684800000,"session":{"tenant":"default","root":"%s","id":"s1","agentType":"agent"},"children":[],"pendingCalls":[],"usage":{}`
		)
		end := func(root string) string { return fmt.Sprintf(rest, root) }
		for _, tt := range []struct {
			path   string
			status int
			want   string
		}{
			{"snapshot", http.StatusOK, `{"state":null,"messages":[` + asked + `,` + answered + `],"streamSequence":9,` + end("s1") + `}`},
			{"snapshot?view=public&partial=1", http.StatusOK, `{"state":null,"messages":[` + asked + `,` + answered + `],"streamSequence":9,` + end("s1") + `}`},
			{"messages", http.StatusOK, `{"messages":[` + asked + `,` + answered + `],"before":null}`},
			{"messages?limit=1&before=msg-2", http.StatusOK, `{"messages":[],"before":"msg-1"}`},
			{"snapshot?messages=1", http.StatusOK, end("s1") + `,"before":"msg-2"}`},
			{"messages?root=other", http.StatusOK, `{"messages":[],"before":null}`},
			{"snapshot?root=other", http.StatusOK, `{"state":null,"messages":[],"streamSequence":18,` + strings.Replace(end("other"), `,"agentType":"agent"`, "", 1) + `}`},
			{"snapshot?view=staff", http.StatusOK, `s3cret`},
			{"messages?view=staff", http.StatusOK, `s3cret`},
			{"snapshot?view=audit", http.StatusBadRequest, codeBadParameter},
			{"messages?view=audit", http.StatusBadRequest, codeBadParameter},
			{"messages?view=public&view=staff", http.StatusBadRequest, codeBadParameter},
		} {
			rec := httptest.NewRecorder()
			edge.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/v1/sessions/s1/"+tt.path, nil))
			got := rec.Body.String()
			if rec.Code != tt.status || got != tt.want && (tt.want[0] == '{' || !strings.Contains(got, tt.want)) {
				t.Errorf("%s: %d %s\nwant %d %s", tt.path, rec.Code, got, tt.status, tt.want)
			}
		}
	})
}
