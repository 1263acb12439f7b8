package chat

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// A file of a user that is larger than a record is stored as an object, and the agent gets all of it. The page sends it again with each request; that is the same
// message.
func TestLargeUpload(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			var got []string
			for _, m := range t.Input() {
				for _, f := range m.Files {
					got = append(got, fmt.Sprint("input ", len(f.URL)))
				}
			}
			for _, m := range t.Messages() {
				for _, p := range m.Parts {
					if p.Kind == fold.PartFile {
						got = append(got, fmt.Sprint("message ", len(p.File.URL)))
					}
				}
			}
			return s.Text(ctx, strings.Join(got, ", "))
		})
	})})
	picture := values.MakeDataURL("image/png", []byte(strings.Repeat("pixel", 180<<10)))
	first := `{"id":"u1","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"` + picture + `"}]}`
	answered := func(what string) string { return "text-delta(" + fmt.Sprintf(what, len(picture), len(picture)) + ")" }
	if got := e.post("", chatBody("", first)); !strings.Contains(got, answered("input %d, message %d")) {
		t.Fatalf("%.500s", got)
	}
	if got := e.post("", chatBody("", first)); strings.Contains(got, "TOO_LARGE") || e.page() != "ended: msg-0 user, msg-1 assistant" {
		t.Errorf("the same request: %.500s, %s", got, e.page())
	}
	if page := e.get("/snapshot", nil); !strings.Contains(page, `"url":"/v1/sessions/s1/values/1-run_started-input-`) || strings.Contains(page, picture) {
		t.Errorf("page %.2000s, want a reference to the file", page)
	}
	const said = `{"id":"msg-1","role":"assistant","parts":[{"type":"text","text":"Seen."}]}`
	if got := e.post("", chatBody("", first, said, user("u2", "And now?"))); !strings.Contains(got, "text-delta(message "+fmt.Sprint(len(picture))+")") {
		t.Errorf("the next message: %.500s", got)
	}
	// An edit that has the same file is the same edit, before and after it is stored.
	edit := chatBody(`,"messageId":"u1"`, strings.Replace(first, `"parts":[`, `"parts":[{"type":"text","text":"What is it?"},`, 1))
	for range 2 {
		if got := e.post("", edit); strings.Contains(got, `"code"`) {
			t.Errorf("edit: %.500s", got)
		}
	}
	if page := e.page(); page != "ended: msg-4 user, msg-5 assistant" {
		t.Errorf("after the edit: %s", page)
	}
	if got := e.post("", chatBody("", user("u9", strings.Repeat("x", 600<<10)))); !strings.HasPrefix(got, fmt.Sprint(http.StatusRequestEntityTooLarge)) {
		t.Errorf("a large text: %.500s, want 413", got)
	}
}
