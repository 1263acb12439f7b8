package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

const eventsS1 = "/v1/sessions/s1/runs/r1/events?epoch=1"

// The SDK sends events in binary and in structured mode, some of them twice.
func TestEventsOfTheSDK(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
	w.open(openS1)
	for i := range 20 {
		e := cloudevents.NewEvent()
		e.SetID(fmt.Sprintf("e%d", i))
		e.SetSource("/agents/support")
		e.SetType("custom")
		e.SetTime(time.UnixMilli(1_700_000_000_000))
		if err := e.SetData(cloudevents.ApplicationJSON, map[string]any{"eventName": fmt.Sprintf("n%d", i), "data": i}); err != nil {
			t.Fatal(err)
		}
		ctx := cloudevents.WithEncodingBinary(t.Context())
		if i%2 == 1 {
			ctx = cloudevents.WithEncodingStructured(t.Context())
		}
		for n := range 1 + i%3 { // a lost response
			client, err := cloudevents.NewClientHTTP(cehttp.WithTarget(w.edges[(i+n)%2].url + eventsS1))
			if err != nil {
				t.Fatal(err)
			}
			if result := client.Send(ctx, e); !cloudevents.IsACK(result) {
				t.Fatal(result)
			}
		}
	}
	var names []string
	for _, c := range w.Chunks(chunk.RootSession(tenant, "s1"))[1:] {
		names = append(names, c.Body.(chunk.Custom).EventName)
		if c.Timestamp != 1_700_000_000_000 {
			t.Errorf("time %d", c.Timestamp)
		}
	}
	if got, want := strings.Join(names, " "), "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19"; got != want {
		t.Errorf("got %s", got)
	}
}

func event(id, rest string) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"a","type":"text_delta"%s,"data":{"delta":%q}}`, id, rest, id+" ")
}

// A batch continues behind the event of it that was stored last, or behind the line with its sequence.
func TestBatches(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	send := func(events ...string) answer {
		t.Helper()
		a, err := w.edges[0].send(t.Context(), http.MethodPost, eventsS1, mediaBatch, strings.NewReader("["+strings.Join(events, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b, c, d := event("a", ""), event("b", ""), event("c", ""), event("d", "")
	for i, batch := range [][]string{{a, b}, {a, b}, {a, b, c}, {d}, {c, d}, {}} {
		if got := send(batch...); got.status != http.StatusOK || got.number("stored") != []int64{2, 2, 3, 4, 4, 4}[i] {
			t.Errorf("batch %d: %s %s", i, got, got.body)
		}
	}
	for range 2 {
		if got := send(event("e", `,"sequence":"5"`), event("f", `,"sequence":"6"`)); got.number("stored") != 6 {
			t.Errorf("with a sequence: %s %s", got, got.body)
		}
	}
	if got := send(event("x", `,"sequence":"9"`)); got.String() != "409 WRONG_FIRST_LINE" || got.number("line") != 7 {
		t.Errorf("a gap: %s %s", got, got.body)
	}
	for _, second := range []string{"6", "7"} {
		if got := send(event("x", `,"sequence":"7"`), event("y", `,"sequence":"`+second+`"`)); got.String() != "400 INVALID_LINE" {
			t.Errorf("7 and %s: %s %s", second, got, got.body)
		}
	}
	if got := send(event("x", `,"sequence":"8"`), event("y", "")); got.String() != "400 VALIDATION_ERROR" {
		t.Errorf("both kinds: %s %s", got, got.body)
	}
	if got := stack.Conversation(w.Snapshot(chunk.RootSession(tenant, "s1"))); !strings.Contains(got, "a b c d e f ") {
		t.Error(got)
	}
}

// Events of several requests at once are all stored, each once.
func TestEventsAtOnce(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
	w.open(openS1)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			a, err := w.edges[i%2].send(t.Context(), http.MethodPost, eventsS1, mediaEvent, strings.NewReader(event(fmt.Sprintf("e%d", i), "")))
			if err != nil || a.status != http.StatusOK {
				t.Errorf("%s %s %v", a, a.body, err)
			}
		})
	}
	all.Wait()
	seen := map[string]int{}
	for _, c := range w.Chunks(chunk.RootSession(tenant, "s1"))[1:] {
		for piece := range strings.FieldsSeq(c.Body.(chunk.TextDelta).Delta) {
			seen[piece]++
		}
	}
	for i := range 40 {
		if seen[fmt.Sprintf("e%d", i)] != 1 {
			t.Errorf("e%d is stored %d times", i, seen[fmt.Sprintf("e%d", i)])
		}
	}
}

// Events without data, with attributes that are null, and with a time in small letters are valid. An event that a batch repeats is stored once.
func TestRareEvents(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	send := func(media, body, want string, header ...string) {
		t.Helper()
		a, err := w.edges[0].send(t.Context(), http.MethodPost, eventsS1, media, strings.NewReader(body), header...)
		if err != nil || a.String() != want {
			t.Errorf("%s: %s %s %v, want %s", body, a, a.body, err, want)
		}
	}
	const attributes = `{"specversion":"1.0","source":"a",`
	a, b := event("a", ""), event("b", "")
	send(mediaEvent, attributes+`"id":"1","type":"step_start","time":"2026-01-02t03:04:05.5z"}`, "200")
	send(mediaEvent, attributes+`"id":"2","type":"step_end","data":null,"time":null,"datacontenttype":null}`, "200")
	send("", "", "200", "ce-specversion", "1.0", "ce-id", "3", "ce-source", "a", "ce-type", "step_start")
	send(mediaBatch, "["+a+","+b+","+a+"]", "200")
	send(mediaBatch, "["+a+","+strings.Replace(a, `"delta":"a `, `"delta":"x `, 1)+"]", "400 VALIDATION_ERROR")
	send(mediaBatch, "["+event("c", `,"sequence":"6"`)+","+event("c", `,"sequence":"6"`)+"]", "200")
	var got []string
	for _, c := range w.Chunks(chunk.RootSession(tenant, "s1"))[1:] {
		text := string(c.Type()) + " "
		if b, ok := c.Body.(chunk.TextDelta); ok {
			text = b.Delta // the log merges deltas
		}
		got = append(got, text)
	}
	if got, want := strings.Join(got, ""), "step_start step_end step_start a b c "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if at := w.Chunks(chunk.RootSession(tenant, "s1"))[1].Timestamp; at != time.Date(2026, 1, 2, 3, 4, 5, 5e8, time.UTC).UnixMilli() {
		t.Errorf("time %d", at)
	}
}

func TestHostileEvents(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	for name, tt := range map[string]struct{ media, body, want string }{
		"no attributes":    {"application/json", `{"delta":"x"}`, "400 VALIDATION_ERROR"},
		"no version":       {mediaEvent, `{"id":"a","source":"a","type":"text_delta","data":{"delta":"x"}}`, "400 VALIDATION_ERROR"},
		"no id":            {mediaEvent, `{"specversion":"1.0","source":"a","type":"text_delta","data":{"delta":"x"}}`, "400 VALIDATION_ERROR"},
		"no data":          {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta"}`, "400 INVALID_LINE"},
		"a text":           {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","data":"x"}`, "400 VALIDATION_ERROR"},
		"another type":     {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","data":{"type":"thinking"}}`, "400 VALIDATION_ERROR"},
		"a wrong chunk":    {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","data":{"delta":5}}`, "400 INVALID_LINE"},
		"no base64":        {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","data_base64":"?"}`, "400 VALIDATION_ERROR"},
		"a bad sequence":   {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","sequence":"-1","data":{"delta":"x"}}`, "400 VALIDATION_ERROR"},
		"a bad time":       {mediaEvent, `{"specversion":"1.0","id":"a","source":"a","type":"text_delta","time":"noon","data":{"delta":"x"}}`, "400 VALIDATION_ERROR"},
		"XML":              {"application/cloudevents+xml", `<a/>`, "400 VALIDATION_ERROR"},
		"no batch":         {mediaBatch, `{}`, "400 VALIDATION_ERROR"},
		"a batch of texts": {mediaBatch, `["x"]`, "400 VALIDATION_ERROR"},
	} {
		a, err := w.edges[0].send(t.Context(), http.MethodPost, eventsS1, tt.media, strings.NewReader(tt.body))
		if err != nil || a.String() != tt.want {
			t.Errorf("%s: %s %s %v, want %s", name, a, a.body, err, tt.want)
		}
	}
	if n := len(w.Records(chunk.RootSession(tenant, "s1"))); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}
