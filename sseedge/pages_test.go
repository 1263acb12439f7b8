package sseedge_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, worldConfig{})
		w.log.Append(s1, chunk.TypeTextDelta, "")
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s1, chunk.TypeTextDelta, "")
		for path, want := range map[string]string{
			"/v1/sessions/s1/snapshot":           `{"streamSequence":1,"timestamp":946684800000}`,
			"/v1/sessions/s1/snapshot?partial=0": `{"streamSequence":1,"timestamp":946684800000}`,
			"/v1/sessions/s1/snapshot?partial=1": `{"streamSequence":3,"timestamp":946684800000}`,

			"/v1/sessions/s1/snapshot?messages=2":           `{"streamSequence":1,"timestamp":946684800000,"before":null}`,
			"/v1/sessions/s1/snapshot?messages=1&partial=1": `{"streamSequence":3,"timestamp":946684800000,"before":"msg-1"}`,
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

// Pages of messages from the newest to the oldest, without a gap or a repeat.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, worldConfig{})
		for range 7 {
			w.log.Append(s1, chunk.TypeTextDelta, "")
		}
		for query, want := range map[string]string{
			"":                      `{"messages":[{"id":"msg-0"},{"id":"msg-1"},{"id":"msg-2"},{"id":"msg-3"},{"id":"msg-4"},{"id":"msg-5"},{"id":"msg-6"}],"before":null}`,
			"?limit=3":              `{"messages":[{"id":"msg-4"},{"id":"msg-5"},{"id":"msg-6"}],"before":"msg-4"}`,
			"?limit=3&before=msg-4": `{"messages":[{"id":"msg-1"},{"id":"msg-2"},{"id":"msg-3"}],"before":"msg-1"}`,
			"?limit=3&before=msg-1": `{"messages":[{"id":"msg-0"}],"before":null}`,
			"?limit=3&before=msg-0": `{"messages":[],"before":null}`,
			"?limit=200":            `{"messages":[{"id":"msg-0"},{"id":"msg-1"},{"id":"msg-2"},{"id":"msg-3"},{"id":"msg-4"},{"id":"msg-5"},{"id":"msg-6"}],"before":null}`,
		} {
			rec := w.record(http.MethodGet, "/v1/sessions/s1/messages"+query, nil)
			if rec.Code != http.StatusOK || rec.Body.String() != want {
				t.Errorf("%s: got %d %s, want %s", query, rec.Code, rec.Body, want)
			}
		}
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing error
		w := newEnv(t, worldConfig{edge: sseedge.Config{Checks: []sseedge.HealthCheck{
			{Name: "nats", Probe: func(context.Context) error { return nil }},
			{Name: "canary", Probe: func(context.Context) error { return failing }},
		}}})
		synctest.Wait()
		rec := w.record(http.MethodGet, "/readyz", nil)
		want := `{"ok":true,"checks":{"canary":"ok","draining":"ok","hub":"ok","nats":"ok"}}`
		if rec.Code != http.StatusOK || strings.TrimSpace(rec.Body.String()) != want {
			t.Errorf("got %d %s", rec.Code, rec.Body)
		}
		failing = errors.New("secret internals")
		rec = w.record(http.MethodGet, "/readyz", nil)
		if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"canary":"failed"`) || strings.Contains(rec.Body.String(), "secret") {
			t.Errorf("got %d %s", rec.Code, rec.Body)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	log := newLog()
	for want, cfg := range map[string]sseedge.Config{
		"prefix":         {Layout: subjects.Layout{Prefix: "a..b"}},
		"tenant":         {Tenant: "a.b"},
		"HubBytes":       {HubBytes: -1},
		"Heartbeat":      {Heartbeat: -1},
		"WriteTimeout":   {WriteTimeout: -1},
		"AttachTimeout":  {AttachTimeout: -1},
		"HistoryTimeout": {HistoryTimeout: -1},
		"Retry":          {RetryDelay: -1},
		"DrainPeriod":    {DrainPeriod: -1},
		"check":          {Checks: []sseedge.HealthCheck{{Name: "x"}}},
	} {
		if _, err := sseedge.New(log, snapshotsOf{log: log}, cfg); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := sseedge.New(nil, nil, sseedge.Config{}); err == nil {
		t.Error("an edge without a log")
	}
}
