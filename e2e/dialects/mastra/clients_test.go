//go:build e2e

package mastra

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/tailrace/tailrace/e2e/dialects/npm"
)

// reply is an answer of clients.mjs.
type reply struct {
	Fault  string   `json:"fault"`
	Logged []string `json:"logged"`

	Chunks   []json.RawMessage `json:"chunks"`
	Executed []struct {
		Name  string         `json:"name"`
		Input map[string]any `json:"input"`
	} `json:"executed"`
	Requests []struct {
		URL  string         `json:"url"`
		Body map[string]any `json:"body"`
	} `json:"requests"`
	Message map[string]any `json:"message"`
	Finish  string         `json:"finish"`
	Errors  []string       `json:"errors"`

	Stored   []map[string]any `json:"stored"`
	Wanted   []map[string]any `json:"wanted"`
	Messages []map[string]any `json:"messages"`
}

// clients is the process with the packages.
var clients = npm.Program{Name: "mastra", Script: "clients.mjs", Packages: "packages"}

// ask returns the answer to a request.
func ask(t *testing.T, op string, request map[string]any) (v reply) {
	t.Helper()
	whole := map[string]any{"op": op}
	maps.Copy(whole, request)
	clients.Ask(t, whole, &v)
	if v.Fault != "" {
		t.Fatal(v.Fault)
	}
	return v
}
