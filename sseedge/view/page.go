package view

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// page has the rules for what a browser loads: the JSON of a snapshot and its
// messages. They list what is shown, as a view does: a member is shown when
// everything that feeds it is, and one that is not named here never.
type page struct {
	snapshot *rule
	message  *rule
}

// Page is what is shown of the snapshot of s: its JSON as a browser gets it, on
// one line if it was.
func (l *Lens) Page(s chunk.Session, text []byte) ([]byte, error) {
	out, err := l.pageOf(s).snapshot.append(nil, text)
	if err != nil {
		return nil, fmt.Errorf("page of %s: %w", s, err)
	}
	return out, nil
}

// AgentTypes reports whether it is shown what agent a session is of. Who may not
// see it may not look for it either.
func (l *Lens) AgentTypes() bool { return l.root.agentType() }

// Message is what is shown of one message of s, and whether anything of it is.
func (l *Lens) Message(s chunk.Session, text []byte) ([]byte, bool, error) {
	picked, shown := l.pageOf(s).message.pick(text)
	if !shown {
		return nil, false, nil
	}
	out, err := picked.append(nil, text)
	if err != nil {
		return nil, false, fmt.Errorf("message of %s: %w", s, err)
	}
	return out, picked.keep(out), nil
}

func (l *Lens) pageOf(s chunk.Session) *page {
	if s.IsRoot() {
		return &l.rootPage
	}
	return &l.childPage
}

// fed is a member of a chunk that feeds a member of a page.
type fed struct {
	typ  chunk.Type
	path []string
}

func by(t chunk.Type, path ...string) fed { return fed{t, path} }

// allOf reports whether all of these are shown.
func (in sight) allOf(sources ...fed) bool {
	for _, f := range sources {
		if !in[f.typ].showsIfListed(f.path...) {
			return false
		}
	}
	return true
}

// open is an object of which these members are shown.
func open(names ...string) *rule {
	r := &rule{members: make(map[string]*rule), closed: true}
	for _, name := range names {
		r.members[name] = nil
	}
	return r
}

// blank puts something for a member unless it is shown.
func (r *rule) blank(name string, shown bool, instead string) {
	if !shown {
		r.members[name] = &rule{hidden: true, instead: []byte(instead)}
	}
}

// drop leaves a member out unless it is shown.
func (r *rule) drop(name string, shown bool) {
	if !shown {
		delete(r.members, name)
	}
}

var (
	toolInputs = []fed{
		by(chunk.TypeToolStart, "arguments"), by(chunk.TypeToolArgStreamDelta, "delta"),
		by(chunk.TypeToolApprovalRequest, "input"), by(chunk.TypeToolInputError, "partialInput"),
	}
	toolNames = []fed{
		by(chunk.TypeToolStart, "toolName"), by(chunk.TypeToolArgStreamStart, "toolName"), by(chunk.TypeToolEnd, "toolName"),
		by(chunk.TypeToolApprovalRequest, "toolName"), by(chunk.TypeToolApprovalResponse, "toolName"),
		by(chunk.TypeToolInputError, "toolName"), by(chunk.TypeToolOutputError, "toolName"),
	}
	checkpoints = []fed{
		by(chunk.TypeCheckpointCreated, "checkpointId"), by(chunk.TypeRunInterrupted, "checkpointId"),
		by(chunk.TypeStepCommitted, "checkpointId"), by(chunk.TypeStreamResync, "checkpointId"),
	}
	toolErrors = []fed{
		by(chunk.TypeToolEnd, "error"), by(chunk.TypeToolInputError, "error"), by(chunk.TypeToolOutputError, "error"),
	}
)

func (in sight) page() page {
	messages := in.messages()
	r := open("state", "messages", "streamSequence", "status", "checkpointId", "timestamp", "created", "began", "session", "children", "pendingCalls", "usage", "error",
		"chain", "run", "pastRuns", "structured", "errors", "before")
	r.members["messages"] = messages
	r.members["session"] = open("tenant", "root", "id", "agentType")
	r.members["session"].drop("agentType", in.agentType())
	r.members["children"] = in.children()
	r.members["pendingCalls"] = in.pendingCalls()
	r.blank("state", in.allOf(by(chunk.TypeStatePatch, "patches")), "null")
	r.blank("checkpointId", in.allOf(checkpoints...), "null")
	r.blank("usage", in.allOf(by(chunk.TypeStepEnd, "usage")), "{}")
	r.blank("error", in.allOf(by(chunk.TypeStreamFailed, "error"), by(chunk.TypeStreamFailed, "errorDetail")), `{"message":""}`)
	// Nearly every type says something about a run, and the chain is a hash of them
	// all: they are for those who see everything.
	for _, name := range []string{"chain", "run", "pastRuns"} {
		r.drop(name, in.everything())
	}
	r.drop("structured", in.allOf(by(chunk.TypeCustom, "eventName"), by(chunk.TypeCustom, "data")))
	r.drop("errors", in.allOf(by(chunk.TypeError), by(chunk.TypeRunStarted, "runId")))
	return page{snapshot: r, message: messages}
}

// everything reports whether nothing is hidden but what no view shows unasked.
func (in sight) everything() bool {
	for _, t := range chunk.Types() {
		for _, member := range shapesOf(t) {
			if t != chunk.TypeSuspensionMarker && !in.allOf(by(t, member.Name)) {
				return false
			}
		}
	}
	return true
}

// agentType reports whether no type hides who is speaking.
func (in sight) agentType() bool {
	for t := range in {
		if !in[t].shows("agentType") {
			return false
		}
	}
	return true
}

func (in sight) children() *rule {
	child := open("session", "type", "callId", "status", "result")
	child.drop("type", in.allOf(by(chunk.TypeSubagentStart, "subAgentType"), by(chunk.TypeSubagentEnd, "subAgentType")))
	child.drop("result", in.allOf(by(chunk.TypeSubagentEnd, "result")))
	shown := in[chunk.TypeSubagentStart] != nil && in[chunk.TypeSubagentEnd] != nil
	return &rule{pick: func([]byte) (*rule, bool) { return child, shown }}
}

func (in sight) pendingCalls() *rule {
	call := open("kind", "toolCallId", "toolName", "runId", "approvalId", "deadline", "input")
	call.blank("toolName", in.allOf(toolNames...), `""`)
	call.blank("input", in.allOf(toolInputs...), "null")
	call.drop("deadline", in.allOf(by(chunk.TypeToolApprovalRequest), by(chunk.TypeRunPaused), by(chunk.TypeSuspensionMarker)))
	call.drop("runId", in.allOf(by(chunk.TypeRunStarted, "runId")))
	return &rule{pick: func(object []byte) (*rule, bool) {
		of := chunk.TypeToolStart
		if word(object, "kind") == "approval" {
			of = chunk.TypeToolApprovalRequest
		}
		return call, in[of] != nil
	}}
}

// messages chooses by who speaks. A message of which no part is shown is left
// out: there is nothing to say, and clients refuse messages without parts.
func (in sight) messages() *rule {
	user := in.message(in.userPart)
	assistant := in.message(in.part())
	return &rule{pick: func(object []byte) (*rule, bool) {
		switch word(object, "role") {
		case "user":
			return user, true
		case "assistant":
			return assistant, true
		}
		return nil, false
	}}
}

func (in sight) message(part func(object []byte) (*rule, bool)) *rule {
	m := open("id", "role", "parts", "metadata")
	m.members["parts"] = &rule{pick: part}
	m.drop("metadata", in.allOf(by(chunk.TypeRunStarted, "input", "metadata")))
	m.keep = hasParts
	return m
}

func (in sight) userPart(object []byte) (*rule, bool) {
	switch word(object, "type") {
	case "text":
		return nil, in.allOf(by(chunk.TypeRunStarted, "input", "content"))
	case "file":
		return nil, in.allOf(by(chunk.TypeRunStarted, "input", "files"))
	}
	return nil, false
}

// part chooses the rule of an assistant's part by its type.
func (in sight) part() func(object []byte) (*rule, bool) {
	shown := map[string]bool{
		"text":            in.allOf(by(chunk.TypeTextDelta, "delta")),
		"reasoning":       in.allOf(by(chunk.TypeThinking, "content")),
		"file":            in.allOf(by(chunk.TypeFile)),
		"source-url":      in.allOf(by(chunk.TypeSourceURL)),
		"source-document": in.allOf(by(chunk.TypeSourceDocument)),
		"step-start":      in[chunk.TypeStepStart] != nil,
	}
	data := in.allOf(by(chunk.TypeCustom, "eventName"), by(chunk.TypeCustom, "data"))
	tools := in[chunk.TypeToolStart] != nil && in[chunk.TypeToolEnd] != nil
	tool := in.tool()
	return func(object []byte) (*rule, bool) {
		kind := word(object, "type")
		switch {
		case kind == "dynamic-tool":
			return tool, tools
		case strings.HasPrefix(kind, "data-"):
			return nil, data
		}
		return nil, shown[kind]
	}
}

func (in sight) tool() *rule {
	t := open("type", "toolName", "toolCallId", "state", "rawInput", "input", "output", "errorText", "approval", "providerExecuted")
	t.blank("toolName", in.allOf(toolNames...), `""`)
	t.drop("rawInput", in.allOf(toolInputs...))
	t.blank("input", in.allOf(toolInputs...), "null")
	t.blank("output", in.allOf(by(chunk.TypeToolEnd, "result")), "null")
	t.blank("errorText", in.allOf(toolErrors...), `""`)
	approval := open("id", "approved", "reason")
	approval.drop("reason", in.allOf(by(chunk.TypeToolApprovalResponse, "reason")))
	t.members["approval"] = approval
	t.drop("approval", in[chunk.TypeToolApprovalRequest] != nil && in[chunk.TypeToolApprovalResponse] != nil)
	return t
}

// word is a member of object that is a string, "" when there is none.
func word(object []byte, name string) (found string) {
	err := eachMember(object, func(n, _, value []byte) error {
		if string(n) == name && jsontext.Value(value).Kind() == '"' {
			text, err := jsontext.AppendUnquote(nil, value)
			found = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return found
}

func hasParts(message []byte) bool {
	has := false
	err := eachMember(message, func(name, _, value []byte) error {
		if string(name) == "parts" {
			return eachElement(value, func([]byte) error { has = true; return nil })
		}
		return nil
	})
	return err == nil && has
}
