//go:build e2e && record

package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

var layout = subjects.Layout{Partitions: 2}

// TestRecord writes the archive.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	w := startEnv(t, binary(t), dir)
	r := &recorder{env: w, js: w.jetStream(t)}
	r.deadLetters(t)
	r.scenarios(t)
	r.crash(t)
	handled := w.read(t, durable, func(lines []string) bool { return len(lines) == 500 })
	r.chats(t)
	r.published(t)
	r.queue(t)
	w.awaitSaved(t)
	r.check(t, len(handled))
	r.js.Conn().Close()
	w.up.stop(t)
	packed, err := pack(dir, recorded{})
	if err != nil {
		t.Fatal(err)
	}

	// The answers are recorded from a copy, as the comparison uses one.
	again := t.TempDir()
	if err := unpack(bytes.NewReader(packed), again, &recorded{}); err != nil {
		t.Fatal(err)
	}
	w = startEnv(t, binary(t), again)
	want := recorded{Handled: handled}
	for _, a := range w.questions(t) {
		want.Answers = append(want.Answers, exchange{a, w.ask(t, a)})
	}
	want.Rest = w.rest(t, handled)
	if packed, err = pack(dir, want); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(archiveFile), 0o750), os.WriteFile(archiveFile, packed, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d answers, %d records handled and %d not, %d bytes", len(want.Answers), len(handled), len(want.Rest), len(packed))
}

type recorder struct {
	*env

	js jetstream.JetStream
}

func (w *env) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	i := slices.IndexFunc(w.vars, func(v string) bool { return strings.HasPrefix(v, "TAILRACE_NATS_PORT=") })
	_, port, _ := strings.Cut(w.vars[i], "=")
	return natstest.JetStream(t, "nats://127.0.0.1:"+port)
}

// chat posts a message and reads the answer to its end.
func (r *recorder) chat(t *testing.T, session, agent, id, text string, more ...string) {
	t.Helper()
	r.post(t, "/api/chat/"+session+"?agentType="+agent, message(id, text, more...), http.StatusOK)
}

func message(id, text string, more ...string) string {
	return fmt.Sprintf(`{%s"messages":[{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}]}`, strings.Join(more, ""), id, text)
}

// begin posts a message with a slow answer; the channel receives the error at its end.
func (r *recorder) begin(t *testing.T, session, agent, text string) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := r.request(t.Context(), http.MethodPost, ask{Path: "/api/chat/" + session + "?agentType=" + agent}, message("m-1", text))
		done <- err
	}()
	return done
}

func receive(t *testing.T, done <-chan error) {
	t.Helper()
	if err := natstest.Receive(t, "the end of an answer", done); err != nil {
		t.Fatal(err)
	}
}

// publish writes chunks with the command line.
func (r *recorder) publish(t *testing.T, session, lines string, args ...string) {
	t.Helper()
	got := r.command(t, strings.NewReader(lines), ask{Args: append([]string{"publish", "--session", session, "--fill", "--agent-type", "writer"}, args...)})
	if got.Code != 0 {
		t.Fatalf("publish to %s: %+v", session, got)
	}
}

// deadLetters writes messages that cannot be folded: a record with an invalid body, a malformed message, and one on an
// invalid subject.
func (r *recorder) deadLetters(t *testing.T) {
	t.Helper()
	s := chunk.RootSession("default", "poison")
	subject, err := layout.Subject(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range []string{
		`{"type":"text_delta","agentId":"poison","agentType":"t","timestamp":1,"delta":"good"}`,
		`{"type":"text_delta","delta":7}`,
		`{"type":"stream_end","agentId":"poison","agentType":"t","timestamp":2,"streamId":"poison"}`,
	} {
		m := codec.EncodeJSON(codec.Envelope{Session: s, Epoch: 1, Ordinal: chunk.Ordinal(i + 1)},
			codec.Header{Type: []chunk.Type{chunk.TypeTextDelta, chunk.TypeTextDelta, chunk.TypeStreamEnd}[i], Timestamp: 1}, []byte(body))
		r.put(t, &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data})
	}
	r.put(t, &nats.Msg{Subject: subject, Data: []byte("hello\x1b[2J")})
	r.put(t, &nats.Msg{Subject: names.Layout(layout).AllFilter(1)[:len("tr.chunks.1.")] + "default.no!session.x", Data: []byte("{}")})
	natstest.Eventually(t, "three dead letters", func(context.Context) error {
		if got := r.ask(t, ask{Args: []string{"deadletters", "list", "--json"}}); strings.Count(got.Body, "\n") != 3 {
			return errors.New(got.Body)
		}
		return nil
	})
}

func (r *recorder) put(t *testing.T, m *nats.Msg) {
	t.Helper()
	if _, err := r.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// scenarios runs all scenarios of the demo agent as JSON, and every second one also as msgpack.
func (r *recorder) scenarios(t *testing.T) {
	t.Helper()
	for format, step := range map[string]int{"json": 1, "msgpack": 2} {
		worker := r.start(t, "worker", "TAILRACE_DEMO=0", "TAILRACE_FORMAT="+format)
		for i := 0; i < len(script.Scenarios()); i += step {
			name := script.Scenarios()[i].Name
			r.chat(t, "demo-"+name+"-"+format, "demo", "m-1", name)
		}
		worker.stop(t)
	}
	worker := r.start(t, "worker", "TAILRACE_DEMO=0", "TAILRACE_PACE=0s") // each piece is a record
	r.chat(t, "pieces", "demo", "m-1", "plain")
	r.chat(t, "pieces", "demo", "m-2", "thinking")
	worker.stop(t)
}

// crash kills a worker of the demo in the second step or later, and one of the SDK in its first
// step.
func (r *recorder) crash(t *testing.T) {
	t.Helper()
	worker := r.start(t, "worker", "TAILRACE_DEMO=0.2")
	asked := r.begin(t, "crash", "demo", "tour")
	natstest.Eventually(t, "a step after a committed one", func(ctx context.Context) error {
		got := r.ask(t, ask{Path: "/v1/sessions/crash/snapshot?partial=1"})
		if strings.Count(got.Body, `"step-start"`) < 3 {
			return fmt.Errorf("%d %s", got.Code, got.Body)
		}
		return nil
	})
	worker.kill()
	worker = r.start(t, "worker", "TAILRACE_DEMO=0")
	receive(t, asked)
	r.await(t, "crash", "ended")
	worker.stop(t)
	if got := r.ask(t, ask{Path: "/v1/sessions/crash/events"}); !strings.Contains(got.Body, `"type":"truncated"`) || !strings.Contains(got.Body, `"mode":"takeover"`) {
		t.Fatalf("no cleanup of a takeover: %s", got.Body)
	}
	worker = r.assistant(t)
	asked = r.begin(t, "crash-sdk", "assistant", "hold, then crash")
	natstest.Receive(t, "an answer in the middle", r.model.waiting)
	worker.kill()
	worker = r.assistant(t)
	receive(t, asked)
	r.await(t, "crash-sdk", "ended")
	worker.stop(t)
}

// chats records conversations with agents on the SDK.
func (r *recorder) chats(t *testing.T) {
	t.Helper()
	worker := r.assistant(t)
	r.chat(t, "edited", "assistant", "m-1", "first")
	r.chat(t, "edited", "assistant", "m-2", "second")
	r.chat(t, "edited", "assistant", "m-2", "second", `"trigger":"regenerate-message","messageId":"msg-3",`)
	r.chat(t, "edited", "assistant", "m-2", "second, edited", `"trigger":"submit-message","messageId":"m-2",`)
	r.chat(t, "failed", "assistant", "m-1", "refuse")
	r.await(t, "failed", "failed")
	r.chat(t, "children", "assistant", "m-1", "count")
	r.await(t, "children", "ended")
	for session, reply := range map[string]string{"answered": `"result":{"city":"Bern"}`, "failed-tool": `"error":"no idea"`, "abandoned": "", openCall: ""} {
		r.chat(t, session, "assistant", "m-1", "where")
		r.await(t, session, "paused")
		if reply != "" {
			r.reply(t, session, reply)
			r.await(t, session, "ended")
		}
	}
	r.chat(t, "abandoned", "assistant", "m-2", "something else")
	r.await(t, "abandoned", "ended")
	for session, reply := range map[string]string{"granted": "true", "denied": `false,"reason":"not mine"`, openApproval: ""} {
		r.chat(t, session, "assistant", "m-1", "remove")
		r.await(t, session, "paused")
		if reply != "" {
			r.reply(t, session, `"kind":"approval-response","approved":`+reply)
			r.await(t, session, "ended")
		}
	}
	asked := r.begin(t, "stopped", "assistant", "hold, then stop")
	natstest.Receive(t, "an answer in the middle", r.model.waiting)
	r.post(t, "/api/chat/stopped/stop", `{"reason":"enough"}`, http.StatusAccepted)
	receive(t, asked)
	worker.stop(t)
}

// published records sessions of the command line: msgpack, a tree, a head and a message stored as objects, a deleted
// session.
func (r *recorder) published(t *testing.T) {
	t.Helper()
	const tree = `{"type":"run_started","runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Go!"}],"agentId":"a1"}
{"type":"text_delta","delta":"Hel","agentId":"a1"}
{"type":"subagent_start","subAgentType":"x","subSessionId":"kid-%[1]s","callId":"c1","agentId":"a1"}
{"type":"text_delta","delta":"child","agentId":"kid-%[1]s"}
{"type":"custom","eventName":"big","data":{"n":123456789012345678901234567890,"s":"\ud83d","f":1.50e+3},"agentId":"a1"}
{"type":"tool_start","toolCallId":"c2","toolName":"t","arguments":{"b":1,"a":[1,{"z":null}]},"agentId":"a1"}
{"type":"tool_end","toolCallId":"c2","toolName":"t","result":"é\u0000","agentId":"a1"}
{"type":"stream_end","finalOutput":{"ok":true},"streamId":"s","agentId":"a1"}
`
	for _, format := range []string{"json", "msgpack"} {
		r.publish(t, "cli-"+format, fmt.Sprintf(tree, format), "--format", format)
	}
	long := func(n int) string { return strings.Repeat("0123456789abcdef", n<<6) } // n KiB
	r.publish(t, "large", fmt.Sprintf(`{"type":"run_started","runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Much!"}]}
{"type":"state_patch","patches":[{"op":"add","path":"/a","value":%[1]q}]}
{"type":"state_patch","patches":[{"op":"add","path":"/b","value":%[1]q}]}
{"type":"text_delta","delta":%[1]q}
{"type":"text_delta","delta":%[1]q}
{"type":"text_delta","delta":%[1]q}
{"type":"stream_end","finalOutput":%[1]q,"streamId":"s"}
`, long(400)))
	r.publish(t, deleted, `{"type":"text_delta","delta":"nobody may read this"}`)
	if got, err := r.request(t.Context(), http.MethodDelete, ask{Path: "/v1/sessions/" + deleted}, ""); err != nil || got.Code != http.StatusNoContent {
		t.Fatalf("delete: %+v, %v", got, err)
	}
	r.publish(t, "after", `{"type":"text_delta","delta":"published behind the deleted session"}`)
}

// queue leaves two commands in the queue: a message of a chat, and one with parameters.
func (r *recorder) queue(t *testing.T) {
	t.Helper()
	got, err := r.request(t.Context(), http.MethodPost, ask{Path: "/api/chat/" + queuedChat + "?agentType=assistant", Until: ": stream-open"}, message("m-1", "Hello?"))
	if err != nil || got.Code != http.StatusOK {
		t.Fatalf("chat without a worker: %+v, %v", got, err)
	}
	q, err := jscontrol.NewQueue(r.js, jscontrol.QueueConfig{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Request(t.Context(), control.Command{
		Kind: control.Execute, Session: chunk.RootSession("default", queued), AgentType: "demo", RunID: "run-queued",
		Input: []chunk.InputMessage{{Content: "Play!"}}, Params: chunk.Value(`{"scenario":"approval"}`),
	}, 0); err != nil {
		t.Fatal(err)
	}
}

// check checks that the store has the required contents.
func (r *recorder) check(t *testing.T, handled int) {
	t.Helper()
	objects := 0
	for p := range layout.PartitionCount() {
		kv, err := r.js.KeyValue(t.Context(), names.Layout(layout).SnapshotsOf(p))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := kv.ListKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key := range keys.Keys() {
			if entry, err := kv.Get(t.Context(), key); err == nil && bytes.HasPrefix(entry.Value(), []byte(`{"object":`)) {
				t.Logf("an object: %s", key)
				objects++
			}
		}
	}
	if objects < 2 {
		t.Fatalf("%d values are objects, want a head and a message", objects)
	}
	for _, session := range []string{"demo-tour-msgpack", "cli-msgpack"} {
		subject, err := layout.Subject(chunk.RootSession("default", session))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := r.js.Stream(t.Context(), layout.Stream(layout.Partition(chunk.RootSession("default", session))))
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetLastMsgForSubject(t.Context(), subject)
		if err != nil || !strings.Contains(fmt.Sprint(m.Header), "msgpack") {
			t.Fatalf("%s is not stored as msgpack: %+v, %v", session, m, err)
		}
	}
	for p := range layout.PartitionCount() {
		stream, err := r.js.Stream(t.Context(), layout.Stream(p))
		if err != nil {
			t.Fatal(err)
		}
		c, err := stream.Consumer(t.Context(), durable)
		if err != nil {
			t.Fatal(err)
		}
		info := c.CachedInfo()
		t.Logf("partition %d has %d messages, %d handled in both", p, stream.CachedInfo().State.Msgs, handled)
		if info.AckFloor.Stream == 0 || info.NumPending == 0 || info.NumAckPending != 0 {
			t.Fatalf("the firehose of partition %d is not in the middle of the log: %+v", p, info)
		}
	}
}

// read runs a firehose until done is true, and returns the handled records as the command prints them, session by
// session.
func (w *env) read(t *testing.T, name string, done func(lines []string) bool) (lines []string) {
	t.Helper()
	js := w.jetStream(t)
	defer js.Conn().Close()
	reader, err := consumers.New(js, consumers.Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	firehose, err := reader.Firehose(consumers.FirehoseConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex // guards lines
	err = firehose.Run(ctx, func(_ context.Context, rec chunk.Record) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err() // without an acknowledgement
		case rec.Session.ID == deleted:
			return nil
		}
		lines = append(lines, fmt.Sprintf("{\"sequence\":%d,\"session\":%q,\"ordinal\":%d,\"epoch\":%d,\"chunk\":%s}\n", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Epoch, rec.Data))
		if done(lines) {
			cancel() // the handled records are acknowledged
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	slices.SortStableFunc(lines, bySession)
	return lines
}

// rest returns the records that the durable firehose has not handled.
func (w *env) rest(t *testing.T, handled []string) []string {
	t.Helper()
	js, last := w.jetStream(t), map[string]bool{}
	for p := range layout.PartitionCount() {
		stream, err := js.Stream(t.Context(), layout.Stream(p))
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetMsg(t.Context(), stream.CachedInfo().State.LastSeq)
		if err != nil {
			t.Fatal(err)
		}
		last[fmt.Sprintf(`{"sequence":%d,"session":%q,`, m.Sequence, m.Subject[strings.LastIndex(m.Subject, ".")+1:])] = true
	}
	all := w.read(t, "", func(lines []string) bool {
		for prefix := range last {
			if strings.HasPrefix(lines[len(lines)-1], prefix) {
				delete(last, prefix)
			}
		}
		return len(last) == 0
	})
	before := make(map[string]bool)
	for _, line := range handled {
		before[line] = true
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(line string) bool { return before[line] })
	if len(rest)+len(handled) != len(all) {
		t.Fatalf("%d records, %d handled, %d not", len(all), len(handled), len(rest))
	}
	return rest
}

// questions returns the requests about every listed session, and about sessions that are not listed.
func (w *env) questions(t *testing.T) []ask {
	t.Helper()
	list := ask{Path: "/v1/sessions?limit=200"}
	page := ask{Path: "/v1/sessions?limit=5"}
	all := []ask{
		{Path: "/v1/events?session=demo-tour-json&session=cli-msgpack&session=crash"},
		list, page, {Path: page.Path + "&before=" + memberIn(w.ask(t, page).Body, "before")}, {Path: "/v1/sessions?status=paused"}, {Path: "/v1/sessions?agentType=assistant"},
		{Edge: views, Path: list.Path},
		{Args: []string{"verify", "--all", "--json"}}, {Args: []string{"deadletters", "list", "--json"}}, {Args: []string{"deadletters", "list"}},
		{Args: []string{"deadletters", "show", "--all", "--json"}},
	}
	for _, match := range sessionID.FindAllStringSubmatch(w.ask(t, list).Body, -1) {
		all = append(all, w.about(t, match[1])...)
	}
	for _, session := range []string{deleted, queued, queuedChat, "nobody"} {
		for _, path := range []string{"/snapshot", "/events", "/messages", "/tree"} {
			all = append(all, ask{Path: "/v1/sessions/" + session + path})
		}
		all = append(all, ask{Path: "/api/chat/" + session + "/snapshot"})
	}
	return all
}

// about returns the requests about one session and its sub-agents.
func (w *env) about(t *testing.T, session string) []ask {
	t.Helper()
	snap, err := w.snapshot(t, session)
	if err != nil {
		t.Fatal(err)
	}
	path, chat := "/v1/sessions/"+session, "/api/chat/"+session
	until, untilTail := "", ""
	if snap.Status != "ended" && snap.Status != "failed" {
		until, untilTail = "id: "+snap.StreamSequence.String()+"-", `{"sequence":`+snap.StreamSequence.String()+","
	}
	events := ask{Path: path + "/events", Until: until}
	ids := sequenceLine.FindAllStringSubmatch(w.ask(t, events).Body, -1)
	first, middle := ids[0][1], ids[len(ids)/2][1]
	messages := ask{Path: path + "/messages?limit=2"}
	all := []ask{
		events, {Path: path + "/events?after=" + middle, Until: until}, {Path: path + "/events?scope=session", Until: until},
		{Edge: views, Path: path + "/events", Until: until}, {Edge: views, Path: path + "/events?view=support", Until: until},
		{Path: path + "/snapshot"}, {Path: path + "/snapshot?partial=1"}, {Path: path + "/snapshot?messages=1"}, {Path: path + "/snapshot?at=" + middle},
		{Path: path + "/snapshot?checkpoint=" + snap.CheckpointID},
		{Edge: views, Path: path + "/snapshot"}, {Edge: views, Path: path + "/snapshot?view=support"},
		messages, {Path: messages.Path + "&before=" + memberIn(w.ask(t, messages).Body, "before")}, {Edge: views, Path: messages.Path},
		{Path: path + "/tree"}, {Edge: views, Path: path + "/tree?view=support"},
		{Edge: seven, Path: "/agents/status?sessionId=" + session}, {Edge: seven, Path: "/agents/sse?sessionId=" + session, Until: until},
		{Path: chat + "/snapshot"}, {Path: chat + "/stream"}, {Path: chat + "/stream", Cursor: first}, {Path: chat + "/stream", Cursor: middle},
		{Edge: seven, Path: chat + "/stream", Cursor: first}, {Edge: seven, Path: chat + "/stream", Cursor: middle},
		{Args: []string{"tail", session}, Until: untilTail}, {Args: []string{"tail", session, "--after", middle}, Until: untilTail}, {Args: []string{"tail", session, "--scope", "session"}, Until: untilTail},
	}
	if until == "" { // a filtered stream has no last line to wait for
		all = append(all, ask{Path: path + "/events?types=text_delta,tool_start"}, ask{Path: path + "/events?exclude=thinking&agent=" + session},
			ask{Args: []string{"tail", session, "--types", "text_delta,stream_end"}})
	}
	for _, match := range sessionMember.FindAllStringSubmatch(w.ask(t, ask{Path: path + "/tree"}).Body, -1) {
		if child := "/v1/sessions/" + match[1]; child != path {
			for _, what := range []string{"/events?root=", "/snapshot?root=", "/messages?root="} {
				all = append(all, ask{Path: child + what + session})
			}
		}
	}
	return all
}

var (
	sequenceLine = regexp.MustCompile(`(?m)^id: (\d+)-\w+$`)
	sessionID    = regexp.MustCompile(`"root":"[^"]+","id":"([^"]+)"`)
)

// memberIn returns a text member of a page of a list.
func memberIn(body, name string) string {
	_, rest, _ := strings.Cut(body, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
