package aisdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
)

// CS-8 to CS-12: messages of a user become inputs.
func TestInput(t *testing.T) {
	big := strings.Repeat("x", 65_536)
	metadata := func(v string) string {
		return `{"id":"u","role":"user","parts":[{"type":"text","text":"a"}],"metadata":` + v + `}`
	}
	for _, row := range []struct {
		rule, members, message, want string
	}{
		{"CS-8: texts are joined by a line break, files are kept, other parts are dropped", "",
			`{"id":"u","role":"user","parts":[{"type":"text","text":"a"},{"type":"data-x","data":1},{"type":"file","url":"https://f","mediaType":"image/png","filename":"f"},{"type":"text","text":"b"}]}`,
			`{"content":"a\nb","files":[{"url":"https://f","mediaType":"image/png","filename":"f"}],"metadata":null,"client":"u"}`},
		{"CS-9: the session's metadata where the message has none", `,"metadata":{"k":"v"}`, posttest.User("u", "a"), `{"content":"a","files":null,"metadata":{"k":"v"},"client":"u"}`},
		{"CS-9: the message's own metadata takes precedence", `,"metadata":{"k":"v"}`, metadata(`{"own":1}`), `{"content":"a","files":null,"metadata":{"own":1},"client":"u"}`},
		{"CS-10: metadata over the budget is dropped, and not replaced", `,"metadata":{"k":"v"}`, metadata(`{"k":"` + big + `"}`), `{"content":"a","files":null,"metadata":null,"client":"u"}`},
		{"CS-10: white space does not count", "", metadata(`{"k":   1}`), `{"content":"a","files":null,"metadata":{"k":1},"client":"u"}`},
		{"CS-11: hidden is metadata", "", metadata(`{"hidden":true}`), `{"content":"a","files":null,"metadata":{"hidden":true},"client":"u"}`},
	} {
		t.Run(row.rule, func(t *testing.T) {
			body, err := ParseChatInput([]byte(posttest.Body(row.members, row.message)))
			if err != nil {
				t.Fatal(err)
			}
			in := body.Messages[0]
			got, err := json.Marshal(struct {
				Content  string            `json:"content"`
				Files    []chunk.InputFile `json:"files"`
				Metadata *chunk.Value      `json:"metadata"`
				Client   *string           `json:"client"`
			}{in.Content, in.Files, in.Metadata, in.ClientMessageID})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(row.want, `,"Extra":null`, "")
			if strings.ReplaceAll(string(got), `,"Extra":null`, "") != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// CV-15: of two messages the one with too much metadata goes without.
func TestMetadataBudgetIsPerMessage(t *testing.T) {
	exact := `{"k":"` + strings.Repeat("x", MaxInputMetadata-8) + `"}`
	over := `{"k":"` + strings.Repeat("x", MaxInputMetadata-7) + `"}`
	message := func(id, meta string) string {
		return `{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"x"}],"metadata":` + meta + `}`
	}
	in, err := ParseChatInput([]byte(posttest.Body("", message("u1", over), message("u2", exact))))
	if err != nil {
		t.Fatal(err)
	}
	if in.Messages[0].Metadata != nil || in.Messages[1].Metadata == nil || in.DroppedMetadata != 1 {
		t.Errorf("got %t, %t and %d dropped", in.Messages[0].Metadata != nil, in.Messages[1].Metadata != nil, in.DroppedMetadata)
	}
}

// The other members of a body are for the agent, but for headers, and are bounded.
func TestOtherMembers(t *testing.T) {
	big := `,"big":"` + strings.Repeat("x", MaxInputParams) + `"`
	for members, want := range map[string]string{
		"": "", `,"headers":{"authorization":"x"}`: "",
		`,"model":"large","switches":{"search":true},"n":12345678901234567890`: `{"model":"large","n":12345678901234567890,"switches":{"search":true}}`,
		`,"model":"large","headers":{}`:                                        `{"model":"large"}`, big: "error",
	} {
		in, err := ParseChatInput([]byte(posttest.Body(members, posttest.User("u", "a"))))
		if want == "error" {
			if err == nil || !strings.Contains(err.Error(), "64 KiB") {
				t.Errorf("%.40s: %v", members, err)
			}
			continue
		}
		if err != nil || string(in.Params) != want {
			t.Errorf("%s: %s, %v; want %s", members, in.Params, err, want)
		}
	}
}

// A mode of a message is not a parameter, and any other value of the member is.
func TestModeOfAMessage(t *testing.T) {
	for value, want := range map[string]string{
		`"queue"`: "queue", `"steer"`: "steer", `"interrupt"`: "interrupt", `"fast"`: `{"mode":"fast"}`, `["steer"]`: `{"mode":["steer"]}`,
	} {
		in, err := ParseChatInput([]byte(posttest.Body(`,"mode":`+value, posttest.User("u", "a"))))
		if got := string(in.Mode) + string(in.Params); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", value, got, err, want)
		}
	}
}

// Data parts of a user are values of a message, which may have nothing else, and are bounded together.
func TestDataPartsOfUsers(t *testing.T) {
	part := func(name, id, data string) string {
		return `{"type":"data-` + name + `"` + id + `,"data":` + data + `}`
	}
	half := `"` + strings.Repeat("x", MaxInputData/2) + `"`
	for parts, want := range map[string]string{
		part("place", `,"id":"d1"`, `{ "lat": 46.9 }`) + "," + part("place", "", "null"): `place d1 {"lat":46.9};place - null;`,
		`{"type":"text","text":"x"},` + part("a", "", "1"):                               `a - 1;`,
		part("a", "", half):                             `a - ` + half + `;`,
		part("a", "", half) + "," + part("a", "", half): "64 KiB",
		part("", "", "1"):                               "id",
		`{"type":"data-a"}`:                             "no data",
		part("a", `,"id":"`+half[1:], "1"):              "id",
		`{"type":"other"}`:                              "neither",
		part("a", "", strings.Repeat("[", 2000)+strings.Repeat("]", 2000)): "stored",
	} {
		in, err := ParseChatInput([]byte(posttest.Body("", `{"id":"u","role":"user","parts":[`+parts+`]}`)))
		var got strings.Builder
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.80s: %v, want %.80s", parts, err, want)
			}
			continue
		}
		for _, d := range in.Messages[0].Data {
			id := "-"
			if d.ID != nil {
				id = *d.ID
			}
			fmt.Fprintf(&got, "%s %s %s;", d.Name, id, d.Data)
		}
		if got.String() != want {
			t.Errorf("%.80s: %.80s, want %.80s", parts, &got, want)
		}
	}
}

// A body without messages may have one text, so that a user with curl can talk. In a body with messages the text is a parameter of the application.
func TestTextOfABodyWithoutMessages(t *testing.T) {
	for body, want := range map[string]string{
		`{"text":"Hi \"you\" é","agentType":"a","mode":"queue","lang":"fr"}`: `Hi "you" é; {"lang":"fr"} queue`,
		`{"text":"Hi","metadata":{"k":1}}`:                                   `Hi; null  {"k":1}`,
		`{"text":"Hi","messages":[` + posttest.User("u", "a") + `]}`:         `a; {"text":"Hi"} `,
		`{"text":"Hi","messages":[]}`:                                        `want messages, at least one and at most 10000, or one text: {"text": "Hello"}`,
		`{"text":5}`:                                                         `want messages, at least one and at most 10000, or one text: {"text": "Hello"}`,
		`{"prompt":"Hi"}`:                                                    `want messages, at least one and at most 10000, or one text: {"text": "Hello"}`,
		`{"text":" "}`:                                                       `a message of a user has neither text nor files nor data`,
	} {
		in, err := ParseChatInput([]byte(body))
		var got string
		switch {
		case err != nil:
			got = err.Error()
		case len(in.Messages) != 1:
			t.Errorf("%s: %d messages", body, len(in.Messages))
			continue
		default:
			got = fmt.Sprintf("%s; %s %s", in.Messages[0].Content, in.Params, in.Mode)
			if m := in.Messages[0].Metadata; m != nil {
				got += " " + string(*m)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
