package httpedge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hi"}]`)
		w.log.Append(s1, chunk.TypeTextDelta, "")
		snap, err := newSnapshots(w.log, nil).Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		page := func(q fold.PageQuery) string {
			p, err := snap.MessagePage(q)
			if err != nil {
				t.Fatal(err)
			}
			return string(aisdk.Page(p, time.Now().UnixMilli()).AppendJSON(nil))
		}
		whole := func(partial bool) string {
			return string(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: partial, Timestamp: time.Now().UnixMilli()}).AppendJSON(nil))
		}
		present, partial := whole(false), whole(true)
		if !strings.Contains(present, `"streamSequence":2,`) || !strings.Contains(partial, `"streamSequence":3,`) {
			t.Fatalf("%s\n%s", present, partial)
		}
		for path, want := range map[string]string{
			"/v1/sessions/s1/snapshot":           present,
			"/v1/sessions/s1/snapshot?partial=0": present,
			"/v1/sessions/s1/snapshot?partial=1": partial,

			"/v1/sessions/s1/snapshot?messages=2":           page(fold.PageQuery{Limit: 2}),
			"/v1/sessions/s1/snapshot?messages=1&partial=1": page(fold.PageQuery{Limit: 1, Partial: true}),
		} {
			rec := w.record(http.MethodGet, path, nil)
			if rec.Code != http.StatusOK || rec.Body.String() != want || rec.Header().Get("Content-Type") != "application/json" ||
				rec.Header().Get("Cache-Control") != "private, no-cache" || rec.Header().Get("X-Session-Id") != "s1" {
				t.Errorf("%s: got %d %v %s", path, rec.Code, rec.Header(), rec.Body)
			}
		}
		if rec := w.record(http.MethodGet, "/v1/sessions/unknown/snapshot", nil); rec.Code != http.StatusNotFound {
			t.Errorf("unknown session: %d", rec.Code)
		}
		if rec := w.record(http.MethodGet, "/v1/sessions/s1/snapshot?root=r", nil); rec.Code != http.StatusNotFound {
			t.Errorf("a session of another root: %d", rec.Code)
		}
	})
}

// Pages of messages from the newest to the oldest, without gaps and duplicates.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		for n := range 7 {
			w.log.Append(s1, chunk.TypeRunStarted, fmt.Sprintf(`"runId":"r%d","epoch":1,"mode":"execute","input":[{"content":"hi"}]`, n))
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}
		list := func(from, to int) string {
			var messages []string
			for n := from; n <= to; n++ {
				messages = append(messages, fmt.Sprintf(`{"id":"msg-%d","role":"user","parts":[{"type":"text","text":"hi","state":"done"}]}`, n))
			}
			return `{"messages":[` + strings.Join(messages, ",") + `],"before":`
		}
		for query, want := range map[string]string{
			"":                      list(0, 6) + `null}`,
			"?limit=3":              list(4, 6) + `"msg-4"}`,
			"?limit=3&before=msg-4": list(1, 3) + `"msg-1"}`,
			"?limit=3&before=msg-1": list(0, 0) + `null}`,
			"?limit=3&before=msg-0": list(0, -1) + `null}`,
			"?limit=200":            list(0, 6) + `null}`,
		} {
			rec := w.record(http.MethodGet, "/v1/sessions/s1/messages"+query, nil)
			if rec.Code != http.StatusOK || rec.Body.String() != want {
				t.Errorf("%s: got %d %s, want %s", query, rec.Code, rec.Body, want)
			}
		}
	})
}

// Pages with a maximum number of parts begin inside a message; the member before leads through all of them.
func TestPartsOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, `"runId":"r","epoch":1,"mode":"execute","input":[{"content":"hi"}]`)
		for n := range 5 {
			w.log.Append(s1, chunk.TypeSourceURL, fmt.Sprintf(`"sourceId":"s%d","url":"https://example.org"`, n))
		}
		get := func(path string) (page struct {
			Messages []struct {
				ID    string `json:"id"`
				Parts []struct {
					Text     string `json:"text"`
					SourceID string `json:"sourceId"`
				} `json:"parts"`
			} `json:"messages"`
			Before *string `json:"before"`
		}) {
			t.Helper()
			rec := w.record(http.MethodGet, path, nil)
			if rec.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
				t.Fatal(err)
			}
			return page
		}
		var got []string
		path := "/v1/sessions/s1/snapshot?messages=5&parts=2&partial=1"
		for path != "" {
			page := get(path)
			for _, m := range page.Messages {
				for _, p := range m.Parts {
					got = append(got, m.ID+" "+p.Text+p.SourceID)
				}
			}
			if path = ""; page.Before != nil {
				got = append(got, *page.Before)
				path = "/v1/sessions/s1/messages?partial=1&parts=2&before=" + url.QueryEscape(*page.Before)
			}
		}
		want := []string{"msg-1 s3", "msg-1 s4", "msg-1/1/3", "msg-1 s1", "msg-1 s2", "msg-1/1/1", "msg-0 hi", "msg-1 s0"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, query := range []string{"snapshot?parts=2", "snapshot?messages=1&parts=0", "messages?parts=10001", "messages?partial=1&before=msg-1/1", "messages?partial=1&before=msg-1/0/2",
			"messages?partial=1&before=msg-1/1/0", "messages?partial=1&before=msg-1/1/-1", "messages?partial=1&before=msg-1/01/1", "messages?partial=1&before=msg-0/1/2"} {
			if rec := w.record(http.MethodGet, "/v1/sessions/s1/"+query, nil); rec.Code != http.StatusBadRequest {
				t.Errorf("%s: got %d %s, want 400", query, rec.Code, rec.Body)
			}
		}
	})
}

// A feed that is closed does not change what makes an edge ready; Drain and the end of Run do.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		want := func(running, started, draining bool, feeds error) {
			t.Helper()
			got := w.edge.Status()
			if got.Running != running || got.Started != started || got.Draining != draining || !errors.Is(got.Feeds, feeds) {
				t.Errorf("status %+v, want %t, %t, %t, %v", got, running, started, draining, feeds)
			}
		}
		synctest.Wait()
		want(true, true, false, nil)
		w.log.FailWith(errUnavailable)
		synctest.Wait()
		want(true, true, false, errUnavailable)
		if err := w.edge.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		want(true, true, true, errUnavailable)

		idle, err := httpedge.New(w.log, newSnapshots(w.log, nil), httpedge.Config{Authenticator: authtest.None(t, "default")})
		if err != nil {
			t.Fatal(err)
		}
		if got := idle.Status(); got.Running || got.Started || got.Draining || got.Feeds == nil {
			t.Errorf("status before Run: %+v", got)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	log := newLog()
	for want, cfg := range map[string]httpedge.Config{
		"prefix":         {Layout: subjects.Layout{Prefix: "a..b"}},
		"HubBytes":       {HubBytes: -1},
		"Heartbeat":      {Heartbeat: -1},
		"WriteTimeout":   {WriteTimeout: -1},
		"AttachTimeout":  {AttachTimeout: -1},
		"HistoryTimeout": {HistoryTimeout: -1},
		"Retry":          {RetryDelay: -1},
		"DrainPeriod":    {DrainPeriod: -1},
	} {
		cfg.Authenticator = authtest.None(t, "default")
		if _, err := httpedge.New(log, newSnapshots(log, nil), cfg); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := httpedge.New(nil, nil, httpedge.Config{Authenticator: authtest.None(t, "default")}); err == nil {
		t.Error("New accepted a nil log")
	}
	if _, err := httpedge.New(log, newSnapshots(log, nil), httpedge.Config{}); err == nil || !strings.Contains(err.Error(), "Authenticator") {
		t.Errorf("no authenticator: got %v", err)
	}
}
