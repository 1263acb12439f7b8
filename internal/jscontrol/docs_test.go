package jscontrol

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
)

// documented returns the messages in docs/reference/commands.md with this prefix of the subject.
func documented(t *testing.T, prefix string) []*nats.Msg {
	t.Helper()
	doc, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []*nats.Msg
	for _, block := range strings.Split(string(doc), "```text\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```")
		head, data, ok := strings.Cut(block, "\n\n")
		lines := strings.Split(head, "\n")
		if !ok || !strings.HasPrefix(lines[0], prefix) {
			continue
		}
		msg := &nats.Msg{Subject: lines[0], Data: []byte(data), Header: nats.Header{}}
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			msg.Header[name] = []string{value}
		}
		all = append(all, msg)
	}
	return all
}

// The commands in docs/reference/commands.md are valid and equal the encoded commands.
func TestDocumentedCommands(t *testing.T) {
	var kinds []control.CommandKind
	for _, msg := range documented(t, "tr.commands.") {
		c, err := control.DecodeCommand(subjects.Layout{}, msg.Subject, msg.Data)
		if err != nil {
			t.Errorf("%v in %s", err, msg.Data)
			continue
		}
		kinds = append(kinds, c.Kind)
		got, err := encode(subjects.Layout{}, c)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, got, msg)
	}
	if want := []control.CommandKind{control.Execute, control.Execute, control.Execute, control.Resume, control.Abort}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("documented are %v, want %v", kinds, want)
	}
}

// The deadline in docs/reference/commands.md is the message that PublishAt stores, and the message that the server creates from it is valid.
func TestDocumentedDeadline(t *testing.T) {
	all := documented(t, "tr.deadlines.")
	if len(all) != 1 {
		t.Fatalf("%d deadlines are documented", len(all))
	}
	due := all[0].Header.Get("Nats-Schedule-Target")
	c, err := control.DecodeDeadline(subjects.Layout{}, due, all[0].Data)
	if err != nil {
		t.Fatalf("%v in %s", err, all[0].Data)
	}
	got, err := encodeDeadline(subjects.Layout{}, c)
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, got, all[0])
	if _, err := streamtest.Start(t).JetStream(t).PublishMsg(t.Context(), all[0]); err != nil {
		t.Errorf("the server says %v", err)
	}
}

func wantSame(t *testing.T, got, want *nats.Msg) {
	t.Helper()
	if got.Subject != want.Subject || !reflect.DeepEqual(got.Header, want.Header) {
		t.Errorf("we write %s %v\ndocumented is %s %v", got.Subject, got.Header, want.Subject, want.Header)
	}
	if !bytes.Equal(got.Data, want.Data) {
		t.Errorf("we write\n%s\ndocumented is\n%s", got.Data, want.Data)
	}
}

// The ids in docs/reference/commands.md equal those of package control, and so do ids that are built as the document says.
func TestDocumentedRunIDs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	s := chunk.RootSession("acme", "s1")
	first := control.ExecuteRunID(s, "m-1")
	for row, id := range map[string]string{
		"| answers a message ": first, "| regenerates ": control.RegenerateRunID(s, "msg-1", first), "| resumes ": control.ResumeRunID(first),
	} {
		_, rest, ok := strings.Cut(string(doc), row)
		line, _, _ := strings.Cut(rest, "\n")
		if !ok || !strings.Contains(line, id) {
			t.Errorf("%s: %q, want %s in it", row, line, id)
		}
	}
}

// The table of members in docs/reference/commands.md is complete.
func TestDocumentedMembers(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range kinds() {
		msg, err := encodeTo("", c)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(msg.Data, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !strings.Contains(string(doc), "`"+name+"`") {
				t.Errorf("docs/reference/commands.md does not say what %q is", name)
			}
		}
	}
}
