package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// ContentSecurityPolicy is the content security policy of every response: scripts, styles and connections of
// this origin only, nothing inline, no frames, no forms. Images may be data URLs, which agents create.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one file of the page.
type file struct {
	body        []byte
	contentType string
	tag         string // strong entity tag
}

// types are the content types by extension. The table of the operating system is not used: some systems list
// JavaScript as text.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Handler serves the page at / and its files. Browsers may cache a response but must revalidate it, so that a
// new binary has a new page at once. Other paths are 404, other methods than GET and HEAD 405.
func Handler() http.Handler {
	files := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		name := cmp.Or(strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/"), "index.html")
		f, ok := files[name]
		switch {
		case !ok:
			http.Error(w, "there is no such page", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

// Paths returns the paths that Handler serves.
func Paths() []string {
	paths := []string{"/"}
	for name := range load() {
		paths = append(paths, "/"+name)
	}
	slices.Sort(paths)
	return paths
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.tag)
	w.Header().Set("Content-Type", f.contentType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", ContentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// load reads the embedded files; it cannot fail in a binary that was built.
func load() map[string]file {
	files := map[string]file{}
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic(fmt.Sprintf("page: %v", err))
	}
	for _, entry := range entries {
		body, err := fs.ReadFile(static, "static/"+entry.Name())
		if err != nil {
			panic(fmt.Sprintf("page: %v", err))
		}
		sum := sha256.Sum256(body)
		files[entry.Name()] = file{
			body:        body,
			contentType: types[path.Ext(entry.Name())],
			tag:         `"` + hex.EncodeToString(sum[:16]) + `"`,
		}
	}
	return files
}
