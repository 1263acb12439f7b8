package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/producers"
)

// A line of a type that does not exist, and a first line of another dialect, are refused with what was probably meant, and nothing of them is stored.
func TestMistakenLines(t *testing.T) {
	const text = `{"type":"text_delta","delta":"ok"}` + "\n"
	const openai = `{"choices":[{"index":0,"delta":{"content":"x"}}]}`
	const mastra = `{"type":"text-delta","runId":"m","from":"AGENT","payload":{"id":"1","text":"x"}}`
	const agui = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	w := newEnv(t, nil)
	n := 0
	send := func(query, lines string, header ...string) (a answer, records int) {
		t.Helper()
		n++
		session := fmt.Sprintf("s%d", n)
		w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", openS1)
		a = w.append("/v1/sessions/"+session+"/runs/r1/chunks?epoch=1"+query, lines, append(header, "Tailrace-First-Line", "1")...)
		return a, len(w.Bodies(chunk.RootSession(tenant, session))) - 1
	}
	const unread = "; the lines after it were not read"
	for name, tt := range map[string]struct {
		query, lines, code, detail, nearest string
		records                             int
	}{
		"another spelling":     {"", text + "\n" + `{"type":"text-delta","delta":"x"}` + "\n" + text, "400 UNKNOWN_TYPE", `line 3: there is no chunk type "text-delta"; did you mean "text_delta"?` + unread, "text_delta", 1},
		"nothing near":         {"", `{"type":"progress"}`, "400 UNKNOWN_TYPE", `line 1: there is no chunk type "progress"` + unread, "", 0},
		"of the AI SDK":        {"", `{"type":"text-start","id":"1"}`, "400 UNKNOWN_TYPE", `line 1: this is a line of aisdk: add ?dialect=aisdk` + unread, "aisdk", 0},
		"of Mastra":            {"", mastra, "400 UNKNOWN_TYPE", `line 1: this is a line of mastra: add ?dialect=mastra` + unread, "mastra", 0},
		"OpenAI as native":     {"", openai, "400 WRONG_DIALECT", "the first line looks like openai: add ?dialect=openai", "openai", 0},
		"Anthropic as native":  {"", `{"type":"message_start","message":{"content":[]}}`, "400 UNKNOWN_TYPE", `line 1: this is a line of anthropic: add ?dialect=anthropic` + unread, "anthropic", 0},
		"LangGraph as native":  {"", `{"type":"event","method":"lifecycle","params":{}}`, "400 UNKNOWN_TYPE", `line 1: this is a line of langgraph: add ?dialect=langgraph` + unread, "langgraph", 0},
		"native as OpenAI":     {"&dialect=openai", text, "400 WRONG_DIALECT", "the first line looks like native: leave out ?dialect", "native", 0},
		"native as AG-UI":      {"&dialect=agui", `{"type":"tool_end","toolCallId":"c","toolName":"f","result":1}`, "400 WRONG_DIALECT", "the first line looks like native: leave out ?dialect", "native", 0},
		"AG-UI as the AI SDK":  {"&dialect=aisdk", agui, "400 WRONG_DIALECT", "the first line looks like agui: use ?dialect=agui", "agui", 0},
		"Mastra as the AI SDK": {"&dialect=aisdk", mastra, "400 WRONG_DIALECT", "the first line looks like mastra: use ?dialect=mastra", "mastra", 0},
		"no dialect":           {"&dialect=opneai", openai, "400 VALIDATION_ERROR", `there is no dialect "opneai"; did you mean openai? want native, agui, aisdk, anthropic, kortyx, langgraph, mastra or openai`, "openai", 0},
		"no parameter":         {"&dialct=openai", openai, "400 UNKNOWN_PARAMETER", "want root, epoch, firstLine, dialect, strict", "dialect", 0},
		"no JSON":              {"", text + "{\n" + text, "400 INVALID_LINE", "chunk: want JSON, got an end in the middle" + unread, "", 1},
	} {
		a, records := send(tt.query, tt.lines)
		if a.String() != tt.code || a.text("detail") != tt.detail || a.text("nearest") != tt.nearest || records != tt.records {
			t.Errorf("%s: %s, %d records, %s\nwant %q", name, a, records, a.body, tt.detail)
		}
	}
	for name, tt := range map[string]struct {
		query, lines string
		header       []string
		records      int
	}{
		"a type of an application": {"", `{"type":"acme.progress","at":5}`, nil, 1},
		"by the header":            {"", `{"type":"text-delta","delta":"x"}` + "\n" + `{"type":"progress"}`, []string{"Tailrace-Strict", "off"}, 2},
		"by the query":             {"&strict=off", `{"type":"progress"}`, nil, 1},
		"a dialect by the query":   {"&dialect=openai&strict=off", text, nil, 4},
		"a later line":             {"&dialect=openai", openai + "\n" + text, nil, 5},
		"an error of a model":      {"&dialect=openai", `{"type":"error","error":{"message":"no","code":400}}`, nil, 3},
		"a file of the AI SDK":     {"&dialect=aisdk", `{"type":"file","url":"https://a.example/x","mediaType":"text/plain"}` + "\n" + `{"type":"finish"}`, nil, 2},
		"of Kortyx as the AI SDK":  {"&dialect=kortyx", `{"type":"text-start","id":"1"}` + "\n" + `{"type":"done"}`, nil, 1},
	} {
		if a, records := send(tt.query, tt.lines, tt.header...); a.members()["done"] != true || records != tt.records {
			t.Errorf("%s: %s, %d records, %s", name, a, records, a.body)
		}
	}
}

// A member that nothing reads is stored, and the last line of the response has a warning if it is like one that the line lacks.
func TestWarnings(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	const file = `{"type":"file","url":"https://a.example/x","mediaType":"text/plain","fileName":"x","note":1}` + "\n"
	a := w.append(chunksS1, file+`{"type":"file","url":"https://a.example/x","mediaType":"text/plain","filename":"x","fileNames":1}`+"\n"+strings.Repeat(file, 20))
	warnings, _ := a.members()["warnings"].([]any)
	if len(warnings) != 10 || fmt.Sprint(warnings[0]) != "map[line:1 member:fileName nearest:filename]" || fmt.Sprint(warnings[1]) != "map[line:3 member:fileName nearest:filename]" {
		t.Errorf("%s", a.body)
	}
	if got := w.lines(chunk.RootSession(tenant, "s1")); strings.Count(got, `"fileName":"x"`) != 21 {
		t.Error(got)
	}
}

// The end of a call that no line has begun is stored with a warning, unless earlier lines of the turn are not known to the request.
func TestWarningsAboutCalls(t *testing.T) {
	w := newEnv(t, nil)
	line := func(kind, call string) string {
		return fmt.Sprintf(`{"type":%q,"toolCallId":%q,"toolName":"f","arguments":{},"result":1}`+"\n", kind, call)
	}
	many := ""
	for n := range 1100 {
		many += line("tool_start", fmt.Sprintf("many-%d", n))
	}
	for name, tt := range map[string]struct{ mode, before, lines, want string }{
		"no call":           {"", "", line("tool_end", "c1"), "[map[line:1 member:toolCallId]]"},
		"another call":      {"", "", line("tool_start", "call_1") + line("tool_end", "call_1") + line("tool_end", "Call-2"), "[map[line:3 member:toolCallId nearest:call_1]]"},
		"an earlier line":   {"", line("tool_start", "call_1"), line("tool_end", "call_1"), "<nil>"},
		"an earlier run":    {"resume", "", line("tool_end", "call_1"), "<nil>"},
		"too long to keep":  {"", "", line("tool_start", strings.Repeat("x", 5000)) + line("tool_end", "none"), "<nil>"},
		"too many to count": {"", "", many + line("tool_end", "none"), "<nil>"},
	} {
		session := strings.ReplaceAll(name, " ", "-")
		w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", fmt.Sprintf(`{"runId":"r1","mode":%q}`, tt.mode))
		path := "/v1/sessions/" + session + "/runs/r1/chunks?epoch=1"
		if tt.before != "" {
			w.append(path, tt.before)
		}
		if a := w.append(path, tt.lines); fmt.Sprint(a.members()["warnings"]) != tt.want || a.members()["done"] != true {
			t.Errorf("%s: %.300s", name, a.body)
		}
	}
}

// The same holds for events.
func TestEventsOfUnknownTypes(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	for kind, want := range map[string]string{"text-delta": "400 UNKNOWN_TYPE", "acme.progress": "200"} {
		body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"a","type":%q,"data":{"id":"1","delta":"x"}}`, kind, kind)
		for _, query := range []string{"", "&strict=off"} {
			a, err := w.edges[0].send(t.Context(), http.MethodPost, eventsS1+query, mediaEvent, strings.NewReader(body))
			if query != "" {
				want = "200"
			}
			if err != nil || a.String() != want || want != "200" && a.text("nearest") != "text_delta" {
				t.Errorf("%s%s: %s %s %v", kind, query, a, a.body, err)
			}
		}
	}
}

// No line of a recorded or written stream looks like one of another dialect: any of them may be the first one of a response.
func TestLinesFitTheirDialect(t *testing.T) {
	rng := seedtest.Rand(t)
	streams := append(textStreams(t, rng), mastraStreams(t, rng)...)
	streams = append(streams, writtenStreams(t, rng.IntN(1e9))...)
	for _, s := range streams {
		for line := range strings.Lines(strings.Join(s.bodies, "\n")) {
			line = strings.TrimSpace(strings.TrimPrefix(line, "data: "))
			if guess, fits := dialect.Fits(s.dialect, []byte(line)); strings.HasPrefix(line, "{") && !fits {
				t.Errorf("%s: %.300s looks like %s", s.name, line, guess)
			}
		}
	}
}

// An ingest client that writes without an end reaches the limit of the session, over all its requests: the run fails with a code, and no further one begins.
func TestSessionLimit(t *testing.T) {
	const limit = 200_000
	w := newEnv(t, func(cfg *envConfig) { cfg.producer = producers.Config{MaxSessionBytes: limit, Pace: producers.Off} })
	w.open(openS1)
	line := `{"type":"text_delta","delta":"` + strings.Repeat("x", 10_000) + `"}` + "\n"
	var a answer
	for n := 0; a.status < 300; n++ {
		if a = w.append(chunksS1, strings.Repeat(line, 3)); n > 10 {
			t.Fatal("lines without an end")
		}
		if a.text("code") != "" {
			break
		}
	}
	if a.text("code") != "SESSION_LIMIT" {
		t.Fatalf("%s %.300s", a, a.body)
	}
	session := chunk.RootSession(tenant, "s1")
	snap := must(w.Reader.Snapshot(t.Context(), session))(t)
	if snap.Failure == nil || snap.Failure.Detail == nil || *snap.Failure.Detail.Code != "framework_session_limit_exceeded" || snap.SessionBytes < limit/2 || snap.SessionBytes > limit+2000 {
		t.Errorf("status %s, %+v, %d bytes", snap.Status, snap.Failure, snap.SessionBytes)
	}
	runs := 1
	for ; runs < 30; runs++ { // a short line may still fit
		a := w.ask("POST", "/v1/sessions/s1/runs", fmt.Sprintf(`{"runId":"more%d","takeOver":true}`, runs))
		if a.String() == "413 SESSION_LIMIT" {
			break
		}
		w.append(fmt.Sprintf("/v1/sessions/s1/runs/more%d/chunks?epoch=%d", runs, a.number("epoch")), strings.Repeat(`{"type":"text_delta","delta":"`+strings.Repeat("x", 100)+`"}`+"\n", 30))
	}
	snap = must(w.Reader.Snapshot(t.Context(), session))(t)
	for range 3 {
		if a := w.ask("POST", "/v1/sessions/s1/runs", `{"takeOver":true}`); a.String() != "413 SESSION_LIMIT" {
			t.Errorf("after %d runs: %s", runs, a)
		}
	}
	if after := must(w.Reader.Snapshot(t.Context(), session))(t); after.Position != snap.Position {
		t.Errorf("record %d was written after the end %d", after.Position.Ordinal, snap.Position.Ordinal)
	}
}

// Events that are sent one by one reach the limit, too: the run fails with the code, and does not stay open.
func TestSessionLimitOfEvents(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.producer = producers.Config{MaxSessionBytes: 100_000, Pace: producers.Off} })
	w.open(openS1)
	for _, media := range []string{mediaEvent, mediaBatch} {
		var a answer
		for n := 0; a.text("code") == ""; n++ {
			body := fmt.Sprintf(`{"specversion":"1.0","id":"%s-%d","source":"a","type":"text_delta","data":{"delta":%q}}`, media, n, strings.Repeat("x", 10_000))
			if media == mediaBatch {
				body = "[" + body + "]"
			}
			if a = must(w.edges[0].send(t.Context(), "POST", eventsS1, media, strings.NewReader(body)))(t); n > 20 {
				t.Fatal("events without an end")
			}
		}
		snap := must(w.Reader.Snapshot(t.Context(), chunk.RootSession(tenant, "s1")))(t)
		if media == mediaEvent && a.String() != "413 SESSION_LIMIT" || snap.Failure == nil || *snap.Failure.Detail.Code != "framework_session_limit_exceeded" {
			t.Errorf("%s: %s %.200s, status %s, %+v", media, a, a.body, snap.Status, snap.Failure)
		}
	}
}

// A member that a request does not have is refused with the nearest one, and nothing is stored: takeover would not take over.
func TestMistakenMembers(t *testing.T) {
	w := newEnv(t, nil)
	refused := func(path, body, title, near string) {
		t.Helper()
		if a := w.ask(http.MethodPost, path, body); a.String() != "400 VALIDATION_ERROR" || a.text("title") != title || a.text("nearest") != near {
			t.Errorf("%s %s: %s", path, body, a.body)
		}
	}
	refused("/v1/sessions/s1/runs", `{"runId":"r1","takeover":true}`, `there is no member "takeover"; did you mean takeOver?`, "takeOver")
	refused("/v1/sessions/s1/runs", `{"message":"hi"}`, `there is no member "message"`, "")
	w.ask(http.MethodPost, "/v1/sessions/s1/runs", openS1)
	const run = "/v1/sessions/s1/runs/r1/"
	refused(run+"end?epoch=1", `{"finalOutputs":1}`, `there is no member "finalOutputs"; did you mean finalOutput?`, "finalOutput")
	refused(run+"fail?epoch=1", `{"err":"x"}`, `there is no member "err"`, "")
	refused(run+"pause?epoch=1", `{"raeson":"x"}`, `there is no member "raeson"; did you mean reason?`, "reason")
	refused(run+"cleanup?epoch=1", `{"step":0,"aftr":"0"}`, `there is no member "aftr"; did you mean after?`, "after")
	if n := len(w.Bodies(chunk.RootSession(tenant, "s1"))); n != 1 {
		t.Errorf("%d records, want the start of the run", n)
	}
}
