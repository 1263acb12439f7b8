package jscontrol

import (
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/names"
)

// The values in docs/reference/commands.md are valid under their keys, and equal the encoded values.
func TestDocumentedValues(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "$KV.TR_INBOX."
	s := chunk.RootSession("acme", "s1")
	seen := map[string]int{}
	for _, block := range strings.Split(string(doc), "```text\n"+prefix)[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		key, data, _ := strings.Cut(block, "\n\n")
		var again []byte
		if strings.HasSuffix(key, ".stop") {
			want, keyErr := names.InboxStopKey(s, "run-1")
			stop, err := control.DecodeStop(s, "run-1", []byte(data))
			if err != nil || keyErr != nil || key != want {
				t.Fatalf("%s: %v, %v", block, err, keyErr)
			}
			seen[string(stop.Kind)]++
			again, err = stop.Encode()
			if err != nil {
				t.Fatal(err)
			}
		} else {
			a, err := control.DecodeAnswer(s, "run-1", key, []byte(data))
			if err != nil {
				t.Fatalf("%s: %v", block, err)
			}
			seen[string(a.Kind)]++
			again, err = a.Encode()
			if err != nil {
				t.Fatal(err)
			}
		}
		if string(again) != data {
			t.Errorf("we write\n%s\ndocumented is\n%s", again, data)
		}
	}
	for kind, want := range map[string]int{"client-tool-result": 2, "approval-response": 2, "subagent-result": 1, "interrupt": 1} {
		if seen[kind] != want {
			t.Errorf("%d of kind %s are documented, want %d", seen[kind], kind, want)
		}
	}
}
