package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/workers"
)

// says returns an agent that writes its pieces in one step.
func says(pieces ...string) workers.AgentFunc {
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			for _, piece := range pieces {
				if err := s.Text(ctx, piece); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// echo returns its input.
func echo(ctx context.Context, t *workers.Turn) error {
	return says(t.Input()[0].Content, " ", t.Params().String())(ctx, t)
}

// holding writes a text and waits until held is closed, or the run is stopped.
func holding(begun chan<- string, held <-chan struct{}) workers.AgentFunc {
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if err := s.Text(ctx, "I am at it"); err != nil {
				return err
			}
			begun <- t.RunID()
			select {
			case <-held:
				s.MarkFinal()
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
}

// asking calls a browser tool and requests an approval, then reports the answers.
func asking(deadline time.Duration) workers.AgentFunc {
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if t.Steps() == 0 {
				until := time.Time{}
				if deadline > 0 {
					until = time.Now().Add(deadline)
				}
				return errors.Join(
					s.Tool("where", "location").AskClient(ctx, map[string]any{}, until),
					s.Tool("pay", "payment").AskApproval(ctx, map[string]any{"euro": 5}, until),
				)
			}
			s.MarkFinal()
			var outcomes []string
			for _, m := range t.Messages() {
				for _, c := range m.Calls() {
					outcomes = append(outcomes, fmt.Sprintf("%s %s%s", c.Name, []byte(c.Output), c.Error))
				}
			}
			for _, call := range s.ApprovedCalls() {
				outcomes = append(outcomes, "allowed")
				if err := call.End(ctx, "paid"); err != nil {
					return err
				}
			}
			return s.Text(ctx, strings.Join(outcomes, ", "))
		})
	}
}

// event has the members of an event that a parent uses.
type event struct {
	Type  string `json:"type"`
	Chunk struct {
		Type  string `json:"type"`
		Delta string `json:"delta"`
	} `json:"chunk"`
}

// delegate is a remote parent: it starts a run, follows the events from its cursor across broken connections, and requests the status. The result is the text
// of the events, and the output.
func (w *env) delegate(session, message string, cut func(events int) bool) (text, output string, err error) {
	body := fmt.Sprintf(`{"sessionId":%q,"agentType":"helper","message":%q,"state":{"tone":"kind"}}`, session, message)
	if got := w.post("/start", body); got.status != http.StatusOK || got.member("streamId") != session || got.member("runId") == "" {
		return "", "", fmt.Errorf("start: %s %s", got, got.body)
	}
	cursor, over := "", false
	for events := 0; !over; {
		err := w.listen(w.t.Context(), "/agents/sse?sessionId="+session, cursor, func(h sseEvent) bool {
			events++
			var e event
			if err = json.Unmarshal([]byte(h.data), &e); err != nil {
				return true
			}
			if e.Chunk.Type == "text_delta" {
				text += e.Chunk.Delta
			}
			cursor, over = h.id, e.Type == "end" || e.Type == "fail"
			return over || cut(events)
		})
		if err != nil {
			return text, "", err
		}
	}
	got := w.awaitStatus(session, "completed")
	return text, got.member("output"), nil
}

func never(int) bool { return false }

// A parent outside of Tailrace delegates a run over HTTP.
func TestDelegationOverHTTP(t *testing.T) {
	w := newEnv(t, nil)
	w.work(echo)
	const want = `a parcel to Oslo {"tone":"kind"}`
	text, output, err := w.delegate("s1", "a parcel to Oslo", never)
	if err != nil || text != want || output != want {
		t.Errorf("text %q, output %q, error %v, want %q twice", text, output, err, want)
	}
	if got := w.status("s1"); got.member("streamStatus") != "ended" || got.member("latestSequence") == "0" {
		t.Errorf("status %s", got.body)
	}
}

// The connection of the parent breaks after each event.
func TestDelegationOverBreakingConnections(t *testing.T) {
	w := newEnv(t, nil)
	w.work(echo)
	const want = `again {"tone":"kind"}`
	text, output, err := w.delegate("s1", "again", func(int) bool { return true })
	if err != nil || text != want || output != want {
		t.Errorf("text %q, output %q, error %v, want %q twice", text, output, err, want)
	}
}

// The parent requests the events before there is a worker.
func TestEventsOfARunThatIsYetToBegin(t *testing.T) {
	w := newEnv(t, nil)
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, _, err := w.delegate("s1", "wait", never)
		done <- result{text, err}
	}()
	natstest.Eventually(t, "the session is asked for", func(context.Context) error {
		if got := w.status("s1"); got.status != http.StatusOK || got.member("status") != "running" || got.member("latestSequence") != "0" {
			return errors.New(got.body)
		}
		return nil
	})
	w.work(echo)
	if got := <-done; got.err != nil || got.text != `wait {"tone":"kind"}` {
		t.Errorf("text %q, error %v", got.text, got.err)
	}
}

// No worker starts the run: the parent gets a retryable status.
func TestRunNeverStarts(t *testing.T) {
	w := newEnv(t, func(c *edgeConfig) { c.logic.RequestTimeout = 300 * time.Millisecond })
	w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"hi"}`)
	got := w.ask(http.MethodGet, "/agents/sse?sessionId=s1", "")
	if got.String() != "503 UNAVAILABLE" || got.header.Get("Retry-After") == "" {
		t.Errorf("%s, Retry-After %q", got, got.header.Get("Retry-After"))
	}
}

// /sse sends the same bytes as the events of the edge, and accepts its cursors.
func TestEventsEqualEdgeEvents(t *testing.T) {
	w := newEnv(t, nil)
	w.work(echo)
	if _, _, err := w.delegate("s1", "the same", never); err != nil {
		t.Fatal(err)
	}
	read := func(path, cursor string) (all []sseEvent) {
		err := w.listen(t.Context(), path, cursor, func(h sseEvent) bool {
			all = append(all, h)
			return strings.HasPrefix(h.data, `{"type":"end"`)
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, query := range []string{"", "&types=text_delta,stream_end", "&scope=session"} {
		agentEvents, edgeEvents := read("/agents/sse?sessionId=s1"+query, ""), read("/v1/sessions/s1/events?x=1"+query, "")
		if !slices.Equal(agentEvents, edgeEvents) || len(agentEvents) < 2 {
			t.Errorf("%s: ours\n%v\ntheirs\n%v", query, agentEvents, edgeEvents)
		}
		tail := read("/agents/sse?sessionId=s1"+query, agentEvents[0].id)
		if !slices.Equal(tail, agentEvents[1:]) {
			t.Errorf("%s: behind the first event\n%v\nwant\n%v", query, tail, agentEvents[1:])
		}
	}
	// The memory of a token is released while its stream is open, see httpkit.DropCredential: net/http keeps this request, and not the one that the edge gets.
	kept := make(chan string, 8)
	w.url = w.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer token")
		defer func() { kept <- r.Header.Get("Authorization") }() // also of a stream that is aborted
		w.edge.ServeHTTP(rw, r)
	}), func(context.Context) error { return nil }).URL
	if read("/agents/sse?sessionId=s1", ""); <-kept != "" {
		t.Error("the request has its credential while the stream is open")
	}
	if got := w.ask(http.MethodGet, "/agents/sse?sessionId=unknown", ""); got.String() != "404 NOT_FOUND" {
		t.Errorf("unknown session: %s", got)
	}
	if got := w.ask(http.MethodGet, "/agents/sse?sessionId=s1&after=undefined", ""); got.String() != "400 BAD_CURSOR" || got.member("error") == "" {
		t.Errorf("malformed cursor: %s", got)
	}
	if got := w.ask(http.MethodGet, "/agents/sse?sessionId=s1&scope=world", ""); got.String() != "400 BAD_PARAMETER" || got.member("error") == "" {
		t.Errorf("unknown scope: %s", got)
	}
}

// Twenty clients start the same session concurrently: all get the same run, and it runs once.
func TestStartedByManyAtOnce(t *testing.T) {
	w := newEnv(t, nil)
	var ran atomic.Int64
	w.work(func(ctx context.Context, t *workers.Turn) error {
		ran.Add(1)
		return echo(ctx, t)
	})
	runs := make([]string, 20)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			got := w.post("/start", fmt.Sprintf(`{"sessionId":"s1","agentType":"helper","message":"from %d"}`, i))
			switch {
			case got.status == http.StatusOK:
				runs[i] = got.member("runId")
			case got.String() != "409 ALREADY_COMPLETED":
				t.Errorf("start: %s %s", got, got.body)
			}
		})
	}
	all.Wait()
	w.awaitStatus("s1", "completed")
	ids := slices.Compact(slices.DeleteFunc(slices.Sorted(slices.Values(runs)), func(id string) bool { return id == "" }))
	if len(ids) != 1 || ran.Load() != 1 {
		t.Errorf("runs %q, and the agent ran %d times", ids, ran.Load())
	}
}

// A running session is returned unchanged; a completed one is refused.
func TestStartIsForOneDelegation(t *testing.T) {
	w := newEnv(t, nil)
	begun, held := make(chan string, 1), make(chan struct{})
	w.work(holding(begun, held))
	const body = `{"sessionId":"s1","agentType":"helper","message":"hi"}`
	first := w.post("/start", body)
	if again := w.post("/start", body); first.status != http.StatusOK || again.body != first.body {
		t.Errorf("waiting: %s %s, want %s", again, again.body, first.body)
	}
	if run := <-begun; run != first.member("runId") {
		t.Errorf("run %q, want %q", first.member("runId"), run)
	}
	if again := w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"something else"}`); again.body != first.body {
		t.Errorf("running: %s %s, want %s", again, again.body, first.body)
	}
	if other := w.post("/start", `{"sessionId":"s1","agentType":"other","message":"hi"}`); other.String() != "400 VALIDATION_ERROR" {
		t.Errorf("another agent: %s", other)
	}
	if again := w.post("/resume", `{"sessionId":"s1"}`); again.body != first.body {
		t.Errorf("resume: %s %s, want %s", again, again.body, first.body)
	}
	if again := w.post("/resume", `{"sessionId":"s1","message":"more"}`); again.String() != "409 EXECUTION_ERROR" {
		t.Errorf("resume with a message: %s", again)
	}
	close(held)
	w.awaitStatus("s1", "completed")
	for _, path := range []string{"/start", "/resume", "/interrupt", "/abort"} {
		if got := w.post(path, body); got.String() != "409 ALREADY_COMPLETED" {
			t.Errorf("%s of what is over: %s", path, got)
		}
	}
}

// A user's metadata and files reach the agent; metadata over the budget is dropped.
func TestMessagesOfAParent(t *testing.T) {
	w := newEnv(t, nil)
	got := make(chan string, 1)
	w.work(func(ctx context.Context, t *workers.Turn) error {
		text, err := json.Marshal(t.Input())
		if err != nil {
			return err
		}
		got <- string(text)
		return says("ok")(ctx, t)
	})
	large := strings.Repeat("x", maxMetadata)
	body := `{"sessionId":"s1","agentType":"helper","metadata":{"user":"u1"},"message":[
		{"content":"one","metadata":{"own": true},"clientMessageId":"m1"},
		{"content":"two","files":[{"url":"https://a.example/b.png","mediaType":"image/png","filename":"b.png"}]},
		{"content":"three","metadata":{"large":"` + large + `"}}]}`
	if a := w.post("/start", body); a.status != http.StatusOK {
		t.Fatal(a, a.body)
	}
	const want = `[{"content":"one","files":null,"data":null,"metadata":{"own":true},"clientMessageId":"m1"},` +
		`{"content":"two","files":[{"url":"https://a.example/b.png","mediaType":"image/png","filename":"b.png"}],"data":null,"metadata":{"user":"u1"},"clientMessageId":null},` +
		`{"content":"three","files":null,"data":null,"metadata":null,"clientMessageId":null}]`
	if in := <-got; in != want {
		t.Errorf("the agent got\n%s\nwant\n%s", in, want)
	}
}

// The agent gets a file of a parent that is larger than a command.
func TestLargeFileOfAParent(t *testing.T) {
	w := newEnv(t, nil)
	got := make(chan string, 1)
	w.work(func(ctx context.Context, t *workers.Turn) error {
		got <- t.Input()[0].Files[0].URL
		return says("ok")(ctx, t)
	})
	picture := values.MakeDataURL("image/png", []byte(strings.Repeat("pixel", 120<<10)))
	if a := w.post("/start", `{"sessionId":"s1","agentType":"helper","message":[{"content":"one","files":[{"url":"`+picture+`","mediaType":"image/png"}]}]}`); a.status != http.StatusOK {
		t.Fatal(a, a.body)
	}
	if url := <-got; url != picture {
		t.Errorf("the agent got %.100s, want the file", url)
	}
}

// A run that fails reports its error and its code.
func TestAFailure(t *testing.T) {
	w := newEnv(t, nil)
	w.work(func(context.Context, *workers.Turn) error {
		return &workers.Error{Message: "the provider is down", Code: "provider_unavailable"}
	})
	w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"hi"}`)
	got := w.awaitStatus("s1", "failed")
	if want := `{"message":"the provider is down","code":"provider_unavailable"}`; got.member("error") != want {
		t.Errorf("error %s, want %s", got.member("error"), want)
	}
	if again := w.post("/start", `{"sessionId":"s1","agentType":"helper","message":"hi"}`); again.String() != "409 ALREADY_COMPLETED" {
		t.Errorf("start of what has failed: %s", again)
	}
}
