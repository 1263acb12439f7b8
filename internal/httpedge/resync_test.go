package httpedge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/projector/fold"
)

// A client whose cursor cannot be served receives the reason, and the same response continues from the position of the snapshot that a browser client loads,
// which is before the message in flight.
func TestCursorThatCannotBeServed(t *testing.T) {
	kid := s1.Child("kid")
	other := chunk.RootSession("default", "other")
	for _, tt := range []struct {
		name   string
		setup  func(w *env)
		cursor string
		reason string
		from   chunk.Seq
		then   []string // ids after the event
	}{
		{
			name: "beyond the end", cursor: "4711", reason: "future", from: 5, then: []string{"6", "7"},
		},
		{
			name: "far beyond any end", cursor: "9223372036854775807", reason: "future", from: 5, then: []string{"6", "7"},
		},
		{
			name: "of another session", cursor: "3", reason: "foreign", from: 5, then: []string{"6", "7"},
		},
		{
			name: "before the first sequence", cursor: "1", reason: "expired", from: 5, then: []string{"6", "7"},
			setup: func(w *env) { w.log.Expire(3) },
		},
		{
			name: "no cursor, and the beginning is gone", cursor: "", reason: "expired", from: 5, then: []string{"6", "7"},
			setup: func(w *env) { w.log.Expire(3) },
		},
		{
			name: "removed by a cleanup", cursor: "7", reason: "cleanup", from: 5, then: []string{"6", "8"},
			setup: func(w *env) { w.log.Cleanup(s1, 1, 5) },
		},
		{
			name: "the message in flight is not in the log any more", cursor: "1", reason: "expired", from: 5, then: []string{"7"}, // once more, when the log is read
			setup: func(w *env) {
				w.snapshots.save(w.t, s1)
				w.log.Expire(6)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{})
				w.log.Append(s1, chunk.TypeRunStarted, "")   // 1
				w.log.Append(kid, chunk.TypeTextDelta, "")   // 2
				w.log.Append(other, chunk.TypeStreamEnd, "") // 3
				w.log.Append(s1, chunk.TypeStreamEnd, "")    // 4
				w.log.Append(s1, chunk.TypeRunStarted, "")   // 5, the message in flight follows
				w.log.Append(s1, chunk.TypeTextDelta, "")
				w.log.AppendAt(s1, chunk.TypeTextDelta, 2, "")
				if tt.setup != nil {
					tt.setup(w)
				}
				f := newFollower(w, "/v1/sessions/s1/events")
				f.lastEventID = tt.cursor
				go func() {
					time.Sleep(time.Minute)
					w.log.Append(s1, chunk.TypeStreamEnd, "")
				}()
				if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil {
					t.Fatal(how, err)
				}
				first := f.events[0]
				if first.Type != "truncated" || first.Reason != tt.reason || first.ResumeFrom != tt.from || f.ids[0] != fmt.Sprint(tt.from) {
					t.Errorf("got %+v with id %s, want %s from %d", first, f.ids[0], tt.reason, tt.from)
				}
				if len(f.events) > 1 && (f.events[1].Type == "truncated") != (tt.then[0] == "7") {
					t.Errorf("then %+v", f.events[1])
				}
				var then []string
				for _, id := range f.ids[1 : len(f.ids)-1] {
					then = append(then, fmt.Sprint(seqOf(id)))
				}
				if strings.Join(then, " ") != strings.Join(tt.then, " ") {
					t.Errorf("then %v, want %v", then, tt.then)
				}
			})
		})
	}
}

// The stream is deleted and recreated while a client reads.
func TestStreamRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for range 20 {
			w.log.Append(s1, chunk.TypeTextDelta, "")
		}
		f := newFollower(w, "/v1/sessions/s1/events")
		go func() {
			time.Sleep(time.Second)
			w.log.Recreate()
			w.log.Append(s1, chunk.TypeRunStarted, "")
			time.Sleep(time.Second)
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}()
		if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil {
			t.Fatal(how, err)
		}
		resync, end := f.events[20], f.events[len(f.events)-1]
		if resync.Type != "truncated" || resync.Reason != "recreated" || end.Type != "end" {
			t.Errorf("got %+v … %+v", resync, end)
		}
	})
}

// The new stream does not have the session: the client receives a truncation, its cursor is reset, and its next request gets 404.
func TestStreamRecreatedWithoutTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		f := newFollower(w, "/v1/sessions/s1/events")
		go func() {
			time.Sleep(time.Second)
			w.log.Recreate()
		}()
		if how, _, err := f.connect(t.Context(), -1); how != cut || err != nil {
			t.Fatal(how, err)
		}
		last := f.events[len(f.events)-1]
		if last.Type != "truncated" || last.Reason != "recreated" || last.ResumeFrom != 0 || f.lastEventID != "0" {
			t.Errorf("got %+v, and continues after %s", last, f.lastEventID)
		}
		if how, status, err := f.connect(t.Context(), -1); how != refused || status != http.StatusNotFound || err != nil {
			t.Errorf("again: %d, %d, %v", how, status, err)
		}
	})
}

// Records that a slow reader has not read are purged: it receives the gap when it reaches it.
func TestPurgeUnderASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{hub: hub.Config{MaxMemory: 1, PageBytes: 1}})
		for range 50 {
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"`+strings.Repeat("x", 1000)+`"`)
		}
		resp := w.get(soon(t), "/v1/sessions/s1/events", nil)
		defer resp.Body.Close()
		synctest.Wait()
		w.log.Expire(40)
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		f := newFollower(w, "")
		if err := f.read(resp.Body); err != nil {
			t.Fatalf("%v %v %+v %d", err, f.ids, w.hub.Stats(), f.comments)
		}
		n := len(f.events)
		if resync := f.events[n-1]; resync.Type != "truncated" || resync.Reason != "gap" && resync.Reason != "expired" || resync.ResumeFrom != 51 {
			t.Errorf("the last of %d events is %+v", n, resync)
		}
	})
}

// The log has no records of a session; only its snapshot exists.
func TestExpiredSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status fold.Status
		cursor string
		code   int
		how    ending
	}{
		{"complete, and the client has seen it", "ended", "9", http.StatusNoContent, nothing},
		{"complete, and the client has seen a part", "ended", "5", http.StatusOK, whole},
		{"waits for a user since long ago", "paused", "5", http.StatusOK, cut},
		{"waits for a user, and the client has all", "paused", "9", http.StatusOK, cut},
		{"active, and the client has all", "active", "9", http.StatusOK, cut},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{remembered: map[string]fold.Status{"old": tt.status}})
				f := newFollower(w, "/v1/sessions/old/events")
				f.lastEventID = tt.cursor
				resp := w.get(soon(t), f.path, http.Header{"Last-Event-Id": {tt.cursor}})
				resp.Body.Close()
				if epoch := resp.Header.Get("X-Stream-Epoch"); tt.code == http.StatusOK && epoch != "memlogepoch0" {
					t.Errorf("epoch %q", epoch)
				}
				how, code, err := f.connect(soon(t), -1)
				if how != tt.how || code != tt.code || err != nil {
					t.Fatal(how, code, err)
				}
				moved := len(f.events) == 1 && f.events[0].Reason == "expired" && f.events[0].ResumeFrom == 9
				if code == http.StatusOK && moved != (tt.cursor == "5") || len(f.events) > 1 {
					t.Errorf("got %+v", f.events)
				}
			})
		})
	}
}

// The records of a session expire while its run is active and silent. A client, connected or not, waits for the rest of the run, and for that of a writer
// that numbers its records from the start. 204 would stop an EventSource for good.
func TestActiveSessionExpires(t *testing.T) {
	for name, tt := range map[string]struct {
		connected, restarts bool
		after               string
		want                string
	}{
		"the run continues, the client returns":           {want: "chunk 4, end 5"},
		"the run continues, the client is new":            {after: "0", want: "truncated expired 3, chunk 4, end 5"},
		"the run continues, the client is connected":      {connected: true, want: "chunk 4, end 5"},
		"another writer, the client returns":              {restarts: true, want: "truncated expired 4, chunk 5, end 6"},
		"another writer, the client is connected":         {connected: true, restarts: true, want: "chunk 4, chunk 5, end 6"},
		"another writer, the client is connected and new": {connected: true, restarts: true, after: "0", want: "chunk 1, chunk 2, chunk 3, truncated expired 4, chunk 5, end 6"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnv(t, envConfig{})
				for _, typ := range []chunk.Type{chunk.TypeRunStarted, chunk.TypeTextDelta, chunk.TypeTextDelta} {
					w.log.Append(s1, typ, "")
				}
				w.snapshots.save(t, s1)
				f := newFollower(w, "/v1/sessions/s1/events")
				if f.lastEventID = "3"; tt.after != "" {
					f.lastEventID = tt.after
				}
				var how ending
				var code int
				var err error
				done := make(chan struct{})
				connect := func() {
					go func() {
						defer close(done)
						how, code, err = f.connect(soon(t), -1)
					}()
					synctest.Wait()
					time.Sleep(time.Minute)
				}
				if tt.connected {
					connect()
				}
				w.log.Expire(3)
				if !tt.connected {
					connect()
				}
				if tt.restarts {
					w.log.Restart(s1)
					w.log.Append(s1, chunk.TypeRunStarted, "")
					synctest.Wait()
				}
				w.log.Append(s1, chunk.TypeTextDelta, "")
				w.log.Append(s1, chunk.TypeStreamEnd, "")
				<-done
				var got []string
				for i, e := range f.events {
					seq, _, _ := strings.Cut(f.ids[i], "-") // without the anchor
					text := e.Type + " " + seq
					if e.Type == "truncated" {
						text = fmt.Sprintf("truncated %s %d", e.Reason, e.ResumeFrom)
					}
					got = append(got, text)
				}
				if text := strings.Join(got, ", "); text != tt.want || how != whole || code != http.StatusOK || err != nil {
					t.Errorf("got %s (%d, %d, %v), want %s", text, how, code, err, tt.want)
				}
			})
		})
	}
}

// While NATS is unavailable, connected clients stay connected and receive heartbeats, and new clients get a retry hint. After it is back no record is missing.
func TestLogUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		f := newFollower(w, "/v1/sessions/s1/events")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil {
				t.Error(how, err)
			}
		}()
		time.Sleep(time.Second)
		w.log.FailWith(errUnavailable)
		synctest.Wait()
		for _, path := range []string{"/v1/sessions/s2/events", "/v1/sessions/s2/snapshot", "/v1/sessions/s2/messages"} {
			rec := w.record(http.MethodGet, path, nil)
			if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" ||
				!strings.Contains(rec.Body.String(), `"UNAVAILABLE"`) || strings.Contains(rec.Body.String(), errUnavailable.Error()) {
				t.Errorf("%s: %d %v %s", path, rec.Code, rec.Header(), rec.Body)
			}
		}
		if status := w.edge.Status(); status.Feeds == nil || !status.Running {
			t.Errorf("status without a log: %+v", status)
		}
		time.Sleep(20 * time.Second)
		w.log.FailWith(nil)
		w.log.Append(s1, chunk.TypeTextDelta, "")
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		<-done
		if len(f.ids) != 3 || f.comments == 0 {
			t.Errorf("ids %v, %d heartbeats", f.ids, f.comments)
		}
		if status := w.edge.Status(); status.Feeds != nil {
			t.Errorf("status with the log: %+v", status)
		}
	})
}
