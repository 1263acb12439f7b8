// Package inspector serves the web page that shows sessions, live and afterwards, and the documents of this version. The page is a client of the routes of the edge, with the rights of
// its user; files and documents need no credential and contain no data.
//
// The source is in web/src and is written in TypeScript with Preact. The files of web/dist are built from it and embedded, so that a build of the binary needs no
// Node:
//
//	make inspector
package inspector

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/docs"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
)

//go:embed web/dist
var dist embed.FS

// ContentSecurityPolicy is that of every response: scripts, styles and connections of this origin only, nothing inline, no markup from text, no frames, no forms.
// Images may be data URLs, which agents create.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// types are the content types by extension. The table of the operating system is not used: some systems list JavaScript as text.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".md":   "text/markdown; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
}

// folder is the path of the list, and of all other screens and files below it.
const folder = "/inspect"

// Agent is an agent to which the page writes messages.
type Agent struct {
	Type    string   `json:"type"`
	Prompts []Prompt `json:"prompts"` // messages to try
}

// Prompt is a message that an agent knows.
type Prompt struct {
	Title   string `json:"title"`
	Summary string `json:"summary"`
	Text    string `json:"text"`
}

// offer is what the page may offer to its client.
type offer struct {
	Agents []Agent  `json:"agents"`
	Views  []string `json:"views"`  // that a request may name
	View   string   `json:"view"`   // of a request that names no view; "" shows everything
	Scopes string   `json:"scopes"` // rights, separated by spaces
}

// offerTo returns what a Grant allows.
func offerTo(g *auth.Grant, agents []Agent, views *view.Views) offer {
	o := offer{Agents: agents, Views: []string{}, Scopes: g.Scopes.String()}
	o.View, _ = access.View(g, views, "")
	for _, name := range views.Names() {
		if _, ok := access.View(g, views, name); ok {
			o.Views = append(o.Views, name)
		}
	}
	return o
}

// Routes returns the routes of the screens, which are one document, of its files, and of the documents of Tailrace; and GET /v1/agents, which lists agents and views. Browsers may
// store a file and must revalidate it, so that a new binary has a new page at once.
func Routes(agents []Agent, views *view.Views, respond *httpkit.Responder) []httpkit.Route {
	list := func(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
		respond.JSON(w, http.StatusOK, offerTo(httpkit.GrantOf(r.Context()), agents, views))
		return nil
	}
	routes := []httpkit.Route{{Name: "agents", Method: http.MethodGet, Path: "/v1/agents", Scope: auth.ScopeRead, Serve: list}}
	add := func(f file, paths ...string) {
		for _, path := range paths {
			routes = append(routes, httpkit.Route{Name: "inspector", Method: http.MethodGet, Path: path, Public: true, OtherID: true, Serve: f.serve})
		}
	}
	for name, f := range load(dist, "web/dist/") {
		if name == "index.html" {
			add(f, "/", folder, folder+"/s/{id}", folder+"/compare", folder+"/shared")
		} else {
			add(f, folder+"/"+name)
		}
	}
	for name, f := range load(docs.Files, "") {
		add(f, "/docs/"+name)
		if name == "llms.txt" {
			add(f, "/llms.txt")
		}
	}
	return routes
}

// file is one file of the page, or a document.
type file struct {
	body        []byte
	contentType string
	tag         string // strong entity tag
}

func (f file) serve(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	h := w.Header()
	h.Set("Content-Security-Policy", ContentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	h.Set("Content-Type", f.contentType)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
	return nil
}

// load reads embedded files, by their names without a prefix. It cannot fail in a binary that was built.
func load(files embed.FS, prefix string) map[string]file {
	loaded := make(map[string]file)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		sum := sha256.Sum256(body)
		loaded[strings.TrimPrefix(name, prefix)] = file{body: body, contentType: types[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:16]) + `"`}
		return err
	})
	if err != nil {
		panic("inspector: " + err.Error())
	}
	return loaded
}
