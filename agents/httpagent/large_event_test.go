package httpagent

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
)

// The result of a tool of more than 1 MiB is stored by reference in each dialect that has results. One over the limit fails its call, and the run continues.
func TestLargeResults(t *testing.T) {
	for name, tt := range map[string]struct {
		dialect, line string // the line has a %s for a JSON string
		bytes         int
		want          fold.CallState
	}{
		"aisdk":         {AISDK, `{"type":"tool-output-available","toolCallId":"c","output":%s}`, 5 << 18, fold.CallDone},
		"aisdk, 33 MiB": {AISDK, `{"type":"tool-output-available","toolCallId":"c","output":%s}`, 33 << 20, fold.CallFailed},
		"native":        {Native, `{"type":"tool_end","toolCallId":"c","toolName":"rows","result":%s}`, 5 << 18, fold.CallDone},
		"agui":          {AGUI, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":%s}`, 5 << 18, fold.CallDone},
		"mastra":        {Mastra, `{"type":"tool-result","payload":{"toolCallId":"c","toolName":"rows","result":%s}}`, 5 << 18, fold.CallDone},
	} {
		t.Run(name, func(t *testing.T) {
			result := strings.Repeat("row ", tt.bytes/4)
			around := map[string][2][]string{
				AISDK:  {{`{"type":"start-step"}`, `{"type":"tool-input-available","toolCallId":"c","toolName":"rows","input":{}}`}, {`{"type":"finish-step"}`, `{"type":"finish"}`, `[DONE]`}},
				Native: {{`{"type":"step_start","stepNumber":1}`, `{"type":"tool_start","toolCallId":"c","toolName":"rows","arguments":{}}`}, {`{"type":"step_end","stepNumber":1}`, `{"type":"stream_end"}`}},
				AGUI: {
					{`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"rows"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`},
					{`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`},
				},
				Mastra: {
					{`{"type":"start","payload":{}}`, `{"type":"step-start","payload":{}}`, `{"type":"tool-call","payload":{"toolCallId":"c","toolName":"rows","args":{}}}`},
					{`{"type":"step-finish","payload":{}}`, `{"type":"finish","payload":{"stepResult":{"reason":"stop"}}}`},
				},
			}[tt.dialect]
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) {
				sse(rw, around[0]...)
				sse(rw, fmt.Sprintf(tt.line, `"`+result+`"`))
				sse(rw, around[1]...)
			})
			w.serve(w.agent(func(c *Config) { c.Dialect = tt.dialect }))
			s := w.ask("Rows!")
			snap := w.AwaitStatus(s, fold.Ended)
			calls := snap.Messages(1)[0].Calls()
			if len(calls) != 1 || calls[0].State != tt.want {
				t.Fatalf("calls %.1000v, want one in the state %s", calls, tt.want)
			}
			if tt.want == fold.CallFailed {
				for _, b := range w.Bodies(s) {
					if end, ok := b.(chunk.ToolEnd); ok {
						w.want(*end.ErrorCode, values.CodeTooLarge, "code")
					}
				}
			} else if !strings.Contains(string(calls[0].Output), `"tailraceValue":"1-tool_end-result-`) || len(calls[0].Output) > 500 {
				t.Errorf("output %.500s, want a reference", calls[0].Output)
			}
		})
	}
}

// Of the responses of an endpoint one at a time holds a large event: the next one waits, others continue, and the wait ends with the request.
func TestOneLargeEventAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := make(largeEvents, 1)
		line := strings.Repeat("x", 2*smallEvent)
		read := func(body io.Reader, done chan struct{}) (*eventReader, *largeSlot) {
			slot := &largeSlot{of: large, done: done}
			return newEventReader(body, true, 3*smallEvent, slot.resize), slot
		}
		body, rest := io.Pipe()
		stalled, _ := read(body, nil)
		got := make(chan string, 3)
		next := func(name string, r *eventReader) {
			data, err := r.next()
			got <- fmt.Sprint(name, " ", len(data), " ", err)
		}
		go next("stalled", stalled)
		if _, err := io.WriteString(rest, line); err != nil {
			t.Fatal(err)
		}
		waiting, slot := read(strings.NewReader(line+"\n"), nil)
		go next("waiting", waiting)
		done := make(chan struct{})
		ended, _ := read(strings.NewReader(line+"\n"), done)
		go next("ended", ended)
		small, _ := read(strings.NewReader("small\n"), nil)
		next("small", small)
		synctest.Wait()
		if first := <-got; first != "small 5 <nil>" || len(got) > 0 {
			t.Fatalf("%s and %d more, want the small event alone", first, len(got))
		}
		close(done)
		if ended := <-got; !strings.HasPrefix(ended, "ended 0 ") {
			t.Error(ended)
		}
		if _, err := io.WriteString(rest, "\n"); err != nil {
			t.Fatal(err)
		}
		if first := <-got; first != fmt.Sprint("stalled ", len(line), " <nil>") {
			t.Error(first)
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("a second event was read before the first one was written")
		}
		if err := rest.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := stalled.next(); !errors.Is(err, io.EOF) { // the first event is written
			t.Error(err)
		}
		if second := <-got; second != fmt.Sprint("waiting ", len(line), " <nil>") {
			t.Error(second)
		}
		slot.resize(0)
		if len(large) > 0 {
			t.Error("the place is not free after all responses")
		}
	})
}
