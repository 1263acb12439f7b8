package httpkit

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The methods and request headers that a page of another origin may use, and the response headers that it may read. HEAD is listed because browsers send it
// without a preflight.
const (
	corsMethods = "GET, HEAD, POST, DELETE, OPTIONS"
	corsHeaders = "Content-Type, Authorization, X-Resume-From-Sequence, X-Resume-At, X-Existing-Message-Id, Last-Event-Id, If-None-Match, Tailrace-Epoch, Tailrace-First-Line, Tailrace-Strict, Traceparent, User-Agent"
	corsExposed = "ETag, X-Session-Id, X-Stream-Epoch, X-Vercel-Ai-Ui-Message-Stream, Tailrace-First-Line, X-Forks-Left, Retry-After, WWW-Authenticate"
	corsMaxAge  = "600" // seconds
)

// CORS allows pages of these origins, and of no others, to read the responses of next, problems included, with the credentials of their user. An origin is as
// browsers send it, "https://app.example" or "http://localhost:3000"; an empty list allows none. CORS responds to every preflight itself, for any path: 204,
// or 403 to another origin. It passes the ResponseWriter on unchanged.
//
// Of a request only an origin of the list is sent back: the browser compares methods and headers with the lists above, so the rest of a preflight is not read.
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

// isPreflight reports whether an OPTIONS request is a preflight of a browser. Others are passed on and rejected like any other method.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && r.Header.Get("Access-Control-Request-Method") != ""
}

// checkOrigin accepts what a browser can send and what identifies a site. "null" is the origin of every sandboxed frame and every file. Browsers never send a
// default port, so an origin with one would match nothing.
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
