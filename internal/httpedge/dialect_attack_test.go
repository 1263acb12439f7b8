package httpedge_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpedge"
)

// A client that comes back with an id that the log has not reached is refused: otherwise it would wait for records, and get those of another turn.
func TestDialectRefusesAnIDFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"an answer"`)
		for _, name := range []string{dialect.AISDK, dialect.AGUI, dialect.Kortyx, dialect.Mastra} {
			for _, id := range []string{"99", "99-c2wfoqo5", "18446744073709551615"} {
				status, _, body := getBody(t, w, "/v1/sessions/s1/events?dialect="+name, http.Header{"Last-Event-Id": {id}})
				if status < 400 || status >= 500 {
					t.Errorf("%s after %s: %d %s", name, id, status, body)
				}
			}
		}
		for _, of := range []httpedge.Turn{
			{Continues: true}, {Whole: true}, {Waits: true, Run: "r2"}, {Continues: true, Waits: true, Run: "r2"},
		} {
			of.Session, of.Dialect, of.After = s1, dialect.AGUI, chunk.Position{Seq: 99}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			if p := w.edge.ServeTurn(deadlines{httptest.NewRecorder()}, r, of); p == nil || p.Status < 400 || p.Status >= 500 {
				t.Errorf("%+v: %v", of, p)
			}
		}
	})
}

// A session is deleted while responses are open: the deletion ends its run before it removes the records. Each response has that failure, also if the records are
// gone before they are read, or is cut. None takes the end for that of an answer.
func TestDialectSessionIsDeletedDuringAResponse(t *testing.T) {
	for _, name := range []string{dialect.AISDK, dialect.AGUI, dialect.Kortyx, dialect.Mastra} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint(name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newEnv(t, envConfig{})
					w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
					w.log.Append(s1, chunk.TypeTextDelta, `"delta":"an answer"`)
					resp := w.get(t.Context(), "/v1/sessions/s1/events?after=0&dialect="+name, nil)
					defer resp.Body.Close()
					events := bufio.NewReader(resp.Body)
					readUntil(t, events, "an answer")
					if late {
						w.log.PauseFeeds()
					}
					w.log.Append(s1, chunk.TypeStreamFailed, `"error":"the session was deleted"`)
					w.log.Purge(s1)
					if late {
						w.log.Append(chunk.RootSession("default", "other"), chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute"`)
						w.log.Release()
					}
					const limit = time.Minute // of a response that the edge does not end
					began := time.Now()
					stop := time.AfterFunc(limit, func() { resp.Body.Close() })
					defer stop.Stop()
					rest, err := io.ReadAll(events)
					if (err == nil) != strings.Contains(string(rest), "the session was deleted") || time.Since(began) >= limit {
						t.Errorf("%v after %s: %q", err, time.Since(began), rest)
					}
				})
			})
		}
	}
}
