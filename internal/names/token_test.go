package names

import (
	"strings"
	"testing"
)

func TestCheckID(t *testing.T) {
	for id, valid := range map[string]bool{
		"invoice-17": true, "chat:1": true, "slack:C01/1700000000.2": true, "19:a@thread.v2;messageid=1": true, "*": false, "%2F": true, "_x-1": true,
		strings.Repeat(":", 64): true,
		"":                      false, ".": false, "..": false, "a/../b": false, "./a": false, "a/..": false, "...": true, "a/": true, "/": true, "a b": false, "a\nb": false, "a\x7Fb": false, `"`: false, `\`: false, ">": false, "{": false, "Zürich": false,
		strings.Repeat(":", 65): false,
	} {
		if err := CheckID("session", id); (err == nil) != valid {
			t.Errorf("CheckID(%q) = %v", id, err)
		}
	}
}
