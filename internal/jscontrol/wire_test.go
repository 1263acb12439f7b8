package jscontrol

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	cejs "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/subjects"
)

func full() control.Command {
	metadata := chunk.Value(`{"n":123456789012345678901234567890}`)
	return control.Command{
		Kind: control.Execute, Session: chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"}, AgentType: "support", RunID: "run-1",
		Input: []chunk.InputMessage{
			{Content: "Where is my parcel? 📦"},
			{
				Content:         "half of an emoji: \xed\xa0\xbd",
				Files:           []chunk.InputFile{{URL: "https://example.org/a.png", MediaType: "image/png", Filename: new("a.png")}},
				Metadata:        &metadata,
				ClientMessageID: new("m-1"),
			},
		},
		Params: chunk.Value(`{"big":9007199254740993,"text":"\ud83d"}`),
		Issued: time.UnixMilli(1700000000123),
	}
}

// kinds is one full command of each kind.
func kinds() []control.Command {
	at := time.UnixMilli(1700000000123)
	session := chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"}
	null := chunk.Value("null")
	child := full()
	child.Replaces = "msg-3"
	child.Parent = &control.Parent{Session: "r1", AgentType: "boss", RunID: "run-0", CallID: "call 1 <💥>", ToolName: "subagent__support"}
	return []control.Command{
		full(), child,
		{Kind: control.Resume, Session: session, AgentType: "support", RunID: "run-2", Resumes: "run-1", Mode: "with_message", Input: full().Input, Params: null, Issued: at},
		{Kind: control.Abort, Session: session, AgentType: "support", RunID: "run-1", Reason: "changed my mind", Params: null, Issued: at},
		{Kind: control.Expire, Session: session, AgentType: "support", RunID: "run-1", Deadline: at.Add(time.Hour), Params: null, Issued: at},
	}
}

// The handler gets the published command, with every digit.
func TestRoundTrip(t *testing.T) {
	for _, want := range kinds() {
		msg, err := encode(subjects.Layout{}, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := control.DecodeBody(msg.Data, "acme", "support", "s1")
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// The CloudEvents SDK reads the message as an event.
func TestSDKReadsCommand(t *testing.T) {
	msg, err := encode(subjects.Layout{}, full())
	if err != nil {
		t.Fatal(err)
	}
	event, err := binding.ToEvent(context.Background(), cejs.NewMessage(msg))
	if err != nil {
		t.Fatal(err)
	}
	if event.Type() != "command.execute" || event.ID() != "execute/run-1" || event.Source() != "/acme/r1/s1" || !event.Time().Equal(full().Issued) {
		t.Errorf("the SDK reads %v", event)
	}
	if !bytes.Equal(event.Data(), msg.Data) || event.DataContentType() != "application/json" {
		t.Errorf("data %s as %s", event.Data(), event.DataContentType())
	}
}

func TestRefusedCommands(t *testing.T) {
	const subject = "tr.commands.acme.support.s1"
	good := `{"version":1,"kind":"execute","tenant":"acme","root":"s1","session":"s1","agentType":"support","runId":"r1","issued":1,"input":[{"content":"hi"}],"params":null}`
	if _, err := control.DecodeCommand(subjects.Layout{}, subject, []byte(good)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	tests := map[string]struct {
		subject, old, new string
		want              error
	}{
		"no JSON":               {subject, good, `{`, control.ErrMalformed},
		"another tenant":        {"tr.commands.evil.support.s1", "", "", control.ErrMalformed},
		"another session":       {subject, `"session":"s1"`, `"session":"s2"`, control.ErrMalformed},
		"another agent type":    {subject, `"agentType":"support"`, `"agentType":"billing"`, control.ErrMalformed},
		"a root with a space":   {subject, `"root":"s1"`, `"root":"a b"`, control.ErrMalformed},
		"no run":                {subject, `"runId":"r1"`, `"runId":""`, control.ErrMalformed},
		"no version":            {subject, `"version":1,`, ``, control.ErrMalformed},
		"input is a string":     {subject, `[{"content":"hi"}]`, `"hi"`, control.ErrMalformed},
		"content is a number":   {subject, `"content":"hi"`, `"content":7`, control.ErrMalformed},
		"a subject of a chunk":  {"tr.chunks.0.acme.s1.s1", "", "", control.ErrMalformed},
		"an expire":             {subject, `"kind":"execute"`, `"kind":"expire","deadline":1`, control.ErrMalformed},
		"a resume of nothing":   {subject, `"kind":"execute"`, `"kind":"resume"`, control.ErrMalformed},
		"a resume of itself":    {subject, `"kind":"execute"`, `"kind":"resume","resumes":"r1"`, control.ErrMalformed},
		"a parent without call": {subject, `"params":null`, `"params":null,"parent":{"session":"s","agentType":"a","runId":"r"}`, control.ErrMalformed},
		"a parent elsewhere":    {subject, `"params":null`, `"params":null,"parent":{"session":"s *","agentType":"a","runId":"r","callId":"c"}`, control.ErrMalformed},
		"a huge reason":         {subject, `"kind":"execute"`, `"kind":"abort","reason":"` + strings.Repeat("x", control.MaxReason+1) + `"`, control.ErrMalformed},
		"a newer version":       {subject, `"version":1`, `"version":2`, control.ErrUnsupported},
		"a newer kind":          {subject, `"kind":"execute"`, `"kind":"dream"`, control.ErrUnsupported},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data := strings.Replace(good, test.old, test.new, 1)
			if _, err := control.DecodeCommand(subjects.Layout{}, test.subject, []byte(data)); !errors.Is(err, test.want) {
				t.Errorf("err = %v, want %v", err, test.want)
			}
		})
	}
}

// Two commands have the same id only if they are the same command.
func TestIDsDoNotMeet(t *testing.T) {
	token := rapid.StringMatching(`[a-c_-]{1,3}`)
	command := rapid.Custom(func(t *rapid.T) control.Command {
		kind := rapid.SampledFrom([]control.CommandKind{control.Execute, control.Resume, control.Abort, control.Expire}).Draw(t, "kind")
		var deadline time.Time
		if kind == control.Expire {
			deadline = time.UnixMilli(rapid.Int64Range(1, 3).Draw(t, "deadline"))
		}
		return control.Command{Kind: kind, Deadline: deadline, Session: chunk.RootSession(token.Draw(t, "tenant"), token.Draw(t, "session")), RunID: token.Draw(t, "run")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := command.Draw(t, "a"), command.Draw(t, "b")
		if (a.ID() == b.ID()) != reflect.DeepEqual(a, b) {
			t.Fatalf("%q and %q", a.ID(), b.ID())
		}
	})
}

// For any message decode returns a command that encodes to the same command, or one of its two errors.
func FuzzDecode(f *testing.F) {
	msg, err := encode(subjects.Layout{}, full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg.Subject, msg.Data)
	f.Add("tr.commands.a.b.c", []byte(`{"version":1,"kind":"execute","tenant":"a","root":"c","session":"c","agentType":"b","runId":"r","input":null}`))
	f.Add("tr.commands.a.b.c", []byte(`{"version":1,"kind":"resume","resumes":"q","mode":"continue","tenant":"a","root":"c","session":"c","agentType":"b","runId":"r","input":null}`))
	f.Add("tr.commands.a.b.c", []byte(`{"version":1e999}`))
	f.Add("tr.commands.*.>.c", []byte(`null`))
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		c, err := control.DecodeCommand(subjects.Layout{}, subject, data)
		if err != nil {
			if !errors.Is(err, control.ErrMalformed) && !errors.Is(err, control.ErrUnsupported) {
				t.Fatalf("err = %v", err)
			}
			return
		}
		msg, err := encode(subjects.Layout{}, c)
		if err != nil {
			t.Fatalf("decoded, but cannot be encoded: %v", err)
		}
		again, err := control.DecodeCommand(subjects.Layout{}, msg.Subject, msg.Data)
		if err != nil || again.ID() != c.ID() || !reflect.DeepEqual(again.Input, c.Input) {
			t.Fatalf("again: %+v, %v", again, err)
		}
	})
}
