package nearest

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	names := []string{"text_delta", "text_end", "tool_end", "done", strings.Repeat("x", 300)}
	for typed, want := range map[string]string{
		"text-delta": "text_delta", "TextDelta": "text_delta", "txt_dlta": "text_delta", "toolend": "tool_end",
		strings.Repeat("x", 1<<26): "", strings.Repeat("x", 300) + "a": "",
		"don": "done", "do": "", "progress": "", "": "", "text_deltaxxxx": "",
	} {
		if got := Name(typed, names); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"MDOEL", "MODEL", 2}, {"ab", "ba", 2}, {"flaw", "lawn", 2}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
