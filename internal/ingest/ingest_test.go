package ingest

import (
	"net/http"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

func TestRunOverHTTP(t *testing.T) {
	w := newEnv(t, nil)
	open := w.ask(http.MethodPost, "/v1/sessions/s1/runs", `{"runId":"r1","agentType":"support","input":[{"content":"Where is it?"}]}`)
	if open.status != http.StatusCreated || open.text("runId") != "r1" || open.number("epoch") != 1 || open.text("position") == "" {
		t.Fatalf("open: %s %s", open, open.body)
	}
	if again := w.ask(http.MethodPost, "/v1/sessions/s1/runs", `{"runId":"r1"}`); again.status != http.StatusOK || again.number("epoch") != 1 {
		t.Errorf("open again: %s %s", again, again.body)
	}
	if other := w.ask(http.MethodPost, "/v1/sessions/s1/runs", `{"runId":"r2"}`); other.String() != "409 RUN_OPEN" || other.text("runId") != "r1" || other.number("epoch") != 1 {
		t.Errorf("another one: %s %s", other, other.body)
	}
	const path = "/v1/sessions/s1/runs/r1/chunks?epoch=1"
	const lines = `{"type":"step_start"}
{"type":"text_delta","delta":"It is "}

{"type":"thinking","content":"in Oslo.","isComplete":true}
{"type":"step_end","finishReason":"stop"}
`
	a := w.append(path, lines)
	if a.status != http.StatusOK || a.members()["done"] != true || a.number("stored") != 5 || a.number("next") != 6 {
		t.Fatalf("append: %s %s", a, a.body)
	}
	if again := w.append(path, lines+`{"type":"text_delta","delta":"!"}`, "Tailrace-First-Line", "1"); again.number("stored") != 6 {
		t.Errorf("append again: %s %s", again, again.body)
	}
	if more := w.append(path, `{"type":"custom","eventName":"rated","data":5,"step":2}`, "Tailrace-First-Line", "7"); more.number("stored") != 7 {
		t.Errorf("append more: %s %s", more, more.body)
	}
	if gap := w.append(path, `{"type":"text_delta","delta":"?"}`, "Tailrace-First-Line", "9"); gap.String() != "409 WRONG_FIRST_LINE" || gap.number("line") != 8 {
		t.Errorf("a gap: %s %s", gap, gap.body)
	}
	if got := w.ask(http.MethodGet, "/v1/sessions/s1/runs/r1", ""); got.number("stored") != 7 || got.number("next") != 8 || got.text("status") != "active" {
		t.Errorf("state: %s %s", got, got.body)
	}
	for range 2 {
		if got := w.ask(http.MethodPost, "/v1/sessions/s1/runs/r1/end?epoch=1", `{"finalOutput":{"ok":true}}`); got.status != http.StatusOK || got.text("status") != "ended" {
			t.Errorf("end: %s %s", got, got.body)
		}
	}
	if got := w.ask(http.MethodPost, "/v1/sessions/s1/runs/r1/fail?epoch=1", `{"error":"late"}`); got.String() != "409 RUN_ENDED" {
		t.Errorf("fail: %s %s", got, got.body)
	}
	if late := w.append(path, `{"type":"text_delta","delta":"?"}`, "Tailrace-First-Line", "8"); late.String() != "409 RUN_ENDED" || late.number("line") != 8 {
		t.Errorf("late: %s %s", late, late.body)
	}
	const want = `{"type":"run_started","agentId":"s1","agentType":"support","timestamp":1,"step":0,"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Where is it?"}],"by":{"subject":"local"}}
{"type":"step_start","agentId":"s1","agentType":"support","timestamp":1,"step":1}
{"type":"text_delta","agentId":"s1","agentType":"support","timestamp":1,"step":1,"delta":"It is "}
{"type":"thinking","agentId":"s1","agentType":"support","timestamp":1,"step":1,"content":"in Oslo.","isComplete":true}
{"type":"step_end","agentId":"s1","agentType":"support","timestamp":1,"step":1,"finishReason":"stop"}
{"type":"text_delta","agentId":"s1","agentType":"support","timestamp":1,"step":1,"delta":"!"}
{"type":"custom","agentId":"s1","agentType":"support","timestamp":1,"step":2,"eventName":"rated","data":5}
{"type":"stream_end","agentId":"s1","agentType":"support","timestamp":1,"step":2,"streamId":"s1","finalOutput":{"ok":true}}
`
	if got := w.lines(chunk.RootSession(tenant, "s1")); got != want {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
}
