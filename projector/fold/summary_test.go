package fold

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// asked is a run with user messages; a text that begins with "-" is hidden.
func asked(n int, model string, texts ...string) chunk.RunStarted {
	b := chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n), Mode: "execute"}
	if model != "" {
		b.Model = &model
	}
	for _, text := range texts {
		in := chunk.InputMessage{Content: text}
		if strings.HasPrefix(text, "-") {
			in.Metadata = new(chunk.Value(`{"hidden":true}`))
		}
		b.Input = append(b.Input, in)
	}
	return b
}

func used(model, cost string, input int) chunk.StepEnd {
	end := chunk.StepEnd{Usage: &chunk.Usage{InputTokens: chunk.Number(fmt.Sprint(input)), OutputTokens: "1"}}
	if model != "" {
		end.Model = &model
	}
	if cost != "" {
		end.Usage.Cost = &cost
	}
	return end
}

// A Summary has the title, the counts, the usage by model and the latest error of the records, also if the snapshot is saved and loaded after each of them.
func TestSummary(t *testing.T) {
	for _, reloads := range []bool{false, true} {
		t.Run(fmt.Sprintf("reloads=%t", reloads), func(t *testing.T) { testSummary(t, reloads) })
	}
}

func testSummary(t *testing.T, reloads bool) {
	t.Helper()
	sc := &script{t: t, s: newSnapshot(session), reloads: reloads}
	expect := func(want string) {
		t.Helper()
		got, err := json.Marshal(sc.s.Summary())
		if err != nil || string(got) != want {
			t.Errorf("the summary is\n%s, want\n%s, %v", got, want, err)
		}
	}
	expect(`{}`)
	long := "Where\r\n is \u202e my\x00 " + strings.Repeat("ä", 100)
	sc.applyChunk(0, asked(1, "m-1", "-a secret", "", long))
	title := "Where is my " + strings.Repeat("ä", 68)
	expect(`{"title":"` + title + `","runs":1,"messages":3}`)
	sc.applyChunk(1, used("", "", 9))
	sc.applyChunk(1, used("m-2", "0.25", 99))
	sc.applyChunk(1, used("m-2", "", 49))
	expect(`{"title":"` + title + `","runs":1,"messages":3,"models":[{"input":99,"output":1,"model":"m-2","currency":"USD","cost":250000000},{"input":49,"output":1,"model":"m-2"},{"input":9,"output":1,"model":"m-1"}]}`)

	edited := asked(2, "", "Another question", "and one more")
	edited.Input[0].Extra = []chunk.Member{{Name: ReplacesMember, Value: chunk.Value(`"msg-2"`)}}
	sc.applyChunk(0, edited)
	boom := "no answer from \"orders\" after 900 ms"
	sc.applyChunk(1, chunk.ToolStart{ToolCallID: "c1", ToolName: "get_order", Arguments: chunk.Value(`{}`)})
	sc.applyChunk(1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "get_order", Result: chunk.Value(`null`), Error: &boom})
	sc.applyChunk(1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "get_order", Result: chunk.Value(`null`), Error: new("too late")})
	sc.applyChunk(1, chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "delete", ApprovalID: "a", Input: chunk.Value(`{}`)})
	sc.applyChunk(1, chunk.ToolStart{ToolCallID: "c3", ToolName: "ask", Arguments: chunk.Value(`{}`)})
	for i := range 20 {
		sc.applyChunk(1, used(fmt.Sprint("x-", i), "", 1000+i))
	}
	sc.applyChunk(1, used(strings.Repeat("y", 65), "", 5))
	sc.applyChunk(1, chunk.StreamPaused{})
	models := `"models":[{"input":1012,"output":1,"model":"x-12"},{"input":1011,"output":1,"model":"x-11"},{"input":1010,"output":1,"model":"x-10"},{"input":1009,"output":1,"model":"x-9"},{"input":16310,"output":20}]`
	expect(`{"title":"Another question","runs":2,"messages":6,"failedCalls":1,` + models +
		`,"error":{"code":"tool_failed","text":"no answer from \"orders\" after 900 ms","tool":"get_order"},"approvals":1,"clientTools":1}`)

	sc.applyChunk(0, chunk.StreamFailed{Error: "broken", ErrorDetail: &chunk.ErrorDetail{Message: "broken", Category: new("network")}})
	expect(`{"title":"Another question","runs":2,"messages":6,"failedCalls":1,` + models + `,"error":{"code":"network","text":"broken"}}`)
	sc.applyChunk(0, asked(3, "", "again"))
	sc.applyChunk(0, chunk.StreamFailed{Error: "deleted", ErrorDetail: &chunk.ErrorDetail{Message: "deleted", Code: new(chunk.CodeSessionDeleted)}})
	expect(`{}`)
}

// What a cleanup removes is not counted.
func TestSummaryAfterACleanup(t *testing.T) {
	sc := &script{t: t, s: newSnapshot(session)}
	sc.applyChunk(0, asked(1, "m", "one"))
	sc.applyChunk(1, used("", "", 9))
	kept := sc.s.Summary()
	sc.applyChunk(2, chunk.ToolStart{ToolCallID: "c1", ToolName: "get_order", Arguments: chunk.Value(`{}`)})
	sc.applyChunk(2, chunk.ToolEnd{ToolCallID: "c1", ToolName: "get_order", Result: chunk.Value(`null`), Error: new("broken")})
	sc.applyChunk(2, used("", "", 9))
	sc.applyChunk(0, chunk.Truncated{TruncatedAtStep: 1, FromSequence: 3, AtSequence: 5, Removed: []chunk.OrdinalRange{{First: 3, Last: 5}}})
	got, want := fmt.Sprintf("%+v", sc.s.Summary()), fmt.Sprintf("%+v", kept)
	if got != want {
		t.Errorf("the summary is %s, want %s", got, want)
	}
}

// A head that an earlier build has stored has no counts. Its sum of tokens is without a model.
func TestSummaryOfAnEarlierHead(t *testing.T) {
	sc := &script{t: t, s: newSnapshot(session)}
	sc.applyChunk(0, asked(1, "m", "one"))
	sc.applyChunk(1, used("", "", 9))
	head := regexp.MustCompile(`"counts":\{([^{}]|\{[^{}]*\})*\},`).ReplaceAllString(string(sc.s.AppendHead(nil)), "")
	if strings.Contains(head, "counts") {
		t.Fatal(head)
	}
	var err error
	if sc.s, err = ParseHead([]byte(head)); err != nil {
		t.Fatal(err)
	}
	sc.applyChunk(1, used("m", "", 19))
	got, err := json.Marshal(sc.s.Summary())
	if want := `{"messages":1,"models":[{"input":19,"output":1,"model":"m"},{"input":9,"output":1}]}`; err != nil || string(got) != want {
		t.Errorf("the summary is %s, want %s, %v", got, want, err)
	}
}

// The lines of a Summary are valid UTF-8 without line breaks and within their bounds, for any text.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, size := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text"), rapid.IntRange(0, 20).Draw(t, "size")
		if got := lineOf(text, size); len(got) > size || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\u2028\u202e\x00") {
			t.Fatalf("%q", got)
		}
	})
}

// Errors whose texts differ in numbers, ids and quotations are of one group; a cut quotation is one too.
func TestErrorGroups(t *testing.T) {
	for text, want := range map[string]string{
		`no answer from "orders" after 900 ms`:      "no answer from <word> after <n> ms",
		`can't read 'a b' and ` + "`c d`":           "can't read <word> and <word>",
		`session run-8c1f22aa-77 is gone`:           "session <id> is gone",
		`step3 of gpt-5 failed: HTTP 503`:           "step<n> of gpt-<n> failed: HTTP <n>",
		`rejected "a very long name that was cut o`: "rejected <word>",
		``: "",
	} {
		e := LatestError{Code: "c", Text: text}
		if got := e.Pattern(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	a := LatestError{Code: "tool_failed", Tool: "x", Text: "after 900 ms", At: 1}
	b := LatestError{Code: "tool_failed", Tool: "x", Text: "after 7 ms"}
	c := LatestError{Code: "tool_failed", Tool: "y", Text: "after 7 ms"}
	if a.Group() != b.Group() || a.Group() == c.Group() || len(a.Group()) != 12 {
		t.Errorf("groups %s, %s and %s", a.Group(), b.Group(), c.Group())
	}
}
