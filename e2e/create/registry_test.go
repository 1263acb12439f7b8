//go:build e2e

package create

import (
	"crypto/sha1"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// registry is an npm registry of our packages. It redirects requests for all others to the registry that npm is configured with.
type registry struct {
	url      string
	upstream string
	packages map[string]published
}

// published is a packed package.
type published struct {
	manifest map[string]any // package.json
	archive  []byte
}

func newRegistry(t *testing.T, upstream string, archives ...archive) *registry {
	t.Helper()
	r := &registry{upstream: strings.TrimSuffix(upstream, "/"), packages: map[string]published{}}
	for _, a := range archives {
		data, err := os.ReadFile(a.path)
		if err != nil {
			t.Fatal(err)
		}
		r.packages[fmt.Sprint(a.manifest["name"])] = published{a.manifest, data}
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, isArchive := strings.CutSuffix(strings.TrimPrefix(req.URL.Path, "/"), ".tgz")
	p, ok := r.packages[filepath.Base(name)]
	switch {
	case !ok:
		http.Redirect(w, req, r.upstream+req.URL.RequestURI(), http.StatusTemporaryRedirect)
	case isArchive:
		_, _ = w.Write(p.archive) // fails if npm has gone
	default:
		version := fmt.Sprint(p.manifest["version"])
		short, long := sha1.Sum(p.archive), sha512.Sum512(p.archive)
		p.manifest["dist"] = map[string]any{
			"tarball": r.url + "/" + name + ".tgz", "shasum": hex.EncodeToString(short[:]), "integrity": "sha512-" + base64.StdEncoding.EncodeToString(long[:]),
		}
		w.Header().Set("Content-Type", "application/json")
		packument := map[string]any{"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: p.manifest}}
		if err := json.NewEncoder(w).Encode(packument); err != nil {
			panic(http.ErrAbortHandler) // npm has gone
		}
	}
}
