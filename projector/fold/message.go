package fold

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Role says who speaks in a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// message is one entry of the history: an input of a person, or what one step
// of an answer said.
type message struct {
	index    int // its number in the session, from 0
	shown    int // index of the message it is shown in
	role     Role
	parts    []part
	text     int         // number (from 1) of the part that takes text, 0 for none
	metadata chunk.Value // nil for none
	clientID string      // id the client gave its own message, "" for none
	children []Child     // sub-agents it called
	first    chunk.Seq   // first and last record that made it
	last     chunk.Seq
	closed   bool // takes no further parts
}

// Child is a sub-agent that was called in the session. Its own records are in
// the session of that name under the same root.
type Child struct {
	Session string
	Type    string
	CallID  string
	Status  ChildStatus
	Result  chunk.Value // nil while it is at work
}

// ChildStatus says how a sub-agent stands, as far as its parent was told.
type ChildStatus string

// The statuses of a sub-agent. It failed when its result has a member "error".
const (
	ChildRunning ChildStatus = "running"
	ChildEnded   ChildStatus = "ended"
	ChildFailed  ChildStatus = "failed"
)

// part is one piece of a message, in one of three forms: text that may still
// grow, a tool call, or a JSON object that is complete as it is.
type part struct {
	kind partKind
	text []byte // of text and reasoning; WTF-8
	open bool   // text may still be appended
	tool *tool
	raw  chunk.Value
}

type partKind uint8

const (
	rawPart partKind = iota // files, sources, data, step boundaries
	textPart
	reasoningPart
	toolPart
)

type toolState string

const (
	inputStreaming    toolState = "input-streaming"
	inputAvailable    toolState = "input-available"
	approvalRequested toolState = "approval-requested"
	approvalResponded toolState = "approval-responded"
	outputAvailable   toolState = "output-available"
	outputError       toolState = "output-error"
	outputDenied      toolState = "output-denied"
)

// settled reports whether nothing is to come for the call any more.
func (st toolState) settled() bool {
	return st == outputAvailable || st == outputError || st == outputDenied
}

type tool struct {
	callID           string
	name             string
	state            toolState
	rawInput         []byte      // arguments so far, while they stream; WTF-8
	input            chunk.Value // nil: not known yet
	output           chunk.Value // of output-available
	errorText        string      // of output-error
	approval         *approval
	providerExecuted bool
}

type approval struct {
	id       string
	approved *bool // nil until it is decided
	reason   *string
}

// subagentTool begins the names of tools that are sub-agents, finishTool is the
// injected tool that carries the structured output and is never shown.
const (
	subagentTool = "subagent__"
	finishTool   = "__finish__"
)

func isSubagent(toolName string) bool { return strings.HasPrefix(toolName, subagentTool) }

// settled reports whether no record can change m any more.
func (m *message) settled() bool {
	if !m.closed {
		return false
	}
	for i := range m.parts {
		if t := m.parts[i].tool; t != nil && !t.state.settled() {
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

// clone copies what may change in place. The bytes of texts are shared, but
// with no room behind them: whoever appends to a clone gets its own.
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
