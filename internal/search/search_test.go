package search_test

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/search"
)

// A text is found in upper and lower case, and in any normal form.
func TestIn(t *testing.T) {
	for _, tt := range []struct {
		text, in string
		want     bool
	}{
		{"parcel", "Where is my PARCEL?", true},
		{"ÄRGER", "\u00e4rger", true},
		{"a\u0308rger", "\u00c4RGER", true}, // an a and a dieresis, and one letter
		{"\u00e4rger", "A\u0308RGER", true},
		{"\u1112\u1161\u11ab", "\ud55c\uae00", true}, // parts of a syllable of Hangul
		{"ΟΔΟΣ", "η οδος", true},
		{"οδος", "Η ΟΔΟΣ", true},
		{"\u212bngstr\u00f6m", "\u00e5ngstr\u00f6m", true}, // the sign of the unit
		{"e", "\u00e9t\u00e9", false},
		{"parcels", "parcel", false},
		{"\xff", "\xff", true},
	} {
		if got := search.For(tt.text).In(tt.in); got != tt.want {
			t.Errorf("%q in %q: %t", tt.text, tt.in, got)
		}
	}
}

// A message is searched in what it says, and not in its ids, states and names of members that each message has.
func TestInMessage(t *testing.T) {
	const message = `{"id":"msg-3","role":"assistant","metadata":{"note":"aside"},"parts":[` +
		`{"type":"text","text":"It\u2019s a \"quoted\"\nline \ud83d\ude00","state":"done"},{"type":"step-start"},` +
		`{"type":"tool-get_order","toolCallId":"call-77","state":"output-available","input":{"order":[1042,{"deep":"down"}]},"output":"a, b: {c}","providerExecuted":true},` +
		`{"type":"dynamic-tool","toolName":"look_up","toolCallId":"call-78","state":"output-error","rawInput":null,"errorText":"no answer"},` +
		`{"type":"file","url":"data:text/plain;base64,aGVsbG8","mediaType":"text/plain","filename":"report.txt"},` +
		`{"type":"data-map","data":{"city":"Ulm"}},{"type":"text","text":"\ud800 alone"}]}`
	for _, text := range []string{
		"It’s a", `"QUOTED"`, "😀", "get_order", "1042", "DEEP", "down", "a, b: {c}", "look_up", "no answer", "report.txt", "city", "ulm", "alone",
	} {
		if !search.For(text).InMessage([]byte(message)) {
			t.Errorf("%q is not found", text)
		}
	}
	for _, text := range []string{"msg-3", "assistant", "aside", "state", "done", "call-7", "toolCallId", "output-", "base64", "plain", "data-map", "dynamic", "quoted\\", "\\u2019", "42,"} {
		if search.For(text).InMessage([]byte(message)) {
			t.Errorf("%q is found", text)
		}
	}
}

// FuzzInMessage checks that a text is found in a message that has it, whatever is around it, and that no JSON stops the search.
func FuzzInMessage(f *testing.F) {
	f.Add(`{"a":[1,"x"]}`, "needle")
	f.Add(`"`, "Straße")
	f.Fuzz(func(t *testing.T, other, text string) {
		search.For(text).InMessage([]byte(other))
		message := `{"parts":[{"type":"text","input":` + other + `,"text":"` + strings.Repeat("-", 5) + `needle"}]}`
		search.For("needle").InMessage([]byte(message))
		if !search.For(text).In(text) || !search.For(strings.ToUpper(text)).In(text) {
			t.Errorf("%q is not found in itself", text)
		}
	})
}
