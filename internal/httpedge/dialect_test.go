package httpedge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// dialectEvent is a server-sent event. A frame with only an id has no data.
type dialectEvent struct{ id, data string }

func eventsOf(tb rapid.TB, body string) (events []dialectEvent) {
	tb.Helper()
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e dialectEvent
		for line := range strings.SplitSeq(frame, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "", "retry", "event":
			default:
				tb.Fatalf("line %q", line)
			}
		}
		if e != (dialectEvent{}) {
			events = append(events, e)
		}
	}
	return events
}

// sessionWriter writes random sessions as workers do.
type sessionWriter struct {
	t     *rapid.T
	log   *memlog.Log
	runs  int
	calls int
}

func (s *sessionWriter) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(s.t, what) }

func (s *sessionWriter) turn() {
	s.runs++
	s.log.Append(s1, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[{"content":"hello"}]`, s.runs))
	for range 1 + s.pick("steps", 3) {
		s.step()
		if s.pick("pause", 5) == 0 {
			s.log.Append(s1, chunk.TypeStreamPaused, "")
			s.log.Append(s1, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"resume","input":[]`, s.runs))
		}
	}
	if s.pick("failed", 6) == 0 {
		s.log.Append(s1, chunk.TypeStreamFailed, `"error":"dead"`)
	} else {
		s.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
	}
}

func (s *sessionWriter) step() {
	add := func(typ chunk.Type, members string) { s.log.Append(s1, typ, members) }
	add(chunk.TypeStepStart, "")
	for range s.pick("parts", 4) {
		switch s.pick("part", 8) {
		case 0, 1:
			for range 1 + s.pick("deltas", 3) {
				add(chunk.TypeTextDelta, `"delta":"a piece "`)
			}
		case 2:
			add(chunk.TypeThinking, `"content":"hm","isComplete":false`)
			add(chunk.TypeThinking, `"content":"","isComplete":true`)
		case 3, 4:
			s.calls++
			add(chunk.TypeToolStart, fmt.Sprintf(`"toolCallId":"c%d","toolName":"look","arguments":{"q":1}`, s.calls))
			add(chunk.TypeToolEnd, fmt.Sprintf(`"toolCallId":"c%d","toolName":"look","result":{"found":true}`, s.calls))
		case 5:
			add(chunk.TypeCustom, `"eventName":"progress","data":{"done":3}`)
		case 6:
			add(chunk.TypeStatePatch, fmt.Sprintf(`"patches":[{"op":"add","path":"/n%d","value":{"at":%d}}]`, s.pick("state", 3), s.log.End()))
		case 7:
			s.calls++
			child := s1.Child(fmt.Sprintf("child-%d", s.calls))
			add(chunk.TypeSubagentStart, fmt.Sprintf(`"subAgentType":"helper","subSessionId":%q,"callId":"c%d"`, child.ID, s.calls))
			s.log.Append(child, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"%s-r","epoch":1,"mode":"execute","input":[]`, child.ID))
			s.log.Append(child, chunk.TypeTextDelta, `"delta":"of a sub-agent"`)
			s.log.Append(child, chunk.TypeStreamEnd, `"streamId":"x"`)
			add(chunk.TypeSubagentEnd, fmt.Sprintf(`"subAgentType":"helper","subSessionId":%q,"callId":"c%d","result":"ok"`, child.ID, s.calls))
		}
	}
	add(chunk.TypeStepEnd, `"finishReason":"stop"`)
}

// readDialect returns the events of one response after a cursor, and whether there is another response.
func readDialect(t rapid.TB, w *env, dialect, cursor, more string) (events []dialectEvent, ok bool) {
	t.Helper()
	resp := w.get(context.Background(), "/v1/sessions/s1/events?dialect="+dialect+more, http.Header{"Last-Event-Id": {cursor}})
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil, resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent:
		t.Fatalf("%s after %q: %d %v %s", dialect, cursor, resp.StatusCode, err, body)
	case resp.StatusCode == http.StatusNoContent:
		return nil, false
	}
	return eventsOf(t, string(body)), true
}

// wholeDialect returns the events of all responses in a dialect.
func wholeDialect(t rapid.TB, w *env, dialect, more string) (all []dialectEvent) {
	t.Helper()
	cursor := "0"
	for {
		events, ok := readDialect(t, w, dialect, cursor, more)
		if !ok {
			return all
		}
		last := lastID(events)
		if last == "" || last == cursor {
			t.Fatalf("%s after %q: no progress in %q", dialect, cursor, events)
		}
		cursor, all = last, append(all, events...)
	}
}

func lastID(events []dialectEvent) string {
	for _, e := range slices.Backward(events) {
		if e.id != "" {
			return e.id
		}
	}
	return ""
}

// after returns the events after those of a cursor.
func after(events []dialectEvent, cursor string) []dialectEvent {
	at, _ := chunk.ParseCursor(cursor)
	n := 0
	for i, e := range events {
		if id, ok := chunk.ParseCursor(e.id); ok && id.Seq <= at.Seq {
			n = i + 1
		}
	}
	return events[n:]
}

// openings are the events with which every response begins. The client gets one of its own for each response.
var openings = map[string]string{
	"aisdk": `{"type":"start",`, "kortyx": `{"type":"session",`, "mastra": `{"type":"start",`, "agui": `{"type":"RUN_STARTED",`,
}

// endMarker ends every response in the dialects that have it.
const endMarker = "[DONE]"

// withoutBounds returns the events without those that each response has of its own, and without positions of records that have no event: whether a client gets
// those depends on how many records were read at once.
func withoutBounds(dialect string, events []dialectEvent) []dialectEvent {
	return slices.DeleteFunc(slices.Clone(events), func(e dialectEvent) bool {
		opens := dialect != "native" && e.id == "" && strings.HasPrefix(e.data, openings[dialect])
		return opens || e.data == endMarker || e.data == ""
	})
}

// continues reports whether got is the beginning of want, after events without an id that open again what is open at the cursor.
func continues(got, want []dialectEvent) bool {
	for n := 0; ; n++ {
		if rest := got[n:]; len(rest) <= len(want) && slices.Equal(rest, want[:len(rest)]) {
			return true
		}
		if n == len(got) || got[n].id != "" {
			return false
		}
	}
}

// A client may change the dialect at any cursor. What it gets then is what another client got after the same record, in whatever dialects and with whatever
// interruptions the two read before.
func TestResumeInAnotherDialect(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pages := hub.Config{PageBytes: rapid.SampledFrom([]int{0, 400}).Draw(rt, "pages")} // of earlier records, too
		w := newEnv(t, envConfig{tcp: true, hub: pages, edge: httpedge.Config{Views: audiences}})
		defer w.close()
		more := rapid.SampledFrom([]string{"", "&view=public", "&view=words", "&scope=session"}).Draw(rt, "view")
		s := sessionWriter{t: rt, log: w.log}
		for range 1 + s.pick("turns", 3) {
			w.log.Append(chunk.RootSession("default", "other"), chunk.TypeTextDelta, `"delta":"x"`)
			s.turn()
		}
		whole := map[string][]dialectEvent{}
		for _, name := range dialects.Written() {
			whole[name] = wholeDialect(rt, w, name, more)
		}
		if more == "" {
			checkMessageIDs(rt, w, whole["aisdk"])
		}
		cursor := "0"
		for range 100 {
			name := rapid.SampledFrom(dialects.Written()).Draw(rt, "dialect")
			events, ok := readDialect(rt, w, name, cursor, more)
			if !ok {
				break
			}
			if opening := openings[name]; name != "native" && !strings.HasPrefix(events[0].data, opening) {
				rt.Fatalf("%s after %s begins with %q", name, cursor, events[0])
			}
			want := withoutBounds(name, after(whole[name], cursor))
			events = withoutBounds(name, events)
			if !continues(events, want) {
				rt.Fatalf("%s after %s:\ngot  %q\nwant %q", name, cursor, events, want)
			}
			if id := lastID(events[:s.pick("cut", len(events)+1)]); id != "" {
				cursor = id
			}
		}
	})
}

// checkMessageIDs checks that all answers of the snapshot are in the stream under their ids.
func checkMessageIDs(t rapid.TB, w *env, events []dialectEvent) {
	t.Helper()
	ids := map[string]bool{}
	for _, e := range events {
		if id, ok := strings.CutPrefix(e.data, openings["aisdk"]+`"messageId":"`); ok {
			ids[strings.TrimSuffix(id, `"}`)] = true
		}
	}
	rec := w.record(http.MethodGet, "/v1/sessions/s1/snapshot", nil)
	var page struct {
		Messages []struct {
			ID   string `json:"id"`
			Role string `json:"role"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || len(page.Messages) == 0 {
		t.Fatalf("%v in %s", err, rec.Body)
	}
	for _, m := range page.Messages {
		if m.Role == "assistant" && !ids[m.ID] {
			t.Fatalf("%s of the snapshot is not among %v", m.ID, ids)
		}
	}
}

func getBody(tb testing.TB, w *env, path string, header http.Header) (status int, h http.Header, body string) {
	tb.Helper()
	resp := w.get(tb.Context(), path, header)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header, readAll(tb, resp.Body)
}

func TestDialectRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: audiences}})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"s3cret"`)
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		w.log.Append(chunk.RootSession("default", "other"), chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[]`)
		w.log.Append(chunk.RootSession("default", "other"), chunk.TypeStreamEnd, `"streamId":"x"`)
		const (
			one  = "/v1/sessions/s1/events"
			many = "/v1/events?session=s1&session=other"
		)
		profile := http.Header{"Accept": {`application/json, text/event-stream;profile="aisdk"`}}
		for _, tt := range []struct {
			path   string
			header http.Header
			status int
			want   string
		}{
			{one + "?dialect=aisdk", nil, 200, `{"type":"start","messageId":"msg-1"}`},
			{one, profile, 200, `{"type":"start","messageId":"msg-1"}`},
			{one + "?dialect=native", profile, 200, `{"type":"chunk"`},
			{one + "?dialect=", nil, 200, `{"type":"chunk"`},
			{one + "?dialect=latin", nil, 400, codeBadParameter},
			{one + "?dialect=aisdk&dialect=native", nil, 400, codeBadParameter},
			{one + "?dialect=aisdk&types=text_delta", nil, 400, codeBadParameter},
			{one + "?dialect=aisdk&exclude=text_delta", nil, 400, codeBadParameter},
			{one + "?dialect=aisdk&agent=s1", nil, 400, codeBadParameter},
			{one + "?dialect=aisdk&view=none", nil, 400, codeBadParameter},
			{"/v1/sessions/s2/events?dialect=aisdk", nil, 404, "STREAM_NOT_FOUND"},
			{one + "?dialect=aisdk&after=3", nil, 204, ""},
			{one + "?dialect=aisdk&after=4", nil, 410, "HISTORY_EXPIRED"},
			{one + "?dialect=aisdk&after=99", nil, 410, "HISTORY_EXPIRED"},
			{many + "&dialect=aisdk", nil, 200, "event: session:s1\ndata: {\"type\":\"start\",\"messageId\":\"msg-1\"}\n\n"},
			{many + "&dialect=aisdk", nil, 200, "event: session:other\nid: 3-"},
			{many + "&dialect=aisdk&types=text_delta", nil, 400, codeBadParameter},
		} {
			status, header, body := getBody(t, w, tt.path, tt.header)
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%s %v: %d %s", tt.path, tt.header, status, body)
			}
			if isAISDK := status == 200 && !strings.Contains(body, `"chunk"`); isAISDK != (header.Get("X-Vercel-Ai-Ui-Message-Stream") == "v1") {
				t.Errorf("%s: headers %v", tt.path, header)
			}
		}
		if _, _, body := getBody(t, w, one+"?dialect=aisdk&view=public", nil); !strings.Contains(body, "s3cret") {
			t.Errorf("the public view has texts: %s", body)
		}
		w.log.Expire(1)
		if status, _, body := getBody(t, w, one+"?dialect=aisdk&after=2", nil); status != http.StatusGone {
			t.Errorf("within a turn whose beginning has expired: %d %s", status, body)
		}
	})
}

func TestDialectSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: audiences}})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		w.log.Append(s1, chunk.TypeThinking, `"content":"s3cret","isComplete":true`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"an answer"`)
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		const path = "/v1/sessions/s1/snapshot"
		for query, want := range map[string]string{
			"?dialect=native":                `"streamSequence":4`,
			"?dialect=aisdk":                 `{"type":"text","text":"an answer","state":"done"}]`,
			"?dialect=kortyx":                `"sessionId":"s1"`,
			"?dialect=kortyx&messages=1":     `"before":"msg-1"`,
			"?dialect=mastra":                `{"type":"text","text":"an answer"}],"content":"an answer"}`,
			"?dialect=mastra&messages=1":     `"before":"msg-1"`,
			"?dialect=latin":                 codeBadParameter,
			"?dialect=kortyx&at=2":           codeBadParameter,
			"?dialect=kortyx&checkpoint=x":   codeBadParameter,
			"?dialect=kortyx&view=public":    `"content":"an answer"`,
			"?dialect=mastra&view=public":    `"content":"an answer"`,
			"?dialect=agui&view=public":      `"content":"an answer"`,
			"?dialect=kortyx&view=none":      codeBadParameter,
			"?dialect=kortyx&dialect=native": codeBadParameter,
		} {
			if _, _, body := getBody(t, w, path+query, nil); !strings.Contains(body, want) {
				t.Errorf("%s: %s", query, body)
			}
		}
		for _, name := range []string{"agui", "kortyx", "mastra"} {
			if _, _, body := getBody(t, w, path+"?view=public&messages=2&dialect="+name, nil); !strings.Contains(body, "an answer") || strings.Contains(body, "s3cret") {
				t.Errorf("%s under a view: %s", name, body)
			}
		}
		if status, _, body := getBody(t, w, "/v1/sessions/s2/snapshot?dialect=kortyx", nil); status != http.StatusNotFound {
			t.Errorf("an unknown session: %d %s", status, body)
		}
	})
}

// A turn whose run has neither ended nor paused ends where the next turn begins.
func TestDialectTurnWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for _, run := range []string{"r1", "r2"} {
			w.log.Append(s1, chunk.TypeRunStarted, `"runId":"`+run+`","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"of `+run+`"`)
		}
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		first, _ := readDialect(t, w, "aisdk", "0", "")
		second, _ := readDialect(t, w, "aisdk", lastID(first), "")
		for i, events := range [][]dialectEvent{first, second} {
			n := len(events)
			if want := fmt.Sprintf(`{"type":"start","messageId":"msg-%d"}`, 2*i+1); events[0].data != want || events[n-1].data != endMarker || !strings.HasPrefix(events[n-2].data, `{"type":"finish"`) {
				t.Errorf("response %d: %q", i, events)
			}
		}
	})
}

// A client that waits gets the records of the next turn as they are written, and heartbeats store the position of records without events.
func TestDialectLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"an answer"`)
		w.log.Append(s1, chunk.TypeStreamPaused, "")
		resp := w.get(t.Context(), "/v1/sessions/s1/events?dialect=aisdk&after=3", nil)
		defer resp.Body.Close()
		events := bufio.NewReader(resp.Body)
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r2","epoch":1,"mode":"execute","input":[{"content":"more"},{"content":"and more"}]`)
		readUntil(t, events, `{"type":"start","messageId":"msg-4"}`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"another"`)
		readUntil(t, events, `"another"`)
		w.log.Append(s1, chunk.TypeStepStart, "")
		readUntil(t, events, "id: 6-")
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		if rest := readAll(t, events); !strings.HasSuffix(rest, "data: [DONE]\n\n") {
			t.Errorf("the end is %q", rest)
		}
	})
}
