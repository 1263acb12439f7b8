package httpedge_test

import (
	"bufio"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
)

// The outcome of a call of an earlier turn belongs to the message of that turn: it is not a call of the present one, neither live, nor for a client that comes
// back, nor for one that follows from an earlier position.
func TestDialectOmitsOutcomesOfEarlierCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		w.log.Append(s1, chunk.TypeToolStart, `"toolCallId":"c1","toolName":"browser","arguments":{}`)
		w.log.Append(s1, chunk.TypeToolStart, `"toolCallId":"c2","toolName":"browser","arguments":{}`)
		w.log.Append(s1, chunk.TypeStreamPaused, "")
		resp := w.get(t.Context(), "/v1/sessions/s1/events?dialect=aisdk&after=4", nil)
		defer resp.Body.Close()
		live := bufio.NewReader(resp.Body)
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r2","epoch":1,"mode":"execute","input":[{"content":"never mind"}]`)
		w.log.Append(s1, chunk.TypeToolOutputError, `"toolCallId":"c1","toolName":"browser","error":"abandoned"`)
		w.log.Append(s1, chunk.TypeToolStart, `"toolCallId":"c2","toolName":"browser","arguments":{"again":true}`)
		w.log.Append(s1, chunk.TypeToolOutputError, `"toolCallId":"c2","toolName":"browser","error":"its own"`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"an answer"`)
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		check := func(name, body string) {
			t.Helper()
			if strings.Contains(body, "c1") || strings.Contains(body, "abandoned") || !strings.Contains(body, "its own") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
				t.Errorf("%s: %q", name, body)
			}
		}
		check("live", readAll(t, live))
		for _, after := range []string{"4", "5", "6"} {
			_, _, body := getBody(t, w, "/v1/sessions/s1/events?dialect=aisdk&after="+after, nil)
			check("after "+after, body)
		}
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r3","epoch":1,"mode":"execute","input":[{"content":"more"}]`)
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		_, _, body := getBody(t, w, "/v1/sessions/s1/events?dialect=aisdk&after=4", nil)
		check("of the turn before", body)
	})
}
