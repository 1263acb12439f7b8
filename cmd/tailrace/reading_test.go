package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/jscredentials"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// env is an edge and a projector with a server, and a writer. Every response of
// the edge is checked against docs/openapi.yaml.
type env struct {
	*stack.Stack
	running

	t        *testing.T
	doc      *openapitest.Document
	producer *producers.Producer
}

func newEnv(t *testing.T) *env {
	t.Helper()
	h := &env{Stack: stack.Start(t, stack.Options{}), t: t, doc: openapitest.Load(t)}
	views := writeFile(t, "views.json", `{"views":{"customer":{"preset":"public"}}}`)
	h.running = startEdge(t, "--nats-url", h.Server.URL, "--nats-nkey", h.Users.Seed(natsauth.Edge), "--views", views, "--allow-delete")
	startSaving(t, "--nats-url", h.Server.URL, "--nats-nkey", h.Users.Seed(natsauth.Projector))
	awaitStart(t, h.ops)
	h.producer = h.NewWriter(producers.Config{Pace: producers.Off})
	return h
}

// start starts a run with a user message.
func (h *env) start(session, question string) *producers.Run {
	h.t.Helper()
	run, err := h.producer.Start(h.t.Context(), chunk.RootSession("default", session),
		chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: question}}}, producers.AgentType("writer"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := run.Close(); err != nil && !errors.Is(err, chunk.ErrFenced) {
			h.t.Error(err)
		}
	})
	return run
}

// emit writes chunks and returns the sequence of the last.
func (h *env) emit(run *producers.Run, bodies ...chunk.Body) chunk.Seq {
	h.t.Helper()
	for _, body := range bodies {
		if err := run.EmitBody(h.t.Context(), body); err != nil {
			h.t.Fatal(err)
		}
	}
	pos, err := run.Flush(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return pos.Seq
}

func (h *env) end(run *producers.Run) {
	h.t.Helper()
	if err := run.End(h.t.Context(), chunk.Value(`{"done":true}`)); err != nil {
		h.t.Fatal(err)
	}
}

// ask sends a request and checks the response against the document. Of a stream
// it reads the first event.
func (h *env) ask(method, url string, header http.Header) (status int, answered http.Header, text string) {
	h.t.Helper()
	if strings.HasPrefix(url, "/") {
		url = h.url + url
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	req.Host = header.Get("Host")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body []byte
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && method == http.MethodGet {
		event, err := firstEvent(bufio.NewReader(resp.Body))
		if err != nil {
			h.t.Fatalf("%s: %v", url, err)
		}
		body = []byte(event)
	} else if body, err = io.ReadAll(resp.Body); err != nil {
		h.t.Fatalf("%s: %v", url, err)
	}
	h.doc.Check(h.t, resp, body)
	return resp.StatusCode, resp.Header, string(body)
}

// firstID returns the id of an event.
func firstID(event string) string {
	_, rest, _ := strings.Cut(event, "id: ")
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

// want sends a request and checks the status and the parts of the body.
func (h *env) want(status int, method, url string, header http.Header, parts ...string) string {
	h.t.Helper()
	got, _, body := h.ask(method, url, header)
	if got != status {
		h.t.Errorf("%s %s: %d %s, want %d", method, url, got, body, status)
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			h.t.Errorf("%s %s: %s\nwithout %s", method, url, body, part)
		}
	}
	return body
}

func (h *env) get(url string, parts ...string) string {
	h.t.Helper()
	return h.want(http.StatusOK, http.MethodGet, url, nil, parts...)
}

// fill writes sessions with every kind of content.
func (h *env) fill() (early, late chunk.Seq) {
	h.t.Helper()
	old := h.start("old", "hello?")
	early = h.emit(old, chunk.TextDelta{Delta: "first "})
	late = h.emit(old, chunk.TextDelta{Delta: "second"}, chunk.TextDelta{Delta: "third"})

	talk := h.start("talk", "a report, please")
	patch := chunk.Value(`"draft"`)
	h.emit(talk,
		chunk.StepStart{}, chunk.Thinking{Content: "hm", IsComplete: true}, chunk.TextDelta{Delta: "Let me see."},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: chunk.Value(`{"q":"tides"}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "search", Result: chunk.Value(`{"found":2}`)},
		chunk.Custom{EventName: "progress", Data: chunk.Value(`0.5`)}, chunk.Custom{EventName: "rows", Data: largeValue()},
		chunk.File{URL: values.MakeDataURL("image/png", largeValue()), MediaType: "image/png"},
		chunk.File{URL: "https://files.example/a.png", MediaType: "image/png"},
		chunk.SourceURL{SourceID: "1", URL: "https://example.com"},
		chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/stage", Value: &patch}}},
		chunk.Error{Error: "slow", Recoverable: true},
	)
	child, err := talk.Child(h.t.Context(), chunk.SubagentStart{SubAgentType: "helper", SubSessionID: "kid-1", CallID: "c2"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.emit(child, chunk.TextDelta{Delta: "I help"}, chunk.Custom{EventName: "rows", Data: largeValue()})
	grandchild, err := child.Child(h.t.Context(), chunk.SubagentStart{SubAgentType: "scout", SubSessionID: "kid-2", CallID: "c3"}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.emit(grandchild, chunk.TextDelta{Delta: "I look"})
	for _, done := range []struct{ parent, child *producers.Run }{{child, grandchild}, {talk, child}} {
		if err := done.child.End(h.t.Context(), nil); err != nil {
			h.t.Fatal(err)
		}
		if err := done.parent.EndChild(h.t.Context(), done.child, chunk.Value(`{"seen":"s3cret"}`)); err != nil {
			h.t.Fatal(err)
		}
	}
	reason := "stop"
	h.emit(talk, chunk.StepEnd{FinishReason: &reason, Usage: &chunk.Usage{InputTokens: "3", OutputTokens: "4"}},
		chunk.CheckpointCreated{RunID: talk.ID(), CheckpointID: "cp-1", StepCount: 1})
	h.end(talk)

	// A call whose result arrives with the next user message, after another
	// message.
	call := h.start("late", "what is on my screen?")
	h.emit(call, chunk.TextDelta{Delta: "I look."}, chunk.ToolStart{ToolCallID: "c9", ToolName: "screenshot", Arguments: chunk.Value(`{}`)})
	if err := call.Pause(h.t.Context(), "client"); err != nil {
		h.t.Fatal(err)
	}
	h.end(call)
	next := h.start("late", "here it is")
	h.emit(next, chunk.ToolEnd{ToolCallID: "c9", ToolName: "screenshot", Result: chunk.Value(`{"pixels":9}`)}, chunk.TextDelta{Delta: "A cat."})
	h.end(next)

	failed := h.start("failed", "go")
	h.emit(failed, chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "rm", Input: chunk.Value(`{"path":"/"}`), ApprovalID: "a1"})
	if err := failed.Fail(h.t.Context(), "no", &chunk.ErrorDetail{Message: "no more"}); err != nil {
		h.t.Fatal(err)
	}
	busy := h.start("busy", "wait")
	h.emit(busy, chunk.TextDelta{Delta: "working"}, chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "rm", Input: chunk.Value(`{"path":"/"}`), ApprovalID: "a1"})
	return early, late
}

// Every read operation of the edge works with a real server and is covered by
// the document.
func TestDocumentCoversReads(t *testing.T) {
	h := newEnv(t)
	early, late := h.fill()
	h.readSnapshots(early, late)
	h.readMessages()
	h.readTrees()
	h.readSessions()
	h.readEvents()
	h.readValues()
	h.erase()
	h.revoke()
	h.readOps()
	h.refusedEverywhere()
	h.refusedWhileDraining()
	h.refusedOverRate()
	h.notReady()
	for _, tag := range []string{"edge", "ops"} {
		for _, what := range h.doc.Unseen(tag) {
			t.Errorf("%s of the document is not covered", what)
		}
	}
}

func (h *env) readSnapshots(early, late chunk.Seq) {
	h.t.Helper()
	const talk = "/v1/sessions/talk/snapshot"
	page := h.get(talk, `"status":"ended"`, `"checkpointId":"cp-1"`, `{"type":"text","text":"Let me see.","state":"done"}`, `"state":{"stage":"draft"}`)
	var snap struct {
		StreamSequence chunk.Seq `json:"streamSequence"`
	}
	if err := json.Unmarshal([]byte(page), &snap); err != nil {
		h.t.Fatal(err)
	}
	h.get(fmt.Sprintf("%s?at=%d", talk, snap.StreamSequence), `"status":"ended"`)
	h.get(fmt.Sprintf("%s?at=%d&partial=1", talk, snap.StreamSequence-1), `"status":"active"`, `"checkpointId":"cp-1"`)
	h.get(talk+"?checkpoint=cp-1", `"status":"ended"`, `"checkpointId":"cp-1"`, "Let me see.")
	h.get("/v1/sessions/kid-1/snapshot?root=talk", "I help", `"session":"kid-2"`)
	if page := h.get(talk + "?view=customer"); strings.Contains(page, "tides") || strings.Contains(page, "s3cret") {
		h.t.Errorf("the customer view contains %s", page)
	}
	if page := h.get("/v1/sessions/busy/snapshot", `"status":"active"`, `"text":"wait"`); strings.Contains(page, "working") {
		h.t.Errorf("without partial=1 the message in flight is in %s", page)
	}
	h.get(talk+"?dialect=aisdk", `"status":"ended"`)
	h.get("/v1/sessions/busy/snapshot?partial=1", "working", `"kind":"approval"`)
	h.get("/v1/sessions/failed/snapshot", `"status":"failed"`, `"detail":{"message":"no more"}`)

	_, head, _ := h.ask(http.MethodHead, talk, nil)
	h.want(http.StatusNotModified, http.MethodGet, talk, http.Header{"If-None-Match": {head.Get("ETag")}})
	h.want(http.StatusBadRequest, http.MethodGet, talk+"?at=1000000", nil, "SEQUENCE_IN_FUTURE")
	h.want(http.StatusNotFound, http.MethodGet, talk+"?checkpoint=none", nil, "CHECKPOINT_NOT_FOUND")
	h.want(http.StatusNotFound, http.MethodGet, talk+"?at=1", nil, "STREAM_NOT_FOUND")
	h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/unknown/snapshot", nil, "STREAM_NOT_FOUND")

	// The first records of session old expire.
	at := fmt.Sprintf("/v1/sessions/old/snapshot?partial=1&at=%d", early)
	h.get(at, `"text":"first "`)
	stream, err := h.JS.Stream(h.t.Context(), "TR_CHUNKS_0")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := stream.Purge(h.t.Context(), jetstream.WithPurgeSequence(uint64(late))); err != nil {
		h.t.Fatal(err)
	}
	h.want(http.StatusGone, http.MethodGet, at, nil, "HISTORY_EXPIRED")
}

func (h *env) readMessages() {
	h.t.Helper()
	const late = "/v1/sessions/late/messages"
	h.get(late+"?limit=1", "A cat.", `"before":"msg-3"`)
	h.get(late+"?limit=2&before=msg-2", `"state":"output-available"`, `"output":{"pixels":9}`, `"before":null`) // the call with its result from two pages later
	h.get("/v1/sessions/busy/messages?partial=1", "working")
	h.get(late+"?branch=msg-0", "A cat.")
	h.get("/v1/sessions/late/snapshot?branch=msg-0", "A cat.")
	h.want(http.StatusBadRequest, http.MethodGet, late+"?branch=msg-99", nil, "BAD_CURSOR")
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/late/snapshot?branch=msg-0&at=1", nil, "BAD_PARAMETER")
	if page := h.get("/v1/sessions/late/snapshot?messages=1", "A cat.", `"before":"msg-3"`, `"status":"ended"`); strings.Contains(page, "I look.") {
		h.t.Errorf("the last message alone: %s", page)
	}
	h.get("/v1/sessions/late/snapshot?messages=100", "I look.", "A cat.", `"before":null`)
	h.get("/v1/sessions/talk/snapshot?messages=1&view=customer", `"before":"msg-`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/late/snapshot?messages=1&at=1", nil, "BAD_PARAMETER")
	h.get("/v1/sessions/kid-1/messages?root=talk", "I help")
	h.get("/v1/sessions/talk/messages?view=customer", "Let me see.")

	// The message has more parts than these pages: the page before them begins in the same message.
	const talk = "/v1/sessions/talk/messages"
	var page struct {
		Before string `json:"before"`
	}
	body := h.get(talk+"?parts=2", `"before":"msg-`)
	if err := json.Unmarshal([]byte(body), &page); err != nil || strings.Contains(body, "Let me see.") {
		h.t.Errorf("the last two parts: %s, %v", body, err)
	}
	h.get(talk+"?parts=100&before="+page.Before, "Let me see.", `"before":null`)
	if body := h.get("/v1/sessions/talk/snapshot?messages=1&parts=2", `"before":"msg-`, `"status":"ended"`); strings.Contains(body, "Let me see.") {
		h.t.Errorf("the snapshot with the last two parts: %s", body)
	}
	h.want(http.StatusBadRequest, http.MethodGet, talk+"?parts=0", nil, "BAD_PARAMETER")
	h.want(http.StatusBadRequest, http.MethodGet, late+"?before=msg-99", nil, "BAD_CURSOR")
	h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/unknown/messages", nil)
}

func (h *env) readTrees() {
	h.t.Helper()
	const kid2 = `{"session":"kid-2","type":"scout","callId":"c3","status":"ended","result":{"seen":"s3cret"},"children":[]}`
	const kid1 = `{"session":"kid-1","type":"helper","callId":"c2","status":"ended","result":{"seen":"s3cret"},"children":[` + kid2 + `]}`
	h.get("/v1/sessions/talk/tree", `{"session":"talk","type":"writer","status":"ended","children":[`+kid1+`]}`)
	h.get("/v1/sessions/kid-1/tree?root=talk", `"children":[`+kid2+`]}`)
	h.get("/v1/sessions/talk/tree?view=customer", `"children":[]`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/talk/tree?view=none", nil)
	h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/unknown/tree", nil)
}

func (h *env) readSessions() {
	h.t.Helper()
	natstest.Eventually(h.t, "all sessions to be saved", func(context.Context) error {
		_, body := get(h.t, h.url+"/v1/sessions?agentType=writer", "")
		if n := strings.Count(body, `"streamSequence"`); n != 5 || strings.Count(body, `"status":"active"`) != 2 {
			return fmt.Errorf("%d sessions: %s", n, body)
		}
		return nil
	})
	var page struct {
		Sessions []json.RawMessage `json:"sessions"`
		Before   *string           `json:"before"`
	}
	seen := 0
	for before := ""; ; before = *page.Before {
		body := h.get("/v1/sessions?limit=2&agentType=writer&before=" + before)
		page.Before = nil
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			h.t.Fatal(err)
		}
		seen += len(page.Sessions)
		if page.Before == nil || seen > 5 {
			break
		}
	}
	if seen != 5 {
		h.t.Errorf("%d sessions on all pages, want 5", seen)
	}
	h.get("/v1/sessions?status=failed&q=FAIL&since=2026-01-01T00:00:00Z", `"id":"failed"`)
	h.get("/v1/sessions?in=title&q=x&error=x&model=m&waiting=1&owner=ann", `"sessions":[],`)
	h.get("/v1/sessions?in=messages&q=LET+ME+SEE&agentType=writer", `"id":"talk"`)
	h.get("/v1/sessions?in=messages&q=s3cret&since=2026-01-01T00:00:00Z&view=customer", `"sessions":[],`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions?in=messages&q=x", nil, "BAD_PARAMETER")
	h.get("/v1/sessions?origin=talk", `"sessions":[],`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions?origin=talk&view=customer", nil, "BAD_PARAMETER")
	h.get("/v1/sessions?until=2026-01-01T00:00:00Z", `{"sessions":[],"before":null`)
	h.get("/v1/sessions/summary?agentType=writer", `{"sessions":5,"complete":true,`, `"failed":1`)
	h.get("/v1/sessions/summary?owner=ann", `"sessions":0`)
	h.get("/v1/sessions/summary?view=customer&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z", `"sessions":0`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/summary?since=x", nil)
	h.get("/v1/sessions?view=customer", `"id":"talk"`)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions?before=x", nil, "BAD_CURSOR")
}

func (h *env) readEvents() {
	h.t.Helper()
	const talk = "/v1/sessions/talk/events"
	h.get(talk+"?after=0&scope=tree&types=text_delta,tool_start&exclude=thinking&view=customer&ticket=unused", "Let me see.")
	h.get(talk+"?scope=tree&agent=kid-1", `"agentId":"kid-1"`)
	h.get("/v1/sessions/kid-1/events?root=talk", "run_started")
	h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/unknown/events", nil)
	h.get(talk+"?dialect=aisdk", `{"type":"start","messageId":"msg-`)
	h.want(http.StatusGone, http.MethodGet, "/v1/sessions/old/events?dialect=aisdk&after=1", nil, "HISTORY_EXPIRED")
	h.want(http.StatusBadRequest, http.MethodGet, talk+"?dialect=latin", nil, "BAD_PARAMETER")
	h.want(http.StatusBadRequest, http.MethodGet, talk+"?after=x", nil)
	h.want(http.StatusNotAcceptable, http.MethodGet, talk, http.Header{"Accept": {"application/json"}})
	h.get("/v1/events?session=talk&session=late&after=0.0&scope=session&types=text_delta&exclude=thinking&view=customer", "event: session:")
	h.get("/v1/events?session=talk&session=late&dialect=aisdk", "event: session:", `{"type":"start","messageId":"msg-`)
	h.want(http.StatusNotFound, http.MethodGet, "/v1/events?session=unknown", nil)
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/events", nil)
	h.want(http.StatusNotAcceptable, http.MethodGet, "/v1/events?session=talk", http.Header{"Accept": {"application/json"}})

	var end struct {
		StreamSequence chunk.Seq `json:"streamSequence"`
	}
	if err := json.Unmarshal([]byte(h.get("/v1/sessions/late/snapshot")), &end); err != nil {
		h.t.Fatal(err)
	}
	last := fmt.Sprint(end.StreamSequence)
	h.want(http.StatusNoContent, http.MethodGet, "/v1/sessions/late/events", http.Header{"Last-Event-Id": {last}})
	h.want(http.StatusNoContent, http.MethodGet, "/v1/sessions/late/events", http.Header{"X-Resume-From-Sequence": {last}, "X-Resume-At": {last}})
	h.want(http.StatusNoContent, http.MethodGet, "/v1/events?session=late", http.Header{"Last-Event-Id": {last}})
	h.want(http.StatusNoContent, http.MethodGet, "/v1/events?session=late", http.Header{"X-Resume-From-Sequence": {last}, "X-Resume-At": {last}})
}

// largeValue returns a value that is too large for a message.
func largeValue() chunk.Value { return chunk.Value(`"` + strings.Repeat("rows ", 120<<10) + `"`) }

// largePath returns the path of largeValue in the chunk of a type, in the first run of a session.
func largePath(session string, typ chunk.Type, member string) string {
	return values.URL(chunk.RootSession("default", session), values.NewKey(1, typ, member, largeValue()))
}

// readValues reads values that are too large for a message, which the records of two sessions refer to.
func (h *env) readValues() {
	h.t.Helper()
	rows, file := largePath("talk", chunk.TypeCustom, "data"), largePath("talk", chunk.TypeFile, "url")
	status, header, body := h.ask(http.MethodGet, rows, nil)
	if status != http.StatusOK || body != string(largeValue()) || header.Get("Content-Security-Policy") != "default-src 'none'; sandbox" || header.Get("X-Content-Type-Options") != "nosniff" {
		h.t.Errorf("%s: %d, %d bytes, %v", rows, status, len(body), header)
	}
	h.want(http.StatusNotModified, http.MethodGet, rows, http.Header{"If-None-Match": {header.Get("ETag")}})
	h.want(http.StatusPartialContent, http.MethodGet, rows, http.Header{"Range": {"bytes=1-4"}}, "rows")
	h.want(http.StatusRequestedRangeNotSatisfiable, http.MethodGet, rows, http.Header{"Range": {"bytes=9999999-"}})
	h.get(file+"?view=customer", string(largeValue()))
	h.want(http.StatusNotFound, http.MethodGet, rows+"?view=customer", nil, "VALUE_NOT_FOUND")
	h.get(largePath("kid-1", chunk.TypeCustom, "data")+"?root=talk", string(largeValue()))
	h.want(http.StatusNotFound, http.MethodGet, largePath("late", chunk.TypeCustom, "data"), nil, "VALUE_NOT_FOUND")

	for path, inline := range map[string]string{
		"/v1/sessions/talk/snapshot?": `"data":` + string(largeValue()), "/v1/sessions/talk/messages?": `"data":` + string(largeValue()),
		"/v1/sessions/talk/events?types=custom&": "", "/v1/events?session=talk&types=custom&": "",
	} {
		h.get(path+"inline=1048576", inline)
		if page := h.get(path + "inline=1024"); strings.Contains(page, string(largeValue())) {
			h.t.Errorf("%s: a value is inline that is larger than the client wants", path)
		}
	}
	h.want(http.StatusBadRequest, http.MethodGet, "/v1/sessions/talk/snapshot?inline=33554433", nil, "BAD_PARAMETER")
}

// erase deletes a session with a reader and a writer.
func (h *env) erase() {
	h.t.Helper()
	const busy = "/v1/sessions/busy"
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+busy+"/events", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	reader, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer reader.Body.Close()
	events := bufio.NewReader(reader.Body)
	first, err := firstEvent(events)
	if err != nil {
		h.t.Fatalf("%s, %v", first, err)
	}
	h.want(http.StatusForbidden, http.MethodDelete, busy, http.Header{"Origin": {"https://evil.example"}}, "CROSS_ORIGIN")
	h.want(http.StatusNoContent, http.MethodDelete, busy, nil)
	rest, err := io.ReadAll(events)
	if err != nil || !strings.Contains(string(rest), `data: {"type":"fail"`) {
		h.t.Errorf("reader got %s, %v; want the failure and a clean end", rest, err)
	}
	h.want(http.StatusNotFound, http.MethodDelete, busy, nil)
	h.want(http.StatusNotFound, http.MethodGet, busy+"/snapshot", nil)
	h.want(http.StatusNotFound, http.MethodGet, busy+"/messages", nil)
	h.want(http.StatusNotFound, http.MethodGet, busy+"/tree", nil)
	h.want(http.StatusNotFound, http.MethodGet, busy+"/events", nil)
	h.want(http.StatusNotFound, http.MethodGet, busy+"/events?after="+firstID(first), nil)
	if list := h.get("/v1/sessions"); strings.Contains(list, "busy") {
		h.t.Errorf("the deleted session is listed: %s", list)
	}
	h.want(http.StatusBadRequest, http.MethodDelete, "/v1/sessions/talk?forks=1", nil, "BAD_PARAMETER")
	h.want(http.StatusNoContent, http.MethodDelete, "/v1/sessions/talk?forks=0", nil)
	h.want(http.StatusNotFound, http.MethodGet, "/v1/sessions/kid-1/snapshot?root=talk", nil)
	h.want(http.StatusNotFound, http.MethodGet, largePath("talk", chunk.TypeCustom, "data"), nil, "VALUE_NOT_FOUND")
	h.want(http.StatusNotFound, http.MethodGet, largePath("kid-1", chunk.TypeCustom, "data")+"?root=talk", nil, "VALUE_NOT_FOUND")
}

// revoke revokes credentials on an edge that has a Revoker; that of h authenticates nothing, so it has none.
func (h *env) revoke() {
	h.t.Helper()
	store, err := jscredentials.New(h.JS, jscredentials.Config{})
	if err != nil {
		h.t.Fatal(err)
	}
	edge, err := httpedge.New(memlog.New(), unavailable{}, httpedge.Config{Authenticator: authtest.None(h.t, "default"), Revoker: store, Host: httpkit.LoopbackHost})
	if err != nil {
		h.t.Fatal(err)
	}
	server := httptest.NewServer(edge)
	defer server.Close()
	for path, id := range map[string]string{server.URL + "/v1/tokens/ID": "t1", server.URL + "/v1/subjects/ID/tokens": "auth0%7C1"} {
		h.want(http.StatusNotFound, http.MethodDelete, strings.TrimPrefix(strings.Replace(path, "ID", id, 1), server.URL), nil)
		h.want(http.StatusNoContent, http.MethodDelete, strings.Replace(path, "ID", id, 1), nil)
		h.want(http.StatusBadRequest, http.MethodDelete, strings.Replace(path, "ID", strings.Repeat("x", 256), 1), nil, "BAD_TOKEN_ID")
		h.want(http.StatusForbidden, http.MethodDelete, strings.Replace(path, "ID", id, 1), http.Header{"Origin": {"https://evil.example"}}, "CROSS_ORIGIN")
		h.want(http.StatusMethodNotAllowed, http.MethodPut, strings.Replace(path, "ID", id, 1), nil, "METHOD_NOT_ALLOWED")
		h.want(http.StatusMisdirectedRequest, http.MethodDelete, strings.Replace(path, "ID", id, 1), http.Header{"Host": {"evil.example"}}, "MISDIRECTED")
	}
	list, err := store.List(h.t.Context(), "default")
	if err != nil || len(list) != 2 {
		h.t.Errorf("the revocations are %+v, %v", list, err)
	}
}

func (h *env) readOps() {
	h.t.Helper()
	for _, url := range []string{"/healthz", h.ops + "/livez", h.ops + "/healthz", h.ops + "/readyz", h.ops + "/startupz", h.ops + "/metrics"} {
		h.get(url)
	}
}

// refusedEverywhere sends requests that every path rejects in the same way.
func (h *env) refusedEverywhere() {
	h.t.Helper()
	for _, operation := range h.doc.Operations("edge") {
		method, path, _ := strings.Cut(operation, " ")
		if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/tokens") || strings.HasPrefix(path, "/v1/subjects") { // see revoke
			continue
		}
		path = strings.Replace(path, "{id}", "old", 1)
		h.want(http.StatusMisdirectedRequest, method, path, http.Header{"Host": {"evil.example"}}, "MISDIRECTED")
		h.want(http.StatusMethodNotAllowed, http.MethodPut, path, nil, "METHOD_NOT_ALLOWED")
		if strings.Contains(path, "/old") {
			h.want(http.StatusBadRequest, method, strings.Replace(path, "old", "a%20b", 1), nil, "BAD_SESSION_ID")
		}
	}
}

// unavailable is a store on which every call fails.
type unavailable struct{}

var errUnavailable = errors.New("unavailable")

func (unavailable) Snapshot(context.Context, chunk.Session) (fold.Snapshot, error) {
	return fold.Snapshot{}, errUnavailable
}

func (unavailable) MessagePage(context.Context, chunk.Session, fold.PageQuery) (*fold.MessagePage, error) {
	return nil, errUnavailable
}

func (unavailable) SnapshotAt(context.Context, chunk.Session, chunk.Seq) (fold.Snapshot, error) {
	return fold.Snapshot{}, errUnavailable
}

func (unavailable) SnapshotAtCheckpoint(context.Context, chunk.Session, string) (fold.Snapshot, error) {
	return fold.Snapshot{}, errUnavailable
}

func (unavailable) OwnedByOther(context.Context, chunk.Session, string) (bool, error) {
	return false, errUnavailable
}

func (unavailable) Sessions(context.Context, string, projector.SessionQuery) (projector.SessionPage, error) {
	return projector.SessionPage{}, errUnavailable
}

func (unavailable) Value(context.Context, chunk.Session, string) ([]byte, string, error) {
	return nil, "", errUnavailable
}

func (unavailable) Forks(context.Context, chunk.Session) iter.Seq2[projector.SessionInfo, error] {
	return func(yield func(projector.SessionInfo, error) bool) { yield(projector.SessionInfo{}, errUnavailable) }
}

func (unavailable) DeleteBy(context.Context, chunk.Session, *chunk.Principal) error {
	return errUnavailable
}
func (unavailable) Revoke(context.Context, revocation.Revocation) error { return errUnavailable }

// refusedWhileDraining sends requests to a draining edge with an unavailable log.
func (h *env) refusedWhileDraining() {
	h.t.Helper()
	edge, err := httpedge.New(memlog.New(), unavailable{}, httpedge.Config{Authenticator: authtest.None(h.t, "default"), Sessions: unavailable{}, Eraser: unavailable{}, Revoker: unavailable{}})
	if err != nil {
		h.t.Fatal(err)
	}
	if err := edge.Drain(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	server := httptest.NewServer(edge)
	defer server.Close()
	for _, operation := range h.doc.Operations("edge") {
		method, path, _ := strings.Cut(operation, " ")
		if path == "/healthz" {
			continue
		}
		path = strings.NewReplacer("{id}", "s1", "{value}", values.NewKey(1, chunk.TypeCustom, "data", largeValue()).String()).Replace(path)
		if path == "/v1/events" {
			path += "?session=s1"
		}
		h.want(http.StatusServiceUnavailable, method, server.URL+path, nil)
	}
}

// refusedOverRate sends requests to an edge that has admitted the one request of the client.
func (h *env) refusedOverRate() {
	h.t.Helper()
	edge, err := httpedge.New(memlog.New(), unavailable{}, httpedge.Config{
		Authenticator: authtest.NewIssuer(h.t), Sessions: unavailable{}, Eraser: unavailable{}, Revoker: unavailable{}, Rates: httpkit.Rates{Address: httpkit.Rate{PerSecond: 1e-4, Burst: 1}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	server := httptest.NewServer(edge)
	defer server.Close()
	for _, path := range []string{"/v1/sessions", "/v1/sessions/s1/events"} { // refused requests for streams have a rate of their own
		h.want(http.StatusUnauthorized, http.MethodGet, server.URL+path, nil)
	}
	for _, p := range edge.Policies() {
		if !p.Public {
			h.want(http.StatusTooManyRequests, p.Method, server.URL+strings.Replace(p.Path, "{id}", "s1", 1)+"?session=s1", nil, "TOO_MANY_REQUESTS_OF_ADDRESS")
		}
	}
}

// notReady sends probes to a process that has not started.
func (h *env) notReady() {
	h.t.Helper()
	monitor := health.NewMonitor(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	unmet := []health.Condition{{Name: "hub", Met: func() bool { return false }}}
	server := httptest.NewServer(health.Probes{Started: unmet, Ready: unmet, Monitor: monitor}.Handler())
	defer server.Close()
	for _, path := range []string{"/readyz", "/startupz"} {
		h.want(http.StatusServiceUnavailable, http.MethodGet, server.URL+path, nil)
	}
}
