package sseedge

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What a page of another origin may ask with and see of the answer. HEAD is here
// because browsers ask it without a preflight.
const (
	corsMethods = "GET, HEAD, POST, OPTIONS"
	corsHeaders = "Content-Type, Authorization, X-Resume-From-Sequence, X-Resume-At, X-Existing-Message-Id, Last-Event-Id, If-None-Match, User-Agent"
	corsExposed = "ETag, X-Session-Id, X-Stream-Epoch, X-Vercel-Ai-Ui-Message-Stream, Retry-After"
	corsMaxAge  = "600" // seconds
)

// CORS lets pages of these origins, and of no others, read what next answers,
// refusals included, with the credentials of their user. An origin is one as
// browsers send it, "https://app.example" or "http://localhost:3000"; without
// any, nobody is let in. It answers every preflight itself, wherever it goes to:
// 204, or 403 to a stranger. It leaves the ResponseWriter as it is.
//
// Nothing that came with a request is sent back but an origin of the list: the
// browser compares methods and headers with the lists above, so nothing of a
// preflight needs to be read here.
func CORS(origins []string, next http.Handler) (http.Handler, error) {
	for _, origin := range origins {
		if err := checkOrigin(origin); err != nil {
			return nil, err
		}
	}
	origins = slices.Clone(origins)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header["Origin"]
		allowed := len(origin) == 1 && slices.Contains(origins, origin[0])
		if allowed {
			h.Set("Access-Control-Allow-Origin", origin[0])
			h.Set("Access-Control-Allow-Credentials", "true")
		}
		switch {
		case !isPreflight(r):
			if allowed {
				h.Set("Access-Control-Expose-Headers", corsExposed)
			}
			next.ServeHTTP(w, r)
		case allowed:
			h.Set("Access-Control-Allow-Methods", corsMethods)
			h.Set("Access-Control-Allow-Headers", corsHeaders)
			h.Set("Access-Control-Max-Age", corsMaxAge)
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}), nil
}

// isPreflight tells a browser's question from an OPTIONS of somebody's own,
// which goes on to be refused like any other method.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && r.Header.Get("Access-Control-Request-Method") != ""
}

// checkOrigin takes what a browser can send and can be trusted. "null" is what
// every sandboxed frame and every file calls itself. A default port is never
// sent, and would let nobody in.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	defaultPort := err == nil && (u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443")
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || defaultPort ||
		strings.ContainsAny(u.Host, "*,") || strings.HasSuffix(u.Host, ":") ||
		origin != u.Scheme+"://"+u.Host || origin != strings.ToLower(origin) {
		return fmt.Errorf("origin %q: want scheme://host[:port] as browsers send it, in small letters and without a default port", origin)
	}
	return nil
}
