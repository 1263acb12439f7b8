package agui

import (
	"hash/maphash"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// deprecated has the names of events before version 1.0.
var deprecated = map[string]string{
	"THINKING_START": "REASONING_START", "THINKING_END": "REASONING_END",
	"THINKING_TEXT_MESSAGE_START":   "REASONING_MESSAGE_START",
	"THINKING_TEXT_MESSAGE_CONTENT": "REASONING_MESSAGE_CONTENT",
	"THINKING_TEXT_MESSAGE_END":     "REASONING_MESSAGE_END",
}

// text translates an event of a message.
func (t *translator) text(e event) bool {
	kind := e.kind
	if now, ok := deprecated[kind]; ok {
		kind = now
	}
	a := e.by
	id := e.Or("messageId", "")
	delta, hasDelta := e.Text("delta")
	switch kind {
	case "TEXT_MESSAGE_START":
		return t.begin(a, id, e.Or("role", "assistant"))
	case "TEXT_MESSAGE_CONTENT":
		return hasDelta && t.content(a, id, delta)
	case "TEXT_MESSAGE_END":
		t.finish(a, id)
	case "TEXT_MESSAGE_CHUNK":
		if id == "" && a.chunkKind == "text" {
			id = a.chunkID
		}
		if a.chunkKind != "text" {
			if id == "" || !t.begin(a, id, e.Or("role", "assistant")) {
				return false
			}
			a.chunkKind, a.chunkID = "text", id
		}
		return delta == "" || t.content(a, id, delta)
	case "REASONING_START", "REASONING_MESSAGE_START":
		t.endThought(a)
		a.seen[id] = true
	case "REASONING_MESSAGE_CONTENT":
		return hasDelta && t.think(a, delta)
	case "REASONING_MESSAGE_CHUNK":
		a.chunkKind, a.chunkID = "reasoning", id
		return t.think(a, delta)
	case "REASONING_MESSAGE_END", "REASONING_END":
		t.endThought(a)
	default:
		return false
	}
	return true
}

// begin opens a message. Those that are not of the agent are kept as they are.
func (t *translator) begin(a *source, id, role string) bool {
	a.seen[id] = true
	if role != "assistant" {
		a.messages[id] = nil
		return false
	}
	a.messages[id] = &hashed{}
	a.messages[id].hash.SetSeed(t.hash.Seed())
	return true
}

// content writes a piece of text.
func (t *translator) content(a *source, id, delta string) bool {
	m, begun := a.messages[id]
	if begun && m == nil {
		return false
	}
	if delta == "" {
		return true
	}
	if m != nil {
		_, _ = m.hash.WriteString(delta) // it never fails
	}
	t.endThought(a)
	t.produce(a, id)
	a.Text(delta)
	return true
}

// finish closes a message, whose text is remembered: a MESSAGES_SNAPSHOT repeats it, maybe under another id.
func (t *translator) finish(a *source, id string) {
	if m := a.messages[id]; m != nil {
		t.texts[m.hash.Sum64()] = true
	}
	delete(a.messages, id)
}

func (t *translator) think(a *source, delta string) bool {
	if delta == "" {
		return true
	}
	t.produce(a, "")
	a.thinks = true
	a.Emit(chunk.Thinking{Content: delta})
	return true
}

func (t *translator) endThought(a *source) {
	if a.thinks {
		a.thinks = false
		a.Emit(chunk.Thinking{IsComplete: true})
	}
}

// closeChunk ends the message that chunk events continue, because e is of something else.
func (t *translator) closeChunk(e event) {
	switch e.kind {
	case "RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "REASONING_ENCRYPTED_VALUE", "SUBAGENT_STARTED":
		return
	case "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "MESSAGES_SNAPSHOT":
		for _, a := range t.all() {
			t.endChunk(a)
		}
		return
	}
	a := e.by
	continues := map[string]string{"TEXT_MESSAGE_CHUNK": "text", "TOOL_CALL_CHUNK": "tool", "REASONING_MESSAGE_CHUNK": "reasoning"}[e.kind]
	id := e.Or("messageId", "")
	if continues == "tool" {
		id = e.Or("toolCallId", "")
	}
	if continues == a.chunkKind && (id == "" || id == a.chunkID) {
		return
	}
	t.endChunk(a)
}

func (t *translator) endChunk(a *source) {
	switch a.chunkKind {
	case "text":
		t.finish(a, a.chunkID)
	case "tool":
		t.endArguments(a, a.chunkID, nil)
	case "reasoning":
		t.endThought(a)
	}
	a.chunkKind, a.chunkID = "", ""
}

// messagesSnapshot writes what a list of all messages has that the events before it did not: messages of the agent after the last one of the user, and their
// calls and results. Agents repeat the conversation at the end of a run.
func (t *translator) messagesSnapshot(e event) bool {
	list := e.Peek("messages")
	if rawjson.Kind(list) != '[' {
		return false
	}
	var turn []*dialect.Object
	for v := range rawjson.Elements(list) {
		m := dialect.Read(v)
		if role, _ := m.Text("role"); role == "user" {
			turn = turn[:0]
			continue
		}
		turn = append(turn, m)
	}
	for _, m := range turn {
		id, _ := m.Text("id")
		a := t.root
		if s := t.agents[m.Or("subagentRunId", "")]; s != nil {
			a = s
		}
		switch role, _ := m.Text("role"); role {
		case "assistant":
			t.snapshotMessage(a, id, m)
		case "tool":
			call, _ := m.Text("toolCallId")
			if c := a.calls[call]; c != nil && !c.ended {
				t.endCall(a, call, m)
			}
		}
	}
	return true
}

func (t *translator) snapshotMessage(a *source, id string, m *dialect.Object) {
	content, _ := m.Text("content")
	if !a.seen[id] && content != "" && !t.texts[maphash.String(t.hash.Seed(), content)] {
		a.seen[id] = true
		t.texts[maphash.String(t.hash.Seed(), content)] = true
		t.content(a, id, content)
	}
	for v := range rawjson.Elements(m.Peek("toolCalls")) {
		o := dialect.Read(v)
		f := o.Object("function")
		call, ok := o.Text("id")
		name, named := f.Text("name")
		if !ok || !named || a.calls[call] != nil {
			continue
		}
		t.produce(a, "")
		c := t.call(a, call, name)
		c.args = []byte(f.Or("arguments", ""))
		t.start(a, call)
	}
}
