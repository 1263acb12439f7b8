package ingest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// paced is a body that gets a piece at each tick, for a time, and then the last one.
func paced(t *testing.T, first, piece, last string, during time.Duration) io.Reader {
	t.Helper()
	body, in := io.Pipe()
	go func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		end := time.Now().Add(during)
		_, err := io.WriteString(in, first)
		for err == nil && time.Now().Before(end) {
			<-ticker.C
			_, err = io.WriteString(in, piece)
		}
		if err == nil {
			_, err = io.WriteString(in, last)
		}
		in.CloseWithError(err) // the reader is closed after an error
	}()
	return body
}

// Long lines that follow each other without a break are read for as long as they come, although each piece holds the end of one line and the start of the next. A line
// that comes byte by byte is ended, with what was stored before it.
func TestTheTimeOfAPiece(t *testing.T) {
	const timeout = 2 * time.Second
	w := newEnv(t, func(cfg *envConfig) { cfg.RequestTimeout = timeout })
	half := strings.Repeat("x", 20<<10)
	line := func(text string) string { return `{"type":"text_delta","delta":"` + text }
	for name, tt := range map[string]struct {
		body io.Reader
		want string
	}{
		"long lines": {paced(t, line(half), half+"\"}\n"+line(half), half+"\"}\n", 3*timeout), `"done":true`},
		"bytes":      {paced(t, line("stored")+"\"}\n"+line(half), "x", "\"}\n", 10*timeout), "BODY_TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			session := strings.Fields(name)[0]
			opened, err := w.edges[0].send(t.Context(), http.MethodPost, "/v1/sessions/"+session+"/runs", "application/json", strings.NewReader(`{"runId":"r1"}`))
			if err != nil || opened.status > 299 {
				t.Fatal(opened, err)
			}
			began := time.Now()
			got, err := w.edges[0].send(t.Context(), http.MethodPost, fmt.Sprintf("/v1/sessions/%s/runs/r1/chunks?epoch=%d", session, opened.number("epoch")), "application/x-ndjson", tt.body)
			if err != nil || !strings.Contains(got.body, tt.want) || got.number("stored") == 0 {
				t.Errorf("after %s: %v, %.300s, %v; want %s", time.Since(began), got, got.body, err, tt.want)
			}
		})
	}
}
