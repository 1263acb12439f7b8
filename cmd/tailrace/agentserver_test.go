package main

import (
	"net/http"
	"strings"
	"testing"
)

// Nobody can have agents work from outside unless a setting says so, and then
// below the path that it says.
func TestAgentServerIsOff(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		path string
		want int
	}{
		"off":       {nil, "/agents/status", http.StatusNotFound},
		"on":        {[]string{"--agent-server"}, "/agents/status", http.StatusBadRequest},
		"elsewhere": {[]string{"--agent-server", "--agent-server-path", "/a/b"}, "/a/b/status", http.StatusBadRequest},
		"and there": {[]string{"--agent-server", "--agent-server-path", "/a/b"}, "/agents/status", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			if got, body := get(t, runEdgeFor(t, c.args...).url+c.path, ""); got != c.want || !strings.Contains(body, `"code":`) {
				t.Errorf("%d %s, want %d", got, body, c.want)
			}
		})
	}
}
