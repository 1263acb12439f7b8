package ingest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// The lines of chunks in docs/guides and docs/frameworks are stored without a warning, also those of a sub-agent.
func TestLinesOfDocuments(t *testing.T) {
	w := newEnv(t, nil)
	pages, err := filepath.Glob("../../docs/[fg]*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	boxes := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, box := range strings.Split(string(text), "```jsonl\n")[1:] {
			boxes++
			lines, _, _ := strings.Cut(box, "```")
			session := fmt.Sprintf("s%d", boxes)
			w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", openS1)
			a := w.append("/v1/sessions/"+session+"/runs/r1/chunks?epoch=1", lines, "Tailrace-First-Line", "1")
			if got := int(a.number("stored")); got != strings.Count(lines, "\n") || a.members()["warnings"] != nil {
				t.Errorf("%s: %s: %s", page, a, a.body)
			}
			if strings.Contains(lines, `"w1"`) {
				if n := len(w.Bodies(chunk.Session{Tenant: tenant, Root: session, ID: "w1"})); n != 3 {
					t.Errorf("the session of the sub-agent has %d records, want its start, a text and its end", n)
				}
			}
		}
	}
	if boxes < 6 {
		t.Errorf("%d blocks of lines, want at least 6", boxes)
	}
}
