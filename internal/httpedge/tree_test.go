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

// families are sessions of one tree, each with the sub-agents that it calls.
type families map[string][]kid

// kid is a sub-agent and its result, nil while it is running.
type kid struct {
	id     string
	result chunk.Value
}

// snapshots are of the runs in which the sub-agents are called, which are running. The log of the session "unavailable" cannot be read.
func (f families) snapshots(t *testing.T) httpedge.Snapshots {
	t.Helper()
	log := storetest.NewLog()
	log.Fault = func(s chunk.Session) error {
		if s.ID == "unavailable" {
			return errUnavailable
		}
		return nil
	}
	for id, kids := range f {
		s := chunk.RootSession("default", "top").Child(id)
		log.Append(t, s, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		for _, k := range kids {
			log.Append(t, s, 1, chunk.SubagentStart{SubAgentType: "helper", SubSessionID: k.id, CallID: "c-" + k.id})
			if k.result != nil {
				log.Append(t, s, 1, chunk.SubagentEnd{SubAgentType: "helper", SubSessionID: k.id, CallID: "c-" + k.id, Result: k.result})
			}
		}
	}
	return projector.NewReader(storetest.NewMemory(), log)
}

func getTree(t *testing.T, f families, views *audience.Views, path string) (status int, body string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		edge, err := httpedge.New(w.log, f.snapshots(t), httpedge.Config{Authenticator: authtest.None(t, "default"), Views: views})
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		edge.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		status, body = rec.Code, rec.Body.String()
	})
	return status, body
}

// A tree has children of children, and the results that their callers received.
func TestTree(t *testing.T) {
	secret, null := chunk.Value(`{"key":"s3cret"}`), chunk.Value("null")
	f := families{
		"top":   {{"kid-1", secret}, {"kid-2", nil}, {"not a session", nil}},
		"kid-1": {{"kid-3", null}},
		"kid-3": {{"kid-1", nil}, {"top", nil}}, // round and round
	}
	node := func(id string, result chunk.Value, children string) string {
		rest := `"status":"running"`
		if result != nil {
			rest = `"status":"ended","result":` + string(result)
		}
		return fmt.Sprintf(`{"session":%q,"type":"helper","callId":"c-%s",%s,"children":[%s]}`, id, id, rest, children)
	}
	kid3 := node("kid-3", null, node("kid-1", nil, "")+","+node("top", nil, ""))
	all := node("kid-1", secret, kid3) + "," + node("kid-2", nil, "") + "," + node("not a session", nil, "")
	blind := mustViews(audience.Config{Views: map[string]audience.View{
		"public": {Preset: audience.Public},
		"names":  {Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{chunk.TypeSubagentEnd: {"result"}, chunk.TypeToolEnd: {"result"}}, SubAgents: true},
		"shy":    {Types: []chunk.Type{"*"}},
		"staff":  {Types: []chunk.Type{"*"}, SubAgents: true},
	}, Default: "public", Selectable: []string{"names", "shy", "staff"}})
	for _, tt := range []struct {
		views  *audience.Views
		path   string
		status int
		want   string
		not    []string
	}{
		{nil, "/v1/sessions/top/tree", http.StatusOK, `{"session":"top","type":"agent","status":"active","children":[` + all + `]}`, nil},
		{nil, "/v1/sessions/kid-3/tree?root=top", http.StatusOK, `{"session":"kid-3","type":"agent","status":"active","children":[` +
			node("kid-1", nil, node("kid-3", null, "")) + "," + node("top", nil, node("kid-1", secret, "")+","+node("kid-2", nil, "")+","+node("not a session", nil, "")) + `]}`, nil},
		{nil, "/v1/sessions/unknown/tree", http.StatusNotFound, "STREAM_NOT_FOUND", nil},
		{nil, "/v1/sessions/top/tree?view=staff", http.StatusBadRequest, codeBadParameter, nil},
		{nil, "/v1/sessions/top/tree?root=a%20b", http.StatusBadRequest, "BAD_SESSION_ID", nil},
		{blind, "/v1/sessions/top/tree", http.StatusOK, `{"session":"top","type":"agent","status":"active","children":[]}`, nil},
		{blind, "/v1/sessions/top/tree?view=", http.StatusOK, `{"session":"top","type":"agent","status":"active","children":[]}`, nil},
		{blind, "/v1/sessions/top/tree?view=unknown", http.StatusBadRequest, codeBadParameter, nil},
		{blind, "/v1/sessions/top/tree?view=staff", http.StatusOK, `{"session":"top","type":"agent","status":"active","children":[` + all + `]}`, nil},
		{blind, "/v1/sessions/top/tree?view=names", http.StatusOK, `"children":[`, []string{"s3cret"}},
		{blind, "/v1/sessions/top/tree?view=shy", http.StatusOK, `{"session":"top","type":"agent","status":"active","children":[`, []string{"kid-3"}},
	} {
		status, got := getTree(t, f, tt.views, tt.path)
		if status != tt.status || got != tt.want && (strings.HasSuffix(tt.want, "}") || !strings.Contains(got, tt.want)) {
			t.Errorf("%s: %d %s\nwant %d %s", tt.path, status, got, tt.status, tt.want)
		}
		for _, secret := range tt.not {
			if strings.Contains(got, secret) {
				t.Errorf("%s tells %s: %s", tt.path, secret, got)
			}
		}
	}
	if status, got := getTree(t, families{"top": {{"unavailable", nil}}, "unavailable": nil}, nil, "/v1/sessions/top/tree"); status != http.StatusServiceUnavailable {
		t.Errorf("half a tree: %d %s", status, got)
	}
}

// Too deep or too wide: the tree shows where it was not followed.
func TestTreeIsBounded(t *testing.T) {
	deep := families{"top": {{"kid-1", nil}}}
	for n := 1; n < 20; n++ {
		deep[fmt.Sprint("kid-", n)] = []kid{{fmt.Sprint("kid-", n+1), nil}}
	}
	_, got := getTree(t, deep, nil, "/v1/sessions/top/tree")
	if strings.Count(got, `"callId"`) != 8 || strings.Count(got, `"more":true`) != 1 {
		t.Errorf("deep: %s", got)
	}
	var kids []kid
	for n := range 300 {
		kids = append(kids, kid{fmt.Sprint("kid-", n), nil})
	}
	_, got = getTree(t, families{"top": kids}, nil, "/v1/sessions/top/tree")
	if strings.Count(got, `"callId"`) != 300 || strings.Count(got, `"more":true`) != 101 {
		t.Errorf("wide: %s", got)
	}
}
