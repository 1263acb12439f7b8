package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A tenant writes as many runs at a time as it may. A later request for one of them takes its place, and a request that has ended leaves its place.
func TestRunsOfATenantAreLimited(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.MaxRuns = func(string) int { return 2 } })
	chunks := func(session string) string {
		opened, err := w.edges[0].send(t.Context(), http.MethodPost, "/v1/sessions/"+session+"/runs", "application/json", strings.NewReader(`{"runId":"r1"}`))
		if err != nil || opened.status > 299 {
			t.Fatal(opened, err)
		}
		return fmt.Sprintf("/v1/sessions/%s/runs/r1/chunks?epoch=%d", session, opened.number("epoch"))
	}
	isStored := func(m map[string]any) bool { return m["stored"] != nil }
	const line = `{"type":"text_delta","delta":"a"}`
	first, second, third := chunks("s1"), chunks("s2"), chunks("s3")
	for _, path := range []string{first, second} {
		s := w.stream(path)
		s.write(line)
		s.await("a stored line", isStored)
	}
	if got := w.append(third, line); got.String() != "429 TOO_MANY_RUNS_OF_TENANT" || got.header.Get("Retry-After") == "" {
		t.Errorf("a third run: %v", got)
	}
	if got := w.append(first, line); got.status != http.StatusOK { // ends the request that writes the run
		t.Errorf("a later request: %v", got)
	}
	if got := w.append(third, line); got.status != http.StatusOK {
		t.Errorf("in the place that was left: %v", got)
	}
}
