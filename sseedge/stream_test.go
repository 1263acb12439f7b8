package sseedge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

var s1 = chunk.RootSession("default", "s1")

// A client gets what was, then what comes, then a clean end; and 204 when it
// asks for more.
func TestStreamFromTheBeginningToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"Hel"`)
		resp := w.get(t.Context(), "/v1/sessions/s1/events", nil)
		defer resp.Body.Close()
		go func() {
			time.Sleep(time.Second)
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"lo"`)
			time.Sleep(40 * time.Second) // two heartbeats
			w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"s1","finalOutput":{"n":1}`)
		}()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("got %d %s", resp.StatusCode, resp.Header)
		}
		body := readAll(t, resp.Body)
		chunkJSON := func(delta string) string {
			return string(logtestBody(`"delta":"` + delta + `"`))
		}
		want := "id: 1\ndata: {\"type\":\"chunk\",\"chunk\":" + chunkJSON("Hel") + ",\"sequence\":1}\n\n" +
			"id: 2\ndata: {\"type\":\"chunk\",\"chunk\":" + chunkJSON("lo") + ",\"sequence\":2}\n\n" +
			strings.Repeat(": keepalive\n\n", 2) +
			"id: 3\ndata: {\"type\":\"end\",\"finalOutput\":{\"n\":1}}\n\n"
		if body != want {
			t.Errorf("got\n%s\nwant\n%s", body, want)
		}
		if rec := w.record("GET", "/v1/sessions/s1/events", http.Header{"Last-Event-Id": {"3"}}); rec.Code != http.StatusNoContent {
			t.Errorf("after the end: %d, want 204", rec.Code)
		}
		fmt.Fprintln(t.Output(), w.hub.Stats())
	})
}
