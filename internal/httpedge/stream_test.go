package httpedge_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

var s1 = chunk.RootSession("default", "s1")

// chunkFrame returns the frame of a text delta of s1.
func chunkFrame(seq, delta string) string {
	return "id: " + seq + "\ndata: {\"type\":\"chunk\",\"chunk\":" +
		string(memlog.Body(s1, chunk.TypeTextDelta, 1, `"delta":"`+delta+`"`)) + ",\"sequence\":" + seq + "}\n\n"
}

// A client gets the history, then new records, then a clean end; and 204 on the next request.
func TestStreamFromTheBeginningToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"Hel"`)
		resp := w.get(t.Context(), "/v1/sessions/s1/events", nil)
		defer resp.Body.Close()
		go func() {
			time.Sleep(time.Second)
			w.log.Append(s1, chunk.TypeTextDelta, `"delta":"lo"`)
			time.Sleep(40 * time.Second) // two heartbeats
			w.log.Append(s1, chunk.TypeStreamEnd, `"streamId":"s1","finalOutput":{"n":1}`)
		}()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("got %d", resp.StatusCode)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
			"X-Content-Type-Options": "nosniff", "X-Session-Id": "s1", "X-Stream-Epoch": "memlogepoch0", "Access-Control-Allow-Origin": "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		want := chunkFrame("1", "Hel") + chunkFrame("2", "lo") + strings.Repeat(": keepalive\n\n", 2) +
			"id: 3\ndata: {\"type\":\"end\",\"finalOutput\":{\"n\":1}}\n\n"
		retry, body, _ := strings.Cut(readAll(t, resp.Body), "\n\n")
		if !strings.HasPrefix(retry, "retry: 1") {
			t.Errorf("the stream begins with %q, want when to come back", retry)
		}
		if body = chunktest.WithoutAnchors(body); body != want {
			t.Errorf("got\n%s\nwant\n%s", body, want)
		}
		rec := w.record(http.MethodGet, "/v1/sessions/s1/events", http.Header{"Last-Event-Id": {"3"}})
		if rec.Code != http.StatusNoContent {
			t.Errorf("after the end: %d, want 204", rec.Code)
		}
	})
}

// A client whose filter removes every record receives its position at intervals, and heartbeats.
func TestFilteredClientReceivesItsPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		f := newFollower(w, "/v1/sessions/s1/events?types=output")
		go func() {
			for range 100 {
				time.Sleep(time.Second)
				w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
			}
			time.Sleep(31 * time.Second)
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}()
		if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil {
			t.Fatal(how, err)
		}
		if len(f.events) != 1 || f.events[0].Type != "end" || seqOf(f.lastEventID) != 102 {
			t.Errorf("events %+v, last id %s", f.events, f.lastEventID)
		}
		if f.idOnly < 6 || f.idOnly > 8 || f.comments < 1 || f.comments > 3 {
			t.Errorf("%d events of an id alone, %d comments in 131 seconds", f.idOnly, f.comments)
		}
	})
}

// The end of a sub-agent does not end the tree, and a tree ends with its root, also if records of a sub-agent follow.
func TestTreeEndsWithItsRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		kid := s1.Child("kid")
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(kid, chunk.TypeRunStarted, "")
		w.log.Append(kid, chunk.TypeStreamEnd, "")
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		w.log.Append(kid, chunk.TypeStreamFailed, `"error":"too late"`)

		f := newFollower(w, "/v1/sessions/s1/events")
		if how, _, err := f.connect(soon(t), -1); how != whole || err != nil {
			t.Fatal(how, err)
		}
		if seqOf(f.lastEventID) != 5 || f.events[len(f.events)-1].Type != "end" {
			t.Errorf("last id %s, events %+v", f.lastEventID, f.events)
		}
		if how, _, _ := f.connect(soon(t), -1); how != nothing {
			t.Errorf("came back and got %d", how)
		}
		alone := newFollower(w, "/v1/sessions/kid/events?root=s1")
		if how, _, err := alone.connect(soon(t), -1); how != whole || err != nil {
			t.Fatal(how, err)
		}
		if last := alone.events[len(alone.events)-1]; last.Type != "fail" || last.Error != "too late" {
			t.Errorf("the sub-agent alone: %+v", alone.events)
		}
	})
}

// A session waits for a user: the stream stays open. Then the next run ends it.
func TestPausedIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeStreamPaused, "")
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			w.log.Append(s1, chunk.TypeStreamActive, "")
			w.log.Append(s1, chunk.TypeStreamFailed, `"error":"no"`)
		}()
		f := newFollower(w, "/v1/sessions/s1/events")
		if how, _, err := f.connect(t.Context(), -1); how != whole || err != nil || time.Since(began) < time.Hour {
			t.Fatal(how, err, time.Since(began))
		}
		if f.comments < 239 {
			t.Errorf("%d heartbeats in an hour", f.comments)
		}
	})
}

// HEAD has the headers of GET, without the stream.
func TestHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		rec := w.record(http.MethodHead, "/v1/sessions/s1/events", nil)
		if rec.Code != http.StatusOK || rec.Body.Len() != 0 || rec.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("got %d %v %q", rec.Code, rec.Header(), rec.Body)
		}
	})
}
