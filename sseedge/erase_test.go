package sseedge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/logtest"
	"github.com/tailrace/tailrace/sseedge"
)

// purge deletes sessions from a log in memory.
type purge struct {
	log  *logtest.Log
	away bool
}

func (p *purge) Delete(_ context.Context, s chunk.Session) error {
	switch {
	case p.away:
		return errAway
	case len(p.log.Session(s)) == 0:
		return chunk.ErrUnknownSession
	}
	p.log.Purge(s)
	return nil
}

func TestErase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eraser := &purge{}
		w := newWorld(t, worldConfig{edge: sseedge.Config{Eraser: eraser}})
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
			"no session id":                   {"a.b", nil, 400},
			"nobody":                          {"", nil, 400},
			"one that is not there":           {"s2", nil, 404},
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
		eraser.away = true
		rec := w.record(http.MethodDelete, "/v1/sessions/s1", nil)
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || strings.Contains(rec.Body.String(), "secret") {
			t.Errorf("while the log is away: %d %s", rec.Code, rec.Body)
		}
		eraser.away = false
		if len(w.log.Session(s1)) != 1 {
			t.Fatal("it is gone")
		}
		rec = w.record(http.MethodDelete, "/v1/sessions/s1", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://edge"}})
		if rec.Code != http.StatusNoContent || rec.Body.Len() > 0 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if got := status(http.MethodDelete, "/v1/sessions/s1", nil); got != http.StatusNotFound {
			t.Errorf("once more: %d", got)
		}
		for _, leaf := range []string{"events", "snapshot", "messages", "tree", "snapshot?at=1"} {
			if got := status(http.MethodGet, "/v1/sessions/s1/"+leaf, nil); got != http.StatusNotFound {
				t.Errorf("%s of a session that was deleted: %d", leaf, got)
			}
		}
	})
}

// Nothing can be deleted unless somebody has decided that.
func TestEraseIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{})
		w.log.Append(s1, chunk.TypeTextDelta, "")
		if rec := w.record(http.MethodDelete, "/v1/sessions/s1", nil); rec.Code != http.StatusNotFound {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// A body is refused before anything is deleted.
func TestEraseTakesNoBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eraser := &purge{}
		w := newWorld(t, worldConfig{edge: sseedge.Config{Eraser: eraser}})
		eraser.log = w.log
		w.log.Append(s1, chunk.TypeTextDelta, "")
		checkRefusal(t, w, "DELETE /v1/sessions/s1 HTTP/1.1\r\nHost: edge\r\nContent-Length: 1\r\n\r\nx", []int{413}, "CONTENT_TOO_LARGE")
		if len(w.log.Session(s1)) != 1 {
			t.Error("it is gone all the same")
		}
	})
}
