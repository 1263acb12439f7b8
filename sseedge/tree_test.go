package sseedge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge"
	audience "github.com/tailrace/tailrace/sseedge/view"
)

// families are the children of sessions, as pages tell them.
type families map[string]string

func (f families) Snapshot(_ context.Context, s chunk.Session, want sseedge.SnapshotQuery) (sseedge.Snapshot, error) {
	children, ok := f[s.ID]
	switch {
	case !want.Partial || want.Messages != 0:
		return sseedge.Snapshot{}, errors.New("sub-agents would be missing")
	case s.Root != "top" || !ok:
		return sseedge.Snapshot{}, fmt.Errorf("%s: %w", s, chunk.ErrUnknownSession)
	case children == "away":
		return sseedge.Snapshot{}, errAway
	}
	return sseedge.Snapshot{Status: "active", JSON: chunk.Value(fmt.Sprintf(
		`{"state":null,"messages":[],"streamSequence":9,"status":"active","session":{"id":%q,"agentType":"boss"},"children":[%s]}`, s.ID, children))}, nil
}

func child(id, rest string) string {
	return fmt.Sprintf(`{"session":%q,"type":"helper","callId":"c-%s","status":"running"%s}`, id, id, rest)
}

func getTree(t *testing.T, f families, views *audience.Views, path string) (status int, body string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, worldConfig{})
		edge, err := sseedge.New(w.log, f, sseedge.Config{Views: views})
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
	f := families{
		"top":   child("kid-1", `,"result":{"key":"s3cret"}`) + "," + child("kid-2", "") + "," + child("not a session", ""),
		"kid-1": child("kid-3", `,"result":null`),
		"kid-3": child("kid-1", "") + "," + child("top", ""), // round and round
	}
	node := func(id, rest, children string) string {
		return fmt.Sprintf(`{"session":%q,"type":"helper","callId":"c-%s","status":"running"%s,"children":[%s]}`, id, id, rest, children)
	}
	kid3 := node("kid-3", `,"result":null`, node("kid-1", "", "")+","+node("top", "", ""))
	all := node("kid-1", `,"result":{"key":"s3cret"}`, kid3) + "," + node("kid-2", "", "") + "," + node("not a session", "", "")
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
		{nil, "/v1/sessions/top/tree", http.StatusOK, `{"session":"top","type":"boss","status":"active","children":[` + all + `]}`, nil},
		{nil, "/v1/sessions/kid-3/tree?root=top", http.StatusOK, `{"session":"kid-3","type":"boss","status":"active","children":[` +
			node("kid-1", "", node("kid-3", `,"result":null`, "")) + "," + node("top", "", node("kid-1", `,"result":{"key":"s3cret"}`, "")+","+node("kid-2", "", "")+","+node("not a session", "", "")) + `]}`, nil},
		{nil, "/v1/sessions/unknown/tree", http.StatusNotFound, "STREAM_NOT_FOUND", nil},
		{nil, "/v1/sessions/top/tree?view=staff", http.StatusBadRequest, codeBadParameter, nil},
		{nil, "/v1/sessions/top/tree?root=a.b", http.StatusBadRequest, "BAD_SESSION_ID", nil},
		{blind, "/v1/sessions/top/tree", http.StatusOK, `{"session":"top","type":"boss","status":"active","children":[]}`, nil},
		{blind, "/v1/sessions/top/tree?view=", http.StatusOK, `{"session":"top","type":"boss","status":"active","children":[]}`, nil},
		{blind, "/v1/sessions/top/tree?view=unknown", http.StatusBadRequest, codeBadParameter, nil},
		{blind, "/v1/sessions/top/tree?view=staff", http.StatusOK, `{"session":"top","type":"boss","status":"active","children":[` + all + `]}`, nil},
		{blind, "/v1/sessions/top/tree?view=names", http.StatusOK, `"children":[`, []string{"s3cret"}},
		{blind, "/v1/sessions/top/tree?view=shy", http.StatusOK, `{"session":"top","type":"boss","status":"active","children":[`, []string{"kid-3"}},
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
	if status, got := getTree(t, families{"top": child("kid-1", ""), "kid-1": "away"}, nil, "/v1/sessions/top/tree"); status != http.StatusServiceUnavailable {
		t.Errorf("half a tree: %d %s", status, got)
	}
}

// Too deep or too wide, and the tree says where it was not followed.
func TestTreeIsBounded(t *testing.T) {
	deep := families{"top": child("kid-1", "")}
	for n := 1; n < 20; n++ {
		deep[fmt.Sprint("kid-", n)] = child(fmt.Sprint("kid-", n+1), "")
	}
	_, got := getTree(t, deep, nil, "/v1/sessions/top/tree")
	if strings.Count(got, `"callId"`) != 8 || strings.Count(got, `"more":true`) != 1 {
		t.Errorf("deep: %s", got)
	}
	var kids []string
	for n := range 300 {
		kids = append(kids, child(fmt.Sprint("kid-", n), ""))
	}
	_, got = getTree(t, families{"top": strings.Join(kids, ",")}, nil, "/v1/sessions/top/tree")
	if strings.Count(got, `"callId"`) != 300 || strings.Count(got, `"more":true`) != 101 {
		t.Errorf("wide: %s", got)
	}
}
