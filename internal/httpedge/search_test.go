package httpedge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	audience "github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// listing returns a directory of these sessions. Their heads have no summary, as those of an earlier build.
func listing(ids ...string) *countedDirectory {
	d := &countedDirectory{}
	for _, id := range ids {
		d.directory = append(d.directory, projector.SessionInfo{Session: chunk.RootSession("default", id), Status: fold.Ended})
	}
	return d
}

func searchPath(text string, more ...string) string {
	return "/v1/sessions?in=messages&since=2026-01-01T00:00:00Z&q=" + url.QueryEscape(text) + strings.Join(more, "")
}

// found is what a search returns.
type found struct {
	Sessions []struct {
		Session struct {
			ID string `json:"id"`
		} `json:"session"`
	} `json:"sessions"`
	Before  *string `json:"before"`
	Scanned int     `json:"scanned"`
}

func readFound(t *testing.T, rec *httptest.ResponseRecorder) (f found, ids string) {
	t.Helper()
	if err := json.Unmarshal(rec.Body.Bytes(), &f); err != nil || rec.Code != http.StatusOK {
		t.Fatalf("%d %s, %v", rec.Code, rec.Body, err)
	}
	for _, s := range f.Sessions {
		ids += s.Session.ID
	}
	return f, ids
}

// A search finds what the messages of a session say, in any case and normal form, and nothing that a view hides. A session that was deleted after its head was read is not found, and does not
// end the search.
func TestSearchMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := listing("a", "deleted", "b", "c")
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: mustViews(audience.Config{Views: theAudiences}), Sessions: d}})
		ask := func(id, content string) chunk.Session {
			s := chunk.RootSession("default", id)
			w.log.Append(s, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r","epoch":1,"mode":"execute","input":[{"content":%q}]`, content))
			return s
		}
		a := ask("a", "Where is my Parcel?")
		w.log.Append(a, chunk.TypeThinking, `"content":"A s3cret thought","isComplete":true`)
		w.log.Append(a, chunk.TypeToolStart, `"toolCallId":"c1","toolName":"get_order","arguments":{"order":1042}`)
		w.log.Append(a, chunk.TypeToolEnd, `"toolCallId":"c1","toolName":"get_order","result":{"note":"s3cret result"}`)
		w.log.Append(a, chunk.TypeTextDelta, `"delta":"Zu viel A\u0308rger"`)
		w.log.Append(ask("b", "nothing"), chunk.TypeTextDelta, `"delta":"It is in the "`)
		w.log.Append(chunk.RootSession("default", "b"), chunk.TypeTextDelta, `"delta":"post office, PARCEL 7"`)
		ask("c", "nothing")
		for _, tt := range []struct{ text, view, want string }{
			{"parcel", "", "ab"},
			{"the POST office", "", "b"},
			{"ärger", "", "a"},
			{"s3cret thought", "", "a"},
			{"s3cret", "staff", "a"},
			{"get_order", "", "a"},
			{"1042", "", "a"},
			{"c1", "", ""},
			{"execute", "", ""},
			{"thing", "", "bc"},
			{"s3cret", "words", ""},
			{"s3cret", "public", ""},
			{"s3cret", "masked", ""},
			{"order", "words", ""},
			{"parcel", "words", "b"}, // the content of users is hidden
			{"ÄRGER", "words", "a"},
		} {
			view := ""
			if tt.view != "" {
				view = "&view=" + tt.view
			}
			f, ids := readFound(t, w.record(http.MethodGet, searchPath(tt.text, view), nil))
			if ids != tt.want || f.Scanned != 4 || f.Before != nil {
				t.Errorf("%q under %q: %+v, want %s", tt.text, tt.view, f, tt.want)
			}
		}
		first, ids := readFound(t, w.record(http.MethodGet, searchPath("parcel", "&limit=1"), nil))
		if ids != "a" || first.Before == nil {
			t.Fatalf("the first page is %+v", first)
		}
		if second, ids := readFound(t, w.record(http.MethodGet, searchPath("parcel", "&limit=1&before="+*first.Before), nil)); ids != "b" || second.Scanned != 2 {
			t.Errorf("the second page is %+v", second)
		}
		if d.query.Text != "" || d.query.Select == nil {
			t.Errorf("the store gets %+v", d.query)
		}
		for _, bad := range []string{"in=messages&q=x", "in=messages&since=2026-01-01T00:00:00Z", "in=messages&q=x&until=2026-01-01T00:00:00Z", "in=messages&q=x&owner=o&view=words"} {
			if rec := w.record(http.MethodGet, "/v1/sessions?"+bad, nil); rec.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, rec.Code, rec.Body)
			}
		}
		for _, good := range []string{"in=messages&q=x&owner=o", "in=messages&q=x&agentType=a", "in=messages&q=x&since=2026-01-01T00:00:00Z&view=words"} {
			if rec := w.record(http.MethodGet, "/v1/sessions?"+good, nil); rec.Code != http.StatusOK {
				t.Errorf("%s: %d %s", good, rec.Code, rec.Body)
			}
		}
	})
}

// A search of any number of sessions ends after 2,000 of them, and the next one continues after these.
func TestSearchReadsFewSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := make([]string, 100_000)
		for n := range ids {
			ids[n] = fmt.Sprint("s", n)
		}
		w := newEnv(t, envConfig{edge: httpedge.Config{Sessions: listing(ids...)}})
		before := ""
		for n := 1; n <= 3; n++ {
			f, _ := readFound(t, w.record(http.MethodGet, searchPath("x", before), nil))
			if f.Scanned != 2000 || f.Before == nil || *f.Before != fmt.Sprint(2000*n) {
				t.Fatalf("search %d: %+v", n, f)
			}
			before = "&before=" + *f.Before
		}
	})
}

// A search ends after 64 MiB of messages. A session that has more of them does not stop it: its latest messages are searched.
func TestSearchReadsFewBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{ReadBytes: -1, Sessions: listing("s0", "large", "s2")}})
		write := func(id, text string, messages, size int) {
			s, rest := chunk.RootSession("default", id), strings.Repeat("x", size)
			for n := range messages {
				w.log.Append(s, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"%s%d","epoch":1,"mode":"execute","input":[{"content":"%s %s"}]`, text, n, text, rest))
			}
		}
		write("s0", "latest", 3, 0)
		write("large", "oldest", 10, 0)
		write("large", "latest", 50, 1400<<10)
		write("s2", "oldest", 1, 0)
		for _, tt := range []struct{ text, before, ids, next string }{
			{"oldest", "", "", "1"},
			{"oldest", "1", "", "2"},
			{"oldest", "2", "s2", ""},
			{"latest", "", "s0large", "2"},
		} {
			f, ids := readFound(t, w.record(http.MethodGet, searchPath(tt.text, "&before="+tt.before), nil))
			next := ""
			if f.Before != nil {
				next = *f.Before
			}
			if ids != tt.ids || next != tt.next {
				t.Errorf("%s from %q: found %q, next %q, want %q, %q", tt.text, tt.before, ids, next, tt.ids, tt.next)
			}
		}
	})
}

// Messages of which a page would be larger than the memory for pages are read one by one.
func TestSearchWithLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{ReadBytes: 4 << 20, Sessions: listing("s1")}})
		for n := range 20 {
			text := map[int]string{3: "needle"}[n] + strings.Repeat("x", 100<<10)
			w.log.Append(s1, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":%d,"mode":"execute","input":[{"content":%q}]`, n, n+1, text))
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}
		w.snapshots.save(t, s1)
		if f, ids := readFound(t, w.record(http.MethodGet, searchPath("needle"), nil)); ids != "s1" || f.Scanned != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// failing returns an error for some sessions.
type failing struct {
	snapshotsOf

	errs map[string]error
}

func (f failing) MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	if err := f.errs[s.ID]; err != nil {
		return nil, err
	}
	if err := f.errs[s.ID+"/2"]; err != nil && q.Before != "" { // on the second page
		return nil, err
	}
	return f.snapshotsOf.MessagePage(ctx, s, q)
}

// A search ends before a session that cannot be read at present, with what it has found, and skips one that can never be read.
func TestSearchOfUnreadableSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, id := range []string{"a", "z"} {
			w.log.Append(chunk.RootSession("default", id), chunk.TypeRunStarted, `"runId":"r","epoch":1,"mode":"execute","input":[{"content":"x"}]`)
		}
		errs := map[string]error{"lost": fold.ErrInconsistent, "gap": &chunk.TruncatedError{}, "down": errors.New("no responders")}
		edge, err := httpedge.New(w.log, failing{w.snapshots, errs}, httpedge.Config{Authenticator: authtest.None(t, "default"), Sessions: listing("lost", "gap", "a", "down", "z")})
		if err != nil {
			t.Fatal(err)
		}
		if f, ids := readFound(t, getPage(t.Context(), edge, searchPath("x"))); ids != "a" || f.Scanned != 3 || f.Before == nil || *f.Before != "3" {
			t.Errorf("%+v", f)
		}
		if rec := getPage(t.Context(), edge, searchPath("x", "&before=3")); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		delete(errs, "down")
		if _, ids := readFound(t, getPage(t.Context(), edge, searchPath("x", "&before=3"))); ids != "z" {
			t.Errorf("found %s", ids)
		}
		for n := range 60 {
			w.log.Append(chunk.RootSession("default", "z"), chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[{"content":"y"}]`, n))
		}
		errs["z/2"] = errors.New("no responders")
		if rec := getPage(t.Context(), edge, searchPath("x", "&before=4")); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("a search of a part of a session is %d %s", rec.Code, rec.Body)
		}
	})
}

// A tenant has one search at a time and an edge two. A tenant that searches all the time keeps neither the searches of another one waiting for long, nor its pages.
func TestSearchesOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := authtest.NewIssuer(t)
		d := &countedDirectory{}
		for _, tenant := range []string{"acme", "globex", "initech"} {
			d.directory = append(d.directory, projector.SessionInfo{Session: chunk.RootSession(tenant, "s1")})
		}
		w := newEnv(t, envConfig{})
		w.log.Append(chunk.RootSession("initech", "s1"), chunk.TypeRunStarted, `"runId":"r","epoch":1,"mode":"execute","input":[{"content":"x"}]`)
		reads := newCountedSnapshots(w)
		edge, err := httpedge.New(w.log, reads, httpedge.Config{Authenticator: issuer, Sessions: d})
		if err != nil {
			t.Fatal(err)
		}
		get := func(ctx context.Context, tenant, path string) *httptest.ResponseRecorder {
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			req.Header = bearer(issuer.Token(auth.Grant{Tenant: tenant, Subject: "u", Scopes: auth.ScopeRead, Sessions: auth.Sessions{All: true}}, time.Hour, nil))
			req.RemoteAddr = map[string]string{"acme": "192.0.2.1:1", "globex": "192.0.2.2:1", "initech": "192.0.2.3:1"}[tenant]
			rec := httptest.NewRecorder()
			edge.ServeHTTP(rec, req)
			return rec
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		codes := make(map[string]string)
		search := func(tenant, text string) {
			group.Go(func() {
				rec := get(t.Context(), tenant, searchPath(text))
				mu.Lock()
				defer mu.Unlock()
				code := "read"
				if strings.Contains(rec.Body.String(), "BUSY") && rec.Header().Get("Retry-After") != "" {
					code = "busy"
				}
				codes[tenant] += code + " "
			})
		}
		running := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := reads.running.Load(); n != want {
				t.Fatalf("%d reads, want %d", n, want)
			}
		}
		for n := range 5 { // no read ends: each search takes its three seconds
			search("acme", fmt.Sprint("text", n))
		}
		running(1)
		search("globex", "x")
		running(2)
		search("initech", "x")
		running(2)
		ctx, leave := context.WithCancel(t.Context())
		group.Go(func() { get(ctx, "initech", "/v1/sessions/s1/messages") })
		running(3)
		leave()
		group.Wait()
		if want := map[string]string{"acme": "read " + strings.Repeat("busy ", 3) + "read ", "globex": "read ", "initech": "read "}; !maps.Equal(codes, want) {
			t.Errorf("%v, want %v", codes, want)
		}
	})
}
