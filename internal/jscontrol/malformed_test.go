package jscontrol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// externalWorker requests and handles runs with core NATS and docs/reference/commands.md only.
type externalWorker struct {
	*testing.T

	nc *nats.Conn
}

func (f externalWorker) ask(subject, data string, header ...string) *nats.Msg {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), limit)
	defer cancel()
	msg := nats.NewMsg(subject)
	msg.Data = []byte(data)
	for i := 0; i < len(header); i += 2 {
		msg.Header.Set(header[i], header[i+1])
	}
	answer, err := f.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		f.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// store publishes a message and returns the error code of the response, 0 for none.
func (f externalWorker) store(msg *nats.Msg, expected string) int {
	f.Helper()
	var header []string
	for name, values := range msg.Header {
		header = append(header, name, values[0])
	}
	if expected != "" {
		header = append(header, "Nats-Expected-Last-Subject-Sequence", expected)
	}
	var answer struct {
		Seq   uint64 `json:"seq"`
		Error struct {
			Code int `json:"err_code"`
		} `json:"error"`
	}
	data := f.ask(msg.Subject, string(msg.Data), header...).Data
	if err := json.Unmarshal(data, &answer); err != nil || (answer.Seq == 0) == (answer.Error.Code == 0) {
		f.Fatalf("%s: %s, %v", msg.Subject, data, err)
	}
	return answer.Error.Code
}

// last returns the body of the last message of a subject.
func (f externalWorker) last(stream, subject string) string {
	f.Helper()
	var answer struct {
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
	}
	data := f.ask("$JS.API.STREAM.MSG.GET."+stream, `{"last_by_subj":"`+subject+`"}`).Data
	if err := json.Unmarshal(data, &answer); err != nil {
		f.Fatalf("%s: %v", data, err)
	}
	return string(answer.Message.Data)
}

// next returns the next delivery of a consumer that is created as documented.
func (f externalWorker) next(stream, filter string) *nats.Msg {
	f.Helper()
	consumer := `{"stream_name":"` + stream + `","config":{"durable_name":"agent-support","name":"agent-support","filter_subject":"` + filter +
		`","ack_policy":"explicit","deliver_policy":"all","replay_policy":"instant","ack_wait":5000000000,"max_deliver":-1,"max_ack_pending":-1}}`
	answer := f.ask("$JS.API.CONSUMER.CREATE."+stream+".agent-support."+filter, consumer)
	if strings.Contains(string(answer.Data), `"error"`) {
		f.Fatalf("%s", answer.Data)
	}
	return f.ask("$JS.API.CONSUMER.MSG.NEXT."+stream+".agent-support", `{"batch":1,"expires":30000000000}`)
}

// A program that follows docs/reference/commands.md requests a run, handles it, stores answers and sets deadlines, alongside programs that use the packages.
func TestExternalWorker(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	queue := newQueue(t, js, QueueConfig{})
	box, err := NewInbox(js, InboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	f := externalWorker{t, srv.Conn(t)}
	docs := documented(t, "tr.commands.acme.support.s1")
	execute, regenerate := docs[0], docs[1]

	if code := f.store(execute, "0"); code != 0 {
		t.Fatalf("refused: %d", code)
	}
	if code := f.store(execute, "0"); code != 10071 { // replicas would respond that they have it
		t.Errorf("once more: %d", code)
	}
	if code := f.store(regenerate, "0"); code != 10071 {
		t.Errorf("another one: %d", code)
	}
	if got := f.last("TR_COMMANDS", execute.Subject); got != string(execute.Data) {
		t.Errorf("there is %s", got)
	}
	c, _, err := queue.Pending(t.Context(), session1, "support")
	if err != nil || c.RunID != control.ExecuteRunID(session1, "m-1") {
		t.Errorf("pending %+v, %v", c, err)
	}

	work := f.next("TR_COMMANDS", "tr.commands.*.support.*")
	if !bytes.Equal(work.Data, execute.Data) {
		t.Errorf("got %s", work.Data)
	}
	if err := work.Respond([]byte("+WPI")); err != nil {
		t.Fatal(err)
	}
	f.ask(work.Reply, "+ACK")
	wantPending(t, queue, "")

	// A call has one answer, whichever of the two programs stores it first.
	hints, err := f.nc.SubscribeSync("tr.inbox.acme.s1.s1.run-1.>")
	if err != nil {
		t.Fatal(err)
	}
	values := documented(t, "$KV.TR_INBOX.")
	if code := f.store(values[0], "0"); code != 0 {
		t.Fatalf("answer refused: %d", code)
	}
	if hint, err := hints.NextMsg(limit); err != nil || hint.Subject != strings.Replace(values[0].Subject, "$KV.TR_INBOX", "tr.inbox", 1) {
		t.Errorf("hint %+v, %v", hint, err)
	}
	if code := f.store(values[1], "0"); code != 10071 {
		t.Errorf("second answer: %d", code)
	}
	first := control.Answer{Session: session1, RunID: "run-1", CallID: "call_1", Kind: control.ClientResult, Result: chunk.Value("1")}
	answered, ok := errors.AsType[*control.AnsweredError](box.Answer(t.Context(), first))
	if !ok || string(answered.Answer.Result) != `{"city":"Bern"}` {
		t.Errorf("got %+v", answered)
	}
	if err := box.Stop(t.Context(), control.Stop{Session: session1, RunID: "run-1", Kind: control.StopAbort, Reason: "no", At: time.UnixMilli(1)}); err != nil {
		t.Fatal(err)
	}
	if got := f.last("KV_TR_INBOX", "$KV.TR_INBOX.acme.s1.s1.run-1.stop"); got != `{"version":1,"kind":"abort","reason":"no","at":1}` {
		t.Errorf("stop %s", got)
	}

	// Deadlines work in both directions; the documented one has passed.
	deadline := documented(t, "tr.deadlines.")[0]
	if code := f.store(deadline, ""); code != 0 {
		t.Fatalf("deadline refused: %d", code)
	}
	due := f.next("TR_DEADLINES", "tr.deadlines.due.*.support.*.*.*")
	if !bytes.Equal(due.Data, deadline.Data) || due.Subject != deadline.Header.Get("Nats-Schedule-Target") {
		t.Errorf("due %s %s", due.Subject, due.Data)
	}
	f.ask(due.Reply, "+ACK")
	wantNoDeadlines(t, js)

	// A worker that uses this package reads the same consumers.
	got := make(chan control.Command, 10)
	w := serve(t, queue, func(_ context.Context, c control.Command) error { got <- c; return nil })
	if code := f.store(regenerate, "0"); code != 0 {
		t.Fatalf("refused: %d", code)
	}
	if c := natstest.Receive(t, "the command", got); c.Replaces != "msg-1" {
		t.Errorf("got %+v", c)
	}
	if code := f.store(deadline, ""); code != 0 {
		t.Fatalf("deadline refused: %d", code)
	}
	w.stop(t)
}
