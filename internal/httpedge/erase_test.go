package httpedge_test

import (
	"bufio"
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// eraser deletes sessions from a log in memory in the same way as from a real one: the
// last record reports the deletion and remains for attached readers.
type eraser struct {
	log          *memlog.Log
	unavailable  bool
	onLastRecord func() // called after the last record is stored
}

const deletionFailure = `"error":"the session was deleted","errorDetail":{"message":"the session was deleted","code":"session_deleted"}`

func (e *eraser) Forks(context.Context, chunk.Session) iter.Seq2[projector.SessionInfo, error] {
	return func(func(projector.SessionInfo, error) bool) {}
}

func (e *eraser) DeleteBy(_ context.Context, s chunk.Session, _ *chunk.Principal) error {
	if e.unavailable {
		return errUnavailable
	}
	records := e.log.Session(s)
	if len(records) == 0 || wasDeleted(records) {
		return chunk.ErrUnknownSession
	}
	e.log.Append(s, chunk.TypeStreamFailed, deletionFailure)
	if e.onLastRecord != nil {
		e.onLastRecord()
	}
	for _, rec := range records {
		e.log.Delete(rec.Seq)
	}
	return nil
}

// wasDeleted reports whether the last record is that of a deletion, as a tombstone does.
func wasDeleted(records []chunk.Record) bool {
	return len(records) > 0 && strings.Contains(string(records[len(records)-1].Data), chunk.CodeSessionDeleted)
}

func TestErase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eraser := &eraser{}
		w := newEnv(t, envConfig{edge: httpedge.Config{Eraser: eraser}})
		eraser.log = w.log
		w.log.Append(s1, chunk.TypeTextDelta, "")
		status := func(method, path string, header http.Header) int { return w.record(method, path, header).Code }
		for name, tt := range map[string]struct {
			path   string
			header http.Header
			want   int
		}{
			"from a page of another site":     {"s1", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
			"from a page of another host":     {"s1", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
			"from a page in an older browser": {"s1", http.Header{"Origin": {"https://evil.example"}}, 403},
			"from a sandboxed frame":          {"s1", http.Header{"Origin": {"null"}}, 403},
			"a sub-agent":                     {"s1?root=r", nil, 400},
			"invalid session id":              {"a%20b", nil, 400},
			"empty id":                        {"", nil, 400},
			"unknown session":                 {"s2", nil, 404},
		} {
			if got := status(http.MethodDelete, "/v1/sessions/"+tt.path, tt.header); got != tt.want {
				t.Errorf("%s: %d, want %d", name, got, tt.want)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut} {
			rec := w.record(method, "/v1/sessions/s1", nil)
			if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != http.MethodDelete {
				t.Errorf("%s: %d, allowed %q", method, rec.Code, rec.Header().Get("Allow"))
			}
		}
		eraser.unavailable = true
		rec := w.record(http.MethodDelete, "/v1/sessions/s1", nil)
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || strings.Contains(rec.Body.String(), "secret") {
			t.Errorf("while the log is unavailable: %d %s", rec.Code, rec.Body)
		}
		eraser.unavailable = false
		if len(w.log.Session(s1)) != 1 {
			t.Fatal("a rejected request deleted the session")
		}
		rec = w.record(http.MethodDelete, "/v1/sessions/s1", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://edge"}})
		if rec.Code != http.StatusNoContent || rec.Body.Len() > 0 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if got := status(http.MethodDelete, "/v1/sessions/s1", nil); got != http.StatusNotFound {
			t.Errorf("second DELETE: %d", got)
		}
		for _, leaf := range []string{"events", "snapshot", "messages", "tree", "snapshot?at=1"} {
			if got := status(http.MethodGet, "/v1/sessions/s1/"+leaf, nil); got != http.StatusNotFound {
				t.Errorf("%s of a session that was deleted: %d", leaf, got)
			}
		}
	})
}

// An attached client receives the deletion, and its response ends cleanly, whether its
// reader reached the last record before the log was deleted or not. A client that
// reconnects gets 404.
func TestReadersGetTheDeletion(t *testing.T) {
	for _, quick := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			eraser := &eraser{}
			w := newEnv(t, envConfig{edge: httpedge.Config{Eraser: eraser}})
			eraser.log = w.log
			if quick {
				eraser.onLastRecord = synctest.Wait
			}
			w.log.Append(s1, chunk.TypeRunStarted, "")
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"s3cret"`)
			slow := w.get(t.Context(), "/v1/sessions/s1/events", nil) // so that the hub keeps the topic in memory
			defer slow.Body.Close()
			one := w.get(t.Context(), "/v1/sessions/s1/events", nil)
			defer one.Body.Close()
			many := w.get(t.Context(), "/v1/events?session=s1", nil)
			defer many.Body.Close()
			// A client that has not received all records before the deletion gets truncated instead: the log no longer has the rest.
			readers := map[string]*bufio.Reader{"one session": bufio.NewReader(one.Body), "several": bufio.NewReader(many.Body)}
			for _, reader := range readers {
				readUntil(t, reader, "s3cret")
			}
			if rec := w.record(http.MethodDelete, "/v1/sessions/s1", nil); rec.Code != http.StatusNoContent {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			for path, reader := range readers {
				if body := readAll(t, reader); !strings.HasSuffix(body, "data: {\"type\":\"fail\",\"error\":\"the session was deleted\"}\n\n") {
					t.Errorf("%s: %q", path, body)
				}
			}
			for _, after := range []string{"", "?after=1", "?after=2"} {
				if rec := w.record(http.MethodGet, "/v1/sessions/s1/events"+after, nil); rec.Code != http.StatusNotFound {
					t.Errorf("reconnect with %q: %d %s", after, rec.Code, rec.Body)
				}
			}

			// The session is restarted. Clients get none of its earlier records.
			w.log.Append(s1, chunk.TypeRunStarted, "")
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"restarted"`)
			synctest.Wait()
			again := w.get(t.Context(), "/v1/sessions/s1/events", nil)
			defer again.Body.Close()
			body := readUntil(t, bufio.NewReader(again.Body), `"delta":"restarted"`)
			if strings.Contains(body, "s3cret") {
				t.Errorf("after the restart: %q", body)
			}
		})
	}
}

// readUntil reads lines until one contains the text, and returns them.
func readUntil(tb testing.TB, r *bufio.Reader, text string) string {
	tb.Helper()
	var lines strings.Builder
	for !strings.Contains(lines.String(), text) {
		line, err := r.ReadString('\n')
		if err != nil {
			tb.Fatalf("%v after %q", err, lines.String())
		}
		lines.WriteString(line)
	}
	return lines.String()
}

// Without an Eraser in the configuration the edge does not serve DELETE.
func TestDeleteWithoutEraser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeTextDelta, "")
		if rec := w.record(http.MethodDelete, "/v1/sessions/s1", nil); rec.Code != http.StatusNotFound {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// A body is rejected before anything is deleted.
func TestEraseRefusesABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eraser := &eraser{}
		w := newEnv(t, envConfig{edge: httpedge.Config{Eraser: eraser}})
		eraser.log = w.log
		w.log.Append(s1, chunk.TypeTextDelta, "")
		checkRefusal(t, w, "DELETE /v1/sessions/s1 HTTP/1.1\r\nHost: edge\r\nContent-Length: 1\r\n\r\nx", []int{413}, "CONTENT_TOO_LARGE")
		if len(w.log.Session(s1)) != 1 {
			t.Error("the rejected request deleted the session")
		}
	})
}
