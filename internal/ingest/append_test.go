package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func note(text string) string {
	return fmt.Sprintf(`{"type":"custom","eventName":"note","data":%q}`, text)
}

// A request that does not say where it begins appends, and its response has the number of its first line, with which it can be repeated.
func TestRequestsWithoutANumberAppend(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	for i, text := range []string{"one", "two", "two"} {
		a := w.append(chunksS1, note(text)+"\n")
		if first := fmt.Sprint(i + 1); a.status != http.StatusOK || a.header.Get("Tailrace-First-Line") != first || a.number("firstLine") != int64(i+1) || a.number("stored") != int64(i+1) {
			t.Errorf("%s: %s, header %q, %s", text, a, a.header.Get("Tailrace-First-Line"), a.body)
		}
	}
	if a := w.append(chunksS1, "\n"+note("three")+"\n"+note("four"), "Tailrace-First-Line", "3"); a.number("stored") != 5 || a.header.Get("Tailrace-First-Line") != "" {
		t.Errorf("with a number: %s %s", a, a.body)
	}
	if a := w.append(chunksS1, note("five")+"\n{}\n"); a.number("firstLine") != 6 || a.number("line") != 7 || a.number("stored") != 6 {
		t.Errorf("an invalid line: %s", a.body)
	}
	if got, want := strings.Join(w.notes("s1"), " "), `"one" "two" "two" "three" "four" "five"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A response in a dialect cannot be appended: its translation depends on where it begins.
func TestResponsesNeedANumber(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	const path = chunksS1 + "&dialect=openai"
	call := `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	if a := w.append(path, call); a.number("stored") != 2 {
		t.Fatalf("%s %s", a, a.body)
	}
	refused := func(path string, line int64, text string) {
		t.Helper()
		if a := w.append(path, call); a.String() != "409 WRONG_FIRST_LINE" || a.number("line") != line || a.text("detail") != text {
			t.Errorf("%s %s, want line %d and %q", a, a.body, line, text)
		}
	}
	refused(path, 3, "send Tailrace-First-Line: 3 to continue, 1 to repeat")
	if a := w.append(path, `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`, "Tailrace-First-Line", "3"); a.number("stored") != 4 {
		t.Fatalf("%s %s", a, a.body)
	}
	refused(path, 3, "send Tailrace-First-Line: 3 to repeat")
	for _, c := range w.Bodies(chunk.RootSession(tenant, "s1")) {
		if _, failed := c.(chunk.StreamFailed); failed {
			t.Errorf("%+v", c)
		}
	}
}

// Of a response that was cut, neither its rest nor other lines can be appended.
func TestACutResponseIsRepeated(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	s := w.stream(chunksS1 + "&dialect=openai")
	s.write(`{"choices":[{"index":0,"delta":{"content":"one "}}]}`)
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	s.cancel()
	natstest.Eventually(t, "the request is over", func(context.Context) error {
		if w.edges[0].server.surface.Streams.Len() > 0 {
			return errors.New("open")
		}
		return nil
	})
	for _, path := range []string{chunksS1, chunksS1 + "&dialect=openai"} {
		if a := w.append(path, note("x")); a.String() != "409 WRONG_FIRST_LINE" || a.number("line") != 1 || a.text("detail") != "send Tailrace-First-Line: 1 to repeat" {
			t.Errorf("%s: %s %s", path, a, a.body)
		}
	}
}

// Requests that append through two edges at once get numbers of their own, or a conflict: what is acknowledged is stored once, in the order of its body.
func TestAppendsThroughTwoEdges(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
	w.open(openS1)
	w.append(chunksS1, `{"type":"subagent_start","subAgentType":"sub","subSessionId":"s1-a","callId":"c"}`)
	var mu sync.Mutex
	stored := map[string]int{}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			var body strings.Builder
			for n := range 3 {
				agent := ""
				if (i+n)%2 == 0 {
					agent = `"agentId":"s1-a",`
				}
				fmt.Fprintf(&body, "{%s\"type\":\"custom\",\"eventName\":\"%d-%d\"}\n", agent, i, n)
			}
			a, err := w.edges[i%2].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", strings.NewReader(body.String()))
			first := a.number("firstLine")
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusOK && a.members()["done"] == true && a.number("stored") == first+2:
				first = 3
			case a.text("code") == codeSuperseded && first == 0:
			case a.text("code") == codeSuperseded:
				first = max(0, min(3, a.number("stored")-first+1))
			default:
				t.Errorf("%s %s", a, a.body)
			}
			mu.Lock()
			defer mu.Unlock()
			stored[fmt.Sprint(i)] = int(first)
		})
	}
	all.Wait()
	got := map[string]int{}
	for _, session := range []string{"s1", "s1-a"} {
		for _, b := range w.Bodies(chunk.RootSession(tenant, "s1").Child(session)) {
			if b, ok := b.(chunk.Custom); ok {
				if got[b.EventName]++; got[b.EventName] > 1 {
					t.Errorf("%s is stored %d times", b.EventName, got[b.EventName])
				}
			}
		}
	}
	for i, n := range stored {
		for line := range n {
			if got[fmt.Sprintf("%s-%d", i, line)] != 1 {
				t.Errorf("line %d of request %s is acknowledged and not stored", line+1, i)
			}
		}
	}
}

// A request that stalls between two lines ends with a conflict when another one has appended meanwhile through another edge, and its response says what is stored.
func TestAStalledAppend(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges, cfg.edge.Heartbeat = 2, 20*time.Millisecond })
	w.open(openS1)
	silent := w.stream(chunksS1)
	silent.await("a heartbeat", func(m map[string]any) bool { return len(m) == 0 })
	other := func(text string, first int64) {
		t.Helper()
		a, err := w.edges[1].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", strings.NewReader(note(text)))
		if err != nil || a.number("firstLine") != first {
			t.Errorf("%s %s %v", a, a.body, err)
		}
	}
	other("a", 1)
	silent.write(note("b")) // its number is not used yet
	silent.await("stored 2", func(m map[string]any) bool { return m["stored"] == 2.0 })
	other("c", 3)
	silent.write(note("d"))
	if m := silent.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != codeSuperseded || m["stored"] != 2.0 || m["firstLine"] != 2.0 {
		t.Errorf("%v", m)
	}
	if got, want := strings.Join(w.notes("s1"), " "), `"a" "b" "c"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An edge that stores lines and disappears before it answers has not sent their number: a request that has one is repeated without a duplicate.
func TestALostAnswer(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
	w.open(openS1)
	s := w.stream(chunksS1, "Tailrace-First-Line", "1")
	s.write(note("one"))
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	w.edges[0].site.CloseClientConnections()
	_ = s.body.CloseWithError(io.ErrUnexpectedEOF)
	a, err := w.edges[1].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", strings.NewReader(note("one")+"\n"+note("two")), "Tailrace-First-Line", "1")
	if err != nil || a.number("stored") != 2 {
		t.Errorf("%s %s %v", a, a.body, err)
	}
	if got, want := strings.Join(w.notes("s1"), " "), `"one" "two"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Events for a sub-agent, and for the run, that arrive through two edges at once are stored, each once, also when each is sent twice at once.
func TestEventsOfASubAgentThroughTwoEdges(t *testing.T) {
	for name, times := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
			w.open(openS1)
			w.append(chunksS1, `{"type":"subagent_start","subAgentType":"sub","subSessionId":"s1-a","callId":"c"}`)
			var all sync.WaitGroup
			for i := range 60 {
				agent := ""
				if i%3 > 0 {
					agent = `"agentId":"s1-a",`
				}
				body := fmt.Sprintf(`{"specversion":"1.0","id":"e%d","source":"a","type":"custom","data":{%s"eventName":"e%d"}}`, i, agent, i)
				all.Go(func() {
					var sent sync.WaitGroup
					for n := range times {
						sent.Go(func() {
							a, err := w.edges[(i+n)%2].send(t.Context(), http.MethodPost, eventsS1, mediaEvent, strings.NewReader(body))
							if err != nil || a.status != http.StatusOK {
								t.Errorf("%s %s %v", a, a.body, err)
							}
						})
					}
					sent.Wait()
				})
			}
			all.Wait()
			got := map[string]int{}
			for _, session := range []string{"s1", "s1-a"} {
				for _, b := range w.Bodies(chunk.RootSession(tenant, "s1").Child(session)) {
					if b, ok := b.(chunk.Custom); ok {
						got[b.EventName]++
					}
				}
			}
			for i := range 60 {
				if n := got[fmt.Sprintf("e%d", i)]; n < 1 || n > times {
					t.Errorf("e%d is stored %d times", i, n)
				}
			}
		})
	}
}

// On three servers, whose replicas lag behind the leader, requests one after another get the numbers that follow, and an event that is sent again is found.
func TestAppendsOnACluster(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges, cfg.on, cfg.replicas = 2, natstest.StartCluster(t, 3), 3 })
	w.open(openS1)
	w.append(chunksS1, `{"type":"subagent_start","subAgentType":"sub","subSessionId":"s1-a","callId":"c"}`)
	agentOf := func(i int) string { return []string{"s1", "s1-a", "s1-a"}[i%3] }
	send := func(i int, path, media, body string) answer {
		t.Helper()
		a, err := w.edges[i%2].send(t.Context(), http.MethodPost, path, media, strings.NewReader(body))
		if err != nil || a.status != http.StatusOK {
			t.Errorf("%d: %s %s %v", i, a, a.body, err)
		}
		return a
	}
	want := map[string]string{}
	for i := range 60 {
		want[agentOf(i)] += fmt.Sprintf("l%d ", i)
		send(i, chunksS1, "application/x-ndjson", fmt.Sprintf(`{"type":"custom","eventName":"l%d","agentId":%q}`, i, agentOf(i)))
	}
	for i := range 60 {
		want[agentOf(i)] += fmt.Sprintf("e%d ", i)
		for n := range 2 { // a lost response
			send(i+n, eventsS1, mediaEvent, fmt.Sprintf(`{"specversion":"1.0","id":"e%d","source":"a","type":"custom","data":{"eventName":"e%d","agentId":%q}}`, i, i, agentOf(i)))
		}
	}
	for session, names := range want {
		got := ""
		for _, b := range w.Bodies(chunk.RootSession(tenant, "s1").Child(session)) {
			if b, ok := b.(chunk.Custom); ok {
				got += b.EventName + " "
			}
		}
		if got != names {
			t.Errorf("%s has %s, want %s", session, got, names)
		}
	}
}

// Equal lines that are appended at once are different lines: each one that is acknowledged is stored.
func TestEqualLinesAreAppended(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
	w.open(openS1)
	var stored atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			a, err := w.edges[i%2].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", strings.NewReader(note("x")))
			switch {
			case err == nil && a.status == http.StatusOK && a.members()["done"] == true:
				stored.Add(1)
			case err != nil || a.text("code") != codeSuperseded:
				t.Errorf("%s %s %v", a, a.body, err)
			}
		})
	}
	all.Wait()
	if n := int64(len(w.notes("s1"))); n < stored.Load() {
		t.Errorf("%d lines are acknowledged, and %d stored", stored.Load(), n)
	}
}
