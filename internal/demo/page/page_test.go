package page

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, method, target string, header map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	resp := w.Result()
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestFilesAreServed(t *testing.T) {
	tests := map[string]struct {
		method, target string
		status         int
		contentType    string
	}{
		"the page":             {"GET", "/", 200, "text/html; charset=utf-8"},
		"its name":             {"GET", "/index.html", 200, "text/html; charset=utf-8"},
		"a script":             {"GET", "/app.js", 200, "text/javascript; charset=utf-8"},
		"the style":            {"HEAD", "/style.css", 200, "text/css; charset=utf-8"},
		"the icon":             {"GET", "/favicon.svg", 200, "image/svg+xml"},
		"nothing":              {"GET", "/nothing", 404, "text/plain; charset=utf-8"},
		"outside of the files": {"GET", "/../page.go", 404, "text/plain; charset=utf-8"},
		"the folder":           {"GET", "/static/", 404, "text/plain; charset=utf-8"},
		"a write":              {"POST", "/", 405, "text/plain; charset=utf-8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			resp := get(t, test.method, test.target, nil) //nolint:bodyclose // get closes it with the test
			if resp.StatusCode != test.status || resp.Header.Get("Content-Type") != test.contentType {
				t.Errorf("%d %s, want %d %s", resp.StatusCode, resp.Header.Get("Content-Type"), test.status, test.contentType)
			}
			if resp.Header.Get("Content-Security-Policy") != ContentSecurityPolicy || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// A file that the browser has is not sent again.
func TestNotModified(t *testing.T) {
	tag := get(t, "GET", "/app.js", nil).Header.Get("ETag") //nolint:bodyclose // get closes it with the test
	for _, header := range []string{tag, `"other", ` + tag, "W/" + tag, "*"} {
		resp := get(t, "GET", "/app.js", map[string]string{"If-None-Match": header}) //nolint:bodyclose // get closes it with the test
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusNotModified || len(body) > 0 || err != nil {
			t.Errorf("If-None-Match %s: %d with %d bytes", header, resp.StatusCode, len(body))
		}
	}
	if resp := get(t, "GET", "/style.css", map[string]string{"If-None-Match": tag}); resp.StatusCode != http.StatusOK { //nolint:bodyclose // get closes it with the test
		t.Errorf("the tag of another file: %d", resp.StatusCode)
	}
}

// The page must comply with the policy, and must not create markup from data.
func TestPageKeepsItsPolicy(t *testing.T) {
	index := read(t, "index.html")
	for _, forbidden := range []string{`<script>`, ` style="`, `<style`, ` onclick=`, ` onload=`, `javascript:`} {
		if strings.Contains(index, forbidden) {
			t.Errorf("index.html has %s", forbidden)
		}
	}
	for _, ref := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(index, -1) {
		if _, ok := load()[ref[1]]; !ok && ref[1] != "./" {
			t.Errorf("index.html refers to %s", ref[1])
		}
	}
	for name, f := range load() {
		if f.contentType == "" {
			t.Errorf("%s has no content type", name)
		}
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setAttribute('style'", "http://", "//cdn"} {
			if strings.Contains(string(f.body), forbidden) {
				t.Errorf("%s has %s", name, forbidden)
			}
		}
		for _, ref := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(string(f.body), -1) {
			if _, ok := load()[ref[1]]; !ok {
				t.Errorf("%s imports %s", name, ref[1])
			}
		}
	}
}

// Every chunk type has a handler in the page's model.
func TestModelHandlesEveryChunkType(t *testing.T) {
	model := read(t, "model.js")
	for typ := range strings.FieldsSeq(`run_started text_delta thinking tool_arg_stream_start tool_arg_stream_delta tool_arg_stream_end
		tool_start tool_end tool_approval_request tool_approval_response tool_input_error tool_output_error subagent_start
		subagent_end custom state_patch error output source_url source_document step_start step_end file run_interrupted
		run_resumed run_paused executor_superseded checkpoint_created step_committed step_discarded stream_resync suspension_marker`) {
		if !strings.Contains(model, "\n  "+typ+"(") {
			t.Errorf("model.js has no %s", typ)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := fs.ReadFile(static, "static/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
