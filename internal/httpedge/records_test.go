package httpedge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	audience "github.com/tailrace/tailrace/internal/view"
)

// recordEvent is the data of an event with dialect=records.
type recordEvent struct {
	Sequence chunk.Seq       `json:"sequence"`
	Session  string          `json:"session"`
	Ordinal  *chunk.Ordinal  `json:"ordinal"`
	Epoch    *chunk.Epoch    `json:"epoch"`
	Time     int64           `json:"time"`
	Data     json.RawMessage `json:"data"`
}

// recordsOf reads the events of a stream of records that ends.
func recordsOf(t *testing.T, w *env, path string, header http.Header) (ids []string, list []recordEvent) {
	t.Helper()
	resp := w.get(t.Context(), path, header)
	defer resp.Body.Close()
	body := readAll(t, resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
	}
	for _, e := range eventsOf(t, body) {
		if e.data == "" {
			continue
		}
		var rec recordEvent
		if err := json.Unmarshal([]byte(e.data), &rec); err != nil || !strings.HasSuffix(e.data, `,"data":`+string(rec.Data)+"}") {
			t.Fatalf("%s: %v", e.data, err)
		}
		ids, list = append(ids, e.id), append(list, rec)
	}
	return ids, list
}

// writeTree writes a run with a sub-agent, whose control records are in the log too.
func writeTree(w *env) {
	kid := theRoot.Child("kid-1")
	w.log.Append(theRoot, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"hi"}]`)
	w.log.Append(theRoot, chunk.TypeSubagentStart, `"subAgentType":"k","subSessionId":"kid-1","callId":"c1"`)
	w.log.Append(kid, chunk.TypeRunStarted, `"runId":"r2","epoch":1,"mode":"execute","input":[]`)
	w.log.Append(kid, chunk.TypeTextDelta, `"delta":"3.0e1 is 30"`)
	w.log.Append(kid, chunk.TypeStreamEnd, `"streamId":"x","finalOutput":3.0e1`)
	w.log.Append(theRoot, chunk.TypeSubagentEnd, `"subAgentType":"k","subSessionId":"kid-1","callId":"c1","result":3.0e1`)
	w.log.Append(theRoot, chunk.TypeStreamEnd, `"streamId":"y"`)
}

// All records of the tree are sent with their place and their bytes, after any cursor, and within the filters of the native dialect.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		writeTree(w)
		const path = "/v1/sessions/root/events?dialect=records"
		ids, all := recordsOf(t, w, path, nil)
		ordinals := map[string]chunk.Ordinal{}
		for i, rec := range all {
			ordinals[rec.Session]++
			if rec.Ordinal == nil || *rec.Ordinal != ordinals[rec.Session] || rec.Epoch == nil || *rec.Epoch == 0 || rec.Time == 0 || !strings.HasPrefix(ids[i], fmt.Sprintf("%d-", rec.Sequence)) {
				t.Errorf("%s: %+v", ids[i], rec)
			}
		}
		if len(all) != 7 || ordinals["kid-1"] != 3 {
			t.Fatalf("%d records, %d of the sub-agent, want 7 and 3", len(all), ordinals["kid-1"])
		}
		if end := string(all[4].Data); !strings.Contains(end, `"stream_end"`) || !strings.Contains(end, `"finalOutput":3.0e1`) {
			t.Errorf("the end of the sub-agent is %s", end)
		}
		for i := range ids[:len(ids)-1] {
			_, rest := recordsOf(t, w, path, http.Header{"Last-Event-Id": {ids[i]}})
			if len(rest) != len(all)-i-1 || rest[0].Sequence != all[i+1].Sequence {
				t.Errorf("after %s: %d records, want %d", ids[i], len(rest), len(all)-i-1)
			}
		}
		for query, want := range map[string]string{
			"&types=text_delta,subagent_end": "4 5 6 7", // ends pass each filter
			"&agent=kid-1":                   "3 4 5 7",
			"&scope=session":                 "1 2 6 7",
		} {
			_, some := recordsOf(t, w, path+query, nil)
			var sequences []string
			for _, rec := range some {
				sequences = append(sequences, fmt.Sprint(rec.Sequence))
			}
			if got := strings.Join(sequences, " "); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	})
}

// A view hides records and members, and the numbers that would count them.
func TestRecordsUnderAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := mustViews(audience.Config{Views: theAudiences, Default: "public"})
		w := newEnv(t, envConfig{edge: httpedge.Config{Views: views}})
		writeTree(w)
		w.log.Append(theRoot, chunk.TypeRunStarted, `"runId":"r3","epoch":1,"mode":"execute","input":[]`)
		w.log.Append(theRoot, chunk.TypeToolStart, `"toolCallId":"c2","toolName":"open","arguments":{"key":"s3cret"}`)
		w.log.Append(theRoot, chunk.TypeSuspensionMarker, `"kind":"suspended_client_tool","payload":{"key":"s3cret"}`)
		w.log.Append(theRoot, chunk.TypeStreamEnd, `"streamId":"y"`)
		_, list := recordsOf(t, w, "/v1/sessions/root/events?dialect=records", nil)
		for _, rec := range list {
			if rec.Ordinal != nil || rec.Epoch != nil || strings.Contains(string(rec.Data), "s3cret") || strings.Contains(string(rec.Data), "suspension_marker") {
				t.Errorf("shown: %+v %s", rec, rec.Data)
			}
		}
		if len(list) == 0 {
			t.Error("no record is shown")
		}
	})
}

// The dialect is of event streams only.
func TestRecordsAreNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		writeTree(w)
		for _, path := range []string{"/v1/sessions/root/snapshot?dialect=records", "/v1/sessions/root/events?dialect=record"} {
			if got := w.record(http.MethodGet, path, nil); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), codeBadParameter) {
				t.Errorf("%s: %d %s", path, got.Code, got.Body)
			}
		}
	})
}
