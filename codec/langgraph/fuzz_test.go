package langgraph

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzTranslate checks for any lines that Translate and End return valid chunks that fold without a fault, that a sub-agent starts before its first chunk and ends after
// its last one, that the run has an end, and that the same lines give the same chunks.
func FuzzTranslate(f *testing.F) {
	names, lines := streams(f)
	for _, name := range names {
		f.Add(strings.Join(lines[name], "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		events := append(strings.Split(text, "\n"), "-")
		steps := translate(t, events)
		if s := folded(t, steps)["s1"]; s.Status == "active" {
			t.Fatal("the run is still running at the end of its response")
		}
		if again := translate(t, events); !reflect.DeepEqual(steps, again) {
			t.Fatalf("once %v\nthen %v", steps, again)
		}
	})
}
