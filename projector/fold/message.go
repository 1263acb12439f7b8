package fold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// message is an entry of the history: a user input, or the output of one step of an answer.
type message struct {
	index    int // index in the session, from 0
	shown    int // index of the message it is shown in
	role     Role
	sealed   int // number of its parts before parts: those in stored segments, see history.seal
	parts    []part
	text     int         // number (from 1) of the part that receives text, 0 for none
	metadata chunk.Value // nil for none
	clientID string      // id that the client gave to its own message, "" for none
	children []Child     // sub-agents that it called
	first    chunk.Seq   // first and last record of the message
	last     chunk.Seq
	closed   bool // receives no more parts
}

// Child is a sub-agent that was called in the session. Its records are in the session of that name under the same root.
type Child struct {
	Session string
	Type    string
	CallID  string
	Status  ChildStatus
	Result  chunk.Value // nil while it is running
}

// ChildStatus is the status of a sub-agent according to the records of its parent.
type ChildStatus string

// The statuses of a sub-agent. It failed if its result has a member "error".
const (
	ChildRunning ChildStatus = "running"
	ChildEnded   ChildStatus = "ended"
	ChildFailed  ChildStatus = "failed"
)

// part is a piece of a message in one of three forms: text that may still grow, a tool call, or a complete JSON object.
type part struct {
	kind partKind
	text []byte // of text and reasoning; WTF-8
	open bool   // text may still be appended
	tool *ToolCall
	raw  chunk.Value
	meta chunk.Value // of text and reasoning: providerMetadata of the AI SDK, nil for none
}

type partKind uint8

const (
	rawPart partKind = iota // files, sources, data, step boundaries
	textPart
	reasoningPart
	toolPart
)

// hasOutcome reports whether the call is complete.
func (st CallState) hasOutcome() bool {
	return st == CallDone || st == CallFailed || st == CallDenied
}

// subagentTool is the prefix of the names of tools that are sub-agents. finishTool is the internal tool that carries the
// structured output; it is never shown.
const (
	subagentTool = "subagent__"
	finishTool   = "__finish__"
)

func isSubagent(toolName string) bool { return strings.HasPrefix(toolName, subagentTool) }

// isComplete reports whether no record can change m.
func (m *message) isComplete() bool {
	if !m.closed {
		return false
	}
	for i := range m.parts {
		if t := m.parts[i].tool; t != nil && !t.State.hasOutcome() {
			return false
		}
	}
	for i := range m.children {
		if m.children[i].Status == ChildRunning {
			return false
		}
	}
	return true
}

// clone copies everything that may change in place. The bytes of texts are shared, without spare capacity: an append to the
// clone reallocates.
func (m *message) clone() message {
	copied := *m
	parts := make([]part, len(m.parts))
	for i, p := range m.parts {
		p.text = slices.Clip(p.text)
		if p.tool != nil {
			t := *p.tool
			t.rawInput = slices.Clip(t.rawInput)
			p.tool = &t
		}
		parts[i] = p
	}
	copied.parts = parts
	copied.children = slices.Clone(m.children)
	return copied
}

// MessageID returns the id of the message with an index in the history of the session.
func MessageID(index int) string { return messagePrefix + strconv.Itoa(index) }

const messagePrefix = "msg-"

// IsHidden reports whether the metadata of a message of a user hides it from users: a member "hidden" that is true, or "true".
func IsHidden(metadata chunk.Value) bool {
	if !isObject(metadata) {
		return false
	}
	m, err := members(metadata)
	if err != nil {
		return false
	}
	flag := string(m["hidden"])
	return flag == "true" || flag == `"true"`
}
