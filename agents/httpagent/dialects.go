package httpagent

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// bodies return what the endpoints of a dialect are posted for a turn.
var bodies = map[string]func(*workers.Turn) any{
	AGUI: aguiBody, AISDK: aisdkBody, Kortyx: kortyxBody, Mastra: mastraBody, Native: nativeBody,
}

// newTranslator returns a translator of a response, and whether there is one for the dialect.
func newTranslator(name string, r codec.Run) (codec.Translator, bool) {
	if name == Native {
		return newNativeTranslator(r), true
	}
	return dialects.NewTranslator(name, r)
}

// dialectNames returns the names of the dialects.
func dialectNames() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(bodies)), func(name string) bool {
		_, ok := newTranslator(name, codec.Run{})
		return !ok
	})
}

// aisdkBody returns what DefaultChatTransport posts, with the members that the page has added to its body.
func aisdkBody(t *workers.Turn) any {
	messages := aisdk.RequestMessages(t.Messages())
	var params map[string]json.RawMessage
	if err := json.Unmarshal(t.Params(), &params); err != nil {
		params = nil // not an object
	}
	body := make(map[string]any, len(params)+4)
	for name, value := range params {
		if name != "headers" { // see header
			body[name] = value
		}
	}
	body["id"], body["messages"], body["trigger"] = t.Session().ID, messages, "submit-message"
	delete(body, "messageId")
	if n := len(messages); n > 0 && messages[n-1].Role == "assistant" {
		body["messageId"] = messages[n-1].ID // the message that the answer continues
		return body
	}
	switch replaced, answer := t.Replaces(); {
	case len(replaced) == 0:
	case slices.EqualFunc(replaced, t.Input(), sameContent):
		body["trigger"], body["messageId"] = "regenerate-message", answer
	default: // the user has edited it
		body["messageId"] = messages[len(messages)-1].ID
	}
	return body
}

func sameContent(a, b chunk.InputMessage) bool {
	file := func(a, b chunk.InputFile) bool { return a.URL == b.URL && a.MediaType == b.MediaType }
	data := func(a, b chunk.InputData) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }
	return a.Content == b.Content && slices.EqualFunc(a.Files, b.Files, file) && slices.EqualFunc(a.Data, b.Data, data)
}

// kortyxBody returns what the chat routes of Kortyx take: the texts of the conversation. They have no messages with tools.
func kortyxBody(t *workers.Turn) any {
	type message struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []message{}
	for _, m := range t.Messages() {
		text := m.Text()
		if m.Role == fold.User {
			text = m.TextAndData()
		}
		if text != "" {
			messages = append(messages, message{m.ID(), string(m.Role), text})
		}
	}
	return struct {
		SessionID string    `json:"sessionId"`
		Stream    bool      `json:"stream"`
		Messages  []message `json:"messages"`
	}{t.Session().ID, true, messages}
}

// nativeBody returns the body for an endpoint that writes chunks of the log.
func nativeBody(t *workers.Turn) any {
	s := t.Session()
	return struct {
		Tenant    string            `json:"tenant"`
		Root      string            `json:"root"`
		Session   string            `json:"session"`
		AgentType string            `json:"agentType"`
		RunID     string            `json:"runId"`
		Step      int               `json:"step"`
		Messages  []aisdk.UIMessage `json:"messages"`
		State     json.RawMessage   `json:"state"`
		Params    json.RawMessage   `json:"params,omitempty"`
	}{
		Tenant: s.Tenant, Root: s.Root, Session: s.ID, AgentType: t.AgentType(), RunID: t.RunID(), Step: t.Steps(),
		Messages: aisdk.RequestMessages(t.Messages()), State: json.RawMessage(t.State()), Params: json.RawMessage(t.Params()),
	}
}
