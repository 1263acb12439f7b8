package inspector

import (
	"embed"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/docs"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get requests a path of Routes. It has the status 404 if there is no such route.
func get(t *testing.T, target string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	for _, route := range Routes(nil, nil, nil) {
		if route.Path != strings.Replace(target, "/s1", "/{id}", 1) {
			continue
		}
		if !route.Public || route.Method != http.MethodGet || route.Scope != 0 {
			t.Errorf("%s: want a public route for GET", route.Path)
		}
		if p := route.Serve(w, r, ""); p != nil {
			t.Errorf("%s: %v", target, p)
		}
		return w
	}
	w.WriteHeader(http.StatusNotFound)
	return w
}

// Each screen is the same document; it and the files have their content type and the headers of the policy.
func TestFilesAreServed(t *testing.T) {
	for target, contentType := range map[string]string{
		"/": "text/html; charset=utf-8", "/inspect": "text/html; charset=utf-8", "/inspect/s/s1": "text/html; charset=utf-8", "/inspect/compare": "text/html; charset=utf-8", "/inspect/shared": "text/html; charset=utf-8",
		"/inspect/main.js": "text/javascript; charset=utf-8", "/inspect/style.css": "text/css; charset=utf-8", "/inspect/favicon.svg": "image/svg+xml",
	} {
		w := get(t, target, nil)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("Content-Type") != contentType || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s with %d bytes, want 200 %s", target, w.Code, h.Get("Content-Type"), w.Body.Len(), contentType)
		}
		if h.Get("Content-Security-Policy") != ContentSecurityPolicy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: headers %v", target, h)
		}
	}
	for _, target := range []string{"/inspect/index.html", "/inspect/package.json", "/inspect/dist/main.js", "/main.js"} {
		if w := get(t, target, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", target, w.Code)
		}
	}
}

// The documents are served as text, and llms.txt leads to pages that are served.
func TestDocumentsAreServed(t *testing.T) {
	for target, contentType := range map[string]string{
		"/llms.txt": "text/plain; charset=utf-8", "/docs/llms.txt": "text/plain; charset=utf-8", "/docs/README.md": "text/markdown; charset=utf-8",
		"/docs/guides/chat-page.md": "text/markdown; charset=utf-8", "/docs/protocol/stream.md": "text/markdown; charset=utf-8",
	} {
		w := get(t, target, nil)
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Content-Type") != contentType || w.Body.Len() == 0 || h.Get("ETag") == "" {
			t.Errorf("%s: %d, %v with %d bytes, want 200 %s", target, w.Code, h, w.Body.Len(), contentType)
		}
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(get(t, "/llms.txt", nil).Body.String(), -1)
	if len(links) < 40 {
		t.Errorf("llms.txt has %d pages, want at least 40", len(links))
	}
	for _, link := range links {
		if !strings.HasPrefix(link[1], "https://") && get(t, "/"+link[1], nil).Code != http.StatusOK {
			t.Errorf("llms.txt leads to %s, which is not served", link[1])
		}
	}
}

// A file that the browser has is not sent again.
func TestNotModified(t *testing.T) {
	tag := get(t, "/inspect/main.js", nil).Header().Get("ETag")
	for _, header := range []string{tag, `"other", ` + tag, "W/" + tag} {
		if w := get(t, "/inspect/main.js", map[string]string{"If-None-Match": header}); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("If-None-Match %s: %d with %d bytes", header, w.Code, w.Body.Len())
		}
	}
	if w := get(t, "/inspect/style.css", map[string]string{"If-None-Match": tag}); w.Code != http.StatusOK {
		t.Errorf("the tag of another file: %d", w.Code)
	}
}

// The document has nothing that the policy refuses, and refers to files that are served.
func TestDocumentKeepsThePolicy(t *testing.T) {
	index := get(t, "/", nil).Body.String()
	for _, forbidden := range []string{"<script>", ` style="`, "<style", " onclick=", " onload=", "javascript:"} {
		if strings.Contains(index, forbidden) {
			t.Errorf("index.html has %s", forbidden)
		}
	}
	refs := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(index, -1)
	if len(refs) == 0 {
		t.Error("index.html refers to no file")
	}
	for _, ref := range refs {
		if get(t, ref[1], nil).Code != http.StatusOK {
			t.Errorf("index.html refers to %s", ref[1])
		}
	}
}

// The source makes no markup from text, and loads nothing of another origin.
func TestSourceKeepsThePolicy(t *testing.T) {
	files, err := filepath.Glob("web/src/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "dangerouslySet", "eval(", "new Function", "http://", "https://"} {
			if strings.Contains(string(source), forbidden) && filepath.Ext(name) != ".svg" {
				t.Errorf("%s has %s", name, forbidden)
			}
		}
	}
}

// The files of the page are small enough for a phone: at most 300 KB, about 100 KB compressed. The documents make the binary larger by at most 400 KB.
func TestSize(t *testing.T) {
	for most, files := range map[int]embed.FS{300 << 10: dist, 400 << 10: docs.Files} {
		size := 0
		for name, f := range load(files, "") {
			size += len(f.body)
			if f.contentType == "" {
				t.Errorf("%s is embedded, and has no content type", name)
			}
		}
		if size == 0 || size > most {
			t.Errorf("%d bytes, want at most %d", size, most)
		}
	}
}

// The page needs a list of agents and views, which is documented; its files are not. The list has what a request of the client may name, and nothing of another view.
func TestAgents(t *testing.T) {
	agents := []Agent{{Type: "support", Prompts: []Prompt{{Title: "Parcel", Summary: "A question.", Text: "Where is it?"}}}, {Type: "ops", Prompts: []Prompt{}}}
	read := func(text string) *view.Views {
		views, err := view.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return views
	}
	free := read(`{"views": {"b": {"preset": "public"}, "a": {"preset": "none"}}}`)
	bound := read(`{"views": {"c": {"preset": "public"}, "a": {"preset": "none"}, "b": {"preset": "all"}}, "default": "c", "selectable": ["a"]}`)
	const listed = `{"agents":[{"type":"support","prompts":[{"title":"Parcel","summary":"A question.","text":"Where is it?"}]},{"type":"ops","prompts":[]}],`
	for _, test := range []struct {
		views   *view.Views
		allowed []string
		want    string
	}{
		{nil, []string{"*"}, `"views":[],"view":""`},
		{free, []string{"*"}, `"views":["a","b"],"view":""`},
		{free, nil, `"views":[],"view":""`},
		{free, []string{"b", "gone"}, `"views":["b"],"view":"b"`},
		{bound, []string{"*"}, `"views":["a","c"],"view":"c"`},
		{bound, nil, `"views":[],"view":"c"`},
		{bound, []string{"a", "b"}, `"views":["a"],"view":"a"`},
	} {
		route := Routes(agents, test.views, &httpkit.Responder{Log: slog.New(slog.DiscardHandler)})[0]
		if documented := openapitest.Load(t).Operations("inspector"); len(documented) != 1 || documented[0] != route.Method+" "+route.Path || route.Public || route.Scope != auth.ScopeRead {
			t.Errorf("%s %s of scope %s, documented: %q", route.Method, route.Path, route.Scope, documented)
		}
		ctx := authn.NewContext(t.Context(), &auth.Grant{Tenant: "t", Subject: "s", Scopes: auth.ScopeRead | auth.ScopeStop, Views: test.allowed})
		w := httptest.NewRecorder()
		if p := route.Serve(w, httptest.NewRequestWithContext(ctx, route.Method, route.Path, http.NoBody), ""); p != nil {
			t.Fatal(p)
		}
		if got := strings.TrimSpace(w.Body.String()); got != listed+test.want+`,"scopes":"read stop"}` {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}
