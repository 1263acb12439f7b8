package httpedge_test

import (
	"context"
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

// deadlines is a response that can have a deadline.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// A response waits for a run while another run writes more often than there are heartbeats: each heartbeat asks whether the run is still requested, until it begins.
func TestAwaitedRunIsCheckedWhileAnotherWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeat = 10 * time.Second
		w := newEnv(t, envConfig{edge: httpedge.Config{Heartbeat: heartbeat}})
		text := func() { w.log.Append(s1, chunk.TypeTextDelta, `"delta":"more"`) }
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		asked := 0
		of := httpedge.Turn{
			Session: s1, Dialect: dialect.AGUI, After: chunk.Position{Seq: 1, Ordinal: 1}, Continues: true, Waits: true, Run: "r2",
			Waiting: func(_ context.Context, dst []byte) ([]byte, error) {
				asked++
				return dst, nil
			},
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			if p := w.edge.ServeTurn(deadlines{httptest.NewRecorder()}, r, of); p != nil {
				t.Error(p)
			}
		}()
		write := func() {
			for range 40 {
				time.Sleep(heartbeat / 4)
				text()
			}
			synctest.Wait()
		}
		if write(); asked < 8 || asked > 14 {
			t.Errorf("asked %d times in ten heartbeats", asked)
		}
		asked = 0
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r2","epoch":1,"mode":"execute","input":[{"content":"next"}]`)
		if write(); asked > 0 {
			t.Errorf("asked %d times after the run has begun", asked)
		}
		w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"x"`)
		<-ended
	})
}

// The frames of Waiting end a response that has just got a record.
func TestWaitingEndsABusyResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeat = 10 * time.Second
		w := newEnv(t, envConfig{edge: httpedge.Config{Heartbeat: heartbeat}})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		out := deadlines{httptest.NewRecorder()}
		began := time.Now()
		stop := time.AfterFunc(heartbeat-time.Second, func() { w.log.Append(s1, chunk.TypeTextDelta, `"delta":"more"`) })
		defer stop.Stop()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		p := w.edge.ServeTurn(out, r, httpedge.Turn{
			Session: s1, Dialect: dialect.AGUI, After: chunk.Position{Seq: 1, Ordinal: 1}, Continues: true, Waits: true, Run: "r2",
			Waiting: func(_ context.Context, dst []byte) ([]byte, error) { return append(dst, "data: last\n\n"...), io.EOF },
		})
		if body := out.Body.String(); p != nil || len(body) < 12 || body[len(body)-12:] != "data: last\n\n" || time.Since(began) > heartbeat {
			t.Errorf("%v, after %s: %q", p, time.Since(began), body)
		}
	})
}

// The store does not respond to the check of a run: its client has got the heartbeat, so that no proxy between them closes the connection meanwhile.
func TestHeartbeatPrecedesTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeat = 10 * time.Second
		w := newEnv(t, envConfig{edge: httpedge.Config{Heartbeat: heartbeat}})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hello"}]`)
		out := deadlines{httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		checked := false
		p := w.edge.ServeTurn(out, r, httpedge.Turn{
			Session: s1, Dialect: dialect.AGUI, After: chunk.Position{Seq: 1, Ordinal: 1}, Waits: true, Run: "r2",
			Waiting: func(_ context.Context, dst []byte) ([]byte, error) {
				checked = strings.Count(out.Body.String(), ": keepalive\n") == 1
				return dst, io.EOF
			},
		})
		if p != nil || !checked {
			t.Errorf("%v, before the check: %q", p, out.Body.String())
		}
	})
}
