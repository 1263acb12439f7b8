package main

import (
	"net/http"
	"strings"
	"testing"
)

// The agent server is disabled by default, and enabled it serves the configured
// path.
func TestAgentServerIsDisabledByDefault(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		path string
		want int
	}{
		"off":     {nil, "/agents/status", http.StatusNotFound},
		"on":      {[]string{"--agent-server", "/agents"}, "/agents/status", http.StatusBadRequest},
		"deeper":  {[]string{"--agent-server", "/a/b"}, "/a/b/status", http.StatusBadRequest},
		"another": {[]string{"--agent-server", "/a/b"}, "/agents/status", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if got, body := get(t, startEdge(t, c.args...).url+c.path, ""); got != c.want || !strings.Contains(body, `"code":`) {
				t.Errorf("%d %s, want %d", got, body, c.want)
			}
		})
	}
}
