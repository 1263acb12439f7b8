package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/producers"
)

// chat writes a run of a user with chunks of the steps 1 to 3, and returns the records of the session.
func (w *env) chat(writer *producers.Producer, s chunk.Session, end func(context.Context, *producers.Run) error) string {
	w.t.Helper()
	run := must(writer.Start(w.t.Context(), s, chunk.RunStarted{RunID: "chat", Input: []chunk.InputMessage{{Content: "hi"}}}))(w.t)
	for step := range 3 {
		c := chunk.Chunk{AgentID: s.ID, AgentType: "agent", Timestamp: 1, Step: int64(step + 1), Body: chunk.TextDelta{Delta: "kept"}}
		if _, err := run.Write(w.t.Context(), c); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := end(w.t.Context(), run); err != nil {
		w.t.Fatal(err)
	}
	return w.lines(s)
}

// A cleanup removes chunks of its own run, and none of the runs before it: for those a client needs the right to delete the session.
func TestACleanupReachesBackToItsRun(t *testing.T) {
	w := newEnv(t, nil)
	writer := w.NewWriter(producers.Config{Pace: producers.Off})
	ends := map[string]func(context.Context, *producers.Run) error{
		"ended":  func(ctx context.Context, r *producers.Run) error { return r.End(ctx, nil) },
		"paused": func(ctx context.Context, r *producers.Run) error { return r.Pause(ctx, "tool") },
		"open":   func(ctx context.Context, r *producers.Run) error { _, err := r.Flush(ctx); return err },
	}
	for end, f := range ends {
		for name, body := range map[string]string{"all": `{"step":0}`, "after the first record": `{"step":0,"after":"1"}`} {
			for query, s := range map[string]chunk.Session{
				"": chunk.RootSession(tenant, "chat-"+end+fmt.Sprint(len(name))), "&root=root": chunk.RootSession(tenant, "root").Child("child-" + end + fmt.Sprint(len(name))),
			} {
				before := w.chat(writer, s, f)
				path := "/v1/sessions/" + s.ID + "/runs"
				if a := w.ask(http.MethodPost, path+"?"+strings.TrimPrefix(query, "&"), `{"runId":"r1","takeOver":true}`); a.number("epoch") != 2 {
					t.Fatalf("open: %s %s", a, a.body)
				}
				opened := w.lines(s)
				path += "/r1/"
				w.append(path+"chunks?epoch=2"+query, "{\"type\":\"step_start\"}\n{\"type\":\"text_delta\",\"delta\":\"removed\"}\n")
				for _, want := range []int64{2, 0} {
					if a := w.ask(http.MethodPost, path+"cleanup?epoch=2"+query, body); a.number("removed") != want || a.status != http.StatusOK {
						t.Errorf("%s, %s: %s %s, want %d removed", s, name, a, a.body, want)
					}
				}
				if after := w.lines(s); !strings.HasPrefix(after, before) || !strings.HasPrefix(after, opened) || strings.Contains(after, "removed\"}") {
					t.Errorf("%s, %s: the log is\n%s\nbefore the cleanup\n%s", s, name, after, opened)
				}
			}
		}
	}
}

// The member by names the user of a request, and only the server writes it.
func TestByIsRefused(t *testing.T) {
	w := newEnv(t, nil)
	for i, line := range []string{
		`{"type":"tool_approval_response","toolCallId":"c1","toolName":"rm","approvalId":"a1","approved":true,"by":{"subject":"ann"}}`,
		`{"type":"tool_end","toolCallId":"c1","toolName":"rm","result":1,"by":{"subject":"ann"}}`,
		`{"type":"run_interrupted","runId":"r1","checkpointId":null,"by":{"subject":"ann"}}`,
		`{"type":"stream_failed","error":"aborted","by":{"subject":"ann"}}`,
		`{"type":"stream_end","by":{"subject":"ann"}}`,
		`{"type":"stream_paused","by":{"subject":"ann"}}`,
		`{"type":"stream_active","by":{"subject":"ann"}}`,
		`{"type":"acme.note","text":"x","by":{"subject":"ann"}}`,
		`{"type":"text_delta","delta":"x","by":null}`,
		`{"type":"text_delta","delta":"x","b\u0079":"ann"}`,
	} {
		s := chunk.RootSession(tenant, fmt.Sprintf("forged-%d", i))
		path := "/v1/sessions/" + s.ID + "/runs"
		if a := w.ask(http.MethodPost, path, `{"runId":"r1"}`); a.status != http.StatusCreated {
			t.Fatal(a, a.body)
		}
		opened := w.lines(s)
		kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type":"`), `"`)
		event := fmt.Sprintf(`{"specversion":"1.0","id":"e","source":"test","type":%q,"data":%s}`, kind, line)
		for _, strict := range []string{"", "&strict=off"} {
			for media, body := range map[string]string{"application/x-ndjson": line, "text/event-stream": "data: " + line + "\n\n", mediaEvent: event, mediaBatch: "[" + event + "]"} {
				route := "/r1/chunks?epoch=1"
				if strings.HasPrefix(media, "application/cloudevents") {
					route = "/r1/events?epoch=1"
				}
				a := must(w.edges[0].send(t.Context(), http.MethodPost, path+route+strict, media, strings.NewReader(body)))(t)
				if a.String() != "400 INVALID_LINE" || !strings.Contains(a.text("detail"), "leave out the member by") || a.number("line") != 1 {
					t.Errorf("%s: %s %s", body, a, a.body)
				}
			}
		}
		if after := w.lines(s); after != opened {
			t.Errorf("%s: the log is\n%s", line, after)
		}
	}
	w.open(openS1)
	for path, body := range map[string]string{
		"/v1/sessions/other/runs": `{"runId":"r1"`, "/v1/sessions/s1/runs/r1/end?epoch=1": `{"finalOutput":1`, "/v1/sessions/s1/runs/r1/fail?epoch=1": `{"error":"x"`,
		"/v1/sessions/s1/runs/r1/pause?epoch=1": `{"reason":"x"`, "/v1/sessions/s1/runs/r1/cleanup?epoch=1": `{"step":0`,
	} {
		if a := w.ask(http.MethodPost, path, body+`,"by":{"subject":"ann"}}`); a.String() != "400 VALIDATION_ERROR" || !strings.Contains(a.body, "leave out the member by") {
			t.Errorf("%s: %s %s", path, a, a.body)
		}
	}
	if n := len(w.Records(chunk.RootSession(tenant, "s1"))); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// No dialect turns a member by of its lines into that of a chunk.
func TestByInDialects(t *testing.T) {
	w := newEnv(t, nil)
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	streams := append(textStreams(t, rng), writtenStreams(t, int(seed>>1))...)
	for _, s := range mastraStreams(t, rng) {
		if rng.IntN(10) == 0 {
			streams = append(streams, s)
		}
	}
	seen := 0
	for i, s := range streams {
		for j, body := range s.bodies {
			s.bodies[j] = strings.NewReplacer("data: {\"", `data: {"by":{"subject":"ann"},"`, "\n{\"", "\n"+`{"by":{"subject":"ann"},"`).Replace(body)
			seen += strings.Count(s.bodies[j], `{"by":`)
		}
		session := fmt.Sprintf("s%d", i)
		if err := w.sendStream(nil, session, s); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, c := range w.Chunks(chunk.RootSession(tenant, session)) {
			text := must(c.AppendJSON(nil))(t)
			if c.Type() != chunk.TypeRunStarted && rawjson.Get(text, "by") != nil {
				t.Errorf("%s: %s", s.name, text)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d lines with the member", seen)
	}
}
