package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// page has the rules for the JSON of a snapshot and its messages. They list what is shown, as a view does: a member is shown if all chunk members that it is
// made from are shown, and a member that is not named here is hidden.
type page struct {
	snapshot *rule
	message  *rule
	listed   *rule
}

// Snapshot returns what is shown of the snapshot of s, on one line if text is on one line.
func (c *Compiled) Snapshot(s chunk.Session, text []byte) ([]byte, error) {
	return c.pageOf(s).snapshot.pageOf(s, text)
}

// Listed returns what is shown of the row of s in a list.
func (c *Compiled) Listed(s chunk.Session, text []byte) ([]byte, error) {
	return c.pageOf(s).listed.pageOf(s, text)
}

// Lists reports whether a member of the row of a root session is shown. Clients that do not see it must not be able to search for it.
func (c *Compiled) Lists(path ...string) bool {
	return c == nil || c.rootPage.listed.shows(path...)
}

func (r *rule) pageOf(s chunk.Session, text []byte) ([]byte, error) {
	if err := check(text); err != nil {
		return nil, fmt.Errorf("page of %s: %w", s, err)
	}
	return r.append(nil, text), nil
}

// Message returns what is shown of one message of s, and whether any part of it is shown.
func (c *Compiled) Message(s chunk.Session, text []byte) ([]byte, bool, error) {
	picked, visible := c.pageOf(s).message.selectRule(text)
	if !visible {
		return nil, false, nil
	}
	if err := check(text); err != nil {
		return nil, false, fmt.Errorf("message of %s: %w", s, err)
	}
	out := picked.append(nil, text)
	return out, picked.accept(out), nil
}

func (c *Compiled) pageOf(s chunk.Session) *page {
	if s.IsRoot() {
		return &c.rootPage
	}
	return &c.childPage
}

// source is a member of a chunk that a member of a page is made from.
type source struct {
	typ  chunk.Type
	path []string
}

func fromMember(t chunk.Type, path ...string) source { return source{t, path} }

// allOf reports whether all sources are shown.
func (in ruleSet) allOf(sources ...source) bool {
	return !slices.ContainsFunc(sources, func(f source) bool { return !in[f.typ].showsIfListed(f.path...) })
}

// open returns a rule for an object with these visible members.
func open(names ...string) *rule {
	r := &rule{members: make(map[string]*rule), closed: true}
	for _, name := range names {
		r.members[name] = nil
	}
	return r
}

// blank replaces a member unless it is shown.
func (r *rule) blank(name string, shown bool, instead string) {
	if !shown {
		r.members[name] = &rule{hidden: true, replacement: []byte(instead)}
	}
}

// drop leaves a member out unless it is shown.
func (r *rule) drop(name string, shown bool) {
	if !shown {
		delete(r.members, name)
	}
}

var (
	toolInputs = []source{
		fromMember(chunk.TypeToolStart, "arguments"), fromMember(chunk.TypeToolApprovalRequest, "input"), fromMember(chunk.TypeToolInputError, "partialInput"),
	}
	toolInputPieces = fromMember(chunk.TypeToolArgStreamDelta, "delta")

	toolNames = []source{
		fromMember(chunk.TypeToolStart, "toolName"), fromMember(chunk.TypeToolArgStreamStart, "toolName"), fromMember(chunk.TypeToolEnd, "toolName"),
		fromMember(chunk.TypeToolApprovalRequest, "toolName"), fromMember(chunk.TypeToolApprovalResponse, "toolName"),
		fromMember(chunk.TypeToolInputError, "toolName"), fromMember(chunk.TypeToolOutputError, "toolName"),
	}
	subAgentTypes = []source{fromMember(chunk.TypeSubagentStart, "subAgentType"), fromMember(chunk.TypeSubagentEnd, "subAgentType")}

	checkpoints = []source{
		fromMember(chunk.TypeCheckpointCreated, "checkpointId"), fromMember(chunk.TypeRunInterrupted, "checkpointId"),
		fromMember(chunk.TypeStepCommitted, "checkpointId"), fromMember(chunk.TypeStreamResync, "checkpointId"),
	}
	toolErrors = []source{
		fromMember(chunk.TypeToolEnd, "error"), fromMember(chunk.TypeToolInputError, "error"), fromMember(chunk.TypeToolOutputError, "error"),
	}
)

func (in ruleSet) page() page {
	messages := byRole(in.userMessage(), in.answer(in.part()))
	r := open("state", "messages", "streamSequence", "status", "checkpointId", "timestamp", "created", "began", "session", "children", "pendingCalls", "usage", "error",
		"chain", "run", "pastRuns", "origin", "structured", "errors", "before")
	r.members["messages"] = messages
	r.members["session"] = open("tenant", "root", "id", "agentType", "owner")
	r.members["session"].drop("agentType", in.agentType())
	r.members["session"].drop("owner", in.allOf(fromMember(chunk.TypeRunStarted, "by", "subject")))
	r.members["children"] = in.children()
	r.members["pendingCalls"] = in.pendingCalls()
	r.blank("state", in.allOf(fromMember(chunk.TypeStatePatch, "patches")), "null")
	r.blank("checkpointId", in.allOf(checkpoints...), "null")
	r.blank("usage", in.allOf(fromMember(chunk.TypeStepEnd, "usage")), "{}")
	r.blank("error", in.allOf(fromMember(chunk.TypeStreamFailed, "error"), fromMember(chunk.TypeStreamFailed, "errorDetail")), `{"message":""}`)
	// Nearly every type contributes to a run, the chain is a hash of all records, and the origin names another session: they are shown only by a view that hides nothing.
	for _, name := range []string{"chain", "run", "pastRuns", "origin"} {
		r.drop(name, in.everything())
	}
	r.drop("structured", in.events())
	r.drop("errors", in.allOf(fromMember(chunk.TypeError), fromMember(chunk.TypeRunStarted, "runId")))
	return page{snapshot: r, message: messages, listed: in.listed(r.members["session"])}
}

// listed returns the rule of a row in a list, with that of its session.
func (in ruleSet) listed(session *rule) *rule {
	r := open("session", "status", "streamSequence", "created", "began", "timestamp", "title", "runs", "messages", "usage", "cost", "currency", "costAtLeast", "failedCalls",
		"error", "waits")
	r.members["session"] = session
	r.drop("title", in.allOf(fromMember(chunk.TypeRunStarted, "input", "content")))
	r.drop("runs", in.allOf(fromMember(chunk.TypeRunStarted, "runId")))
	r.drop("messages", in.everything())
	used := in.allOf(fromMember(chunk.TypeStepEnd), fromMember(chunk.TypeRunStarted, "model"), fromMember(chunk.TypeRunStarted, "provider"))
	for _, name := range []string{"usage", "cost", "currency", "costAtLeast"} {
		r.drop(name, used)
	}
	r.drop("failedCalls", in.allOf(toolErrors...))
	r.drop("error", in.allOf(toolErrors...) && in.allOf(toolNames...) && in.allOf(fromMember(chunk.TypeStreamFailed), fromMember(chunk.TypeError)))
	r.drop("waits", in[chunk.TypeToolApprovalRequest] != nil && in[chunk.TypeToolStart] != nil)
	return r
}

// everything reports whether all types are shown, except those that a view must name.
func (in ruleSet) everything() bool {
	for _, t := range chunk.Types() {
		for _, member := range shapesOf(t) {
			if t != chunk.TypeSuspensionMarker && !in.allOf(fromMember(t, member.Name)) {
				return false
			}
		}
	}
	return true
}

// agentType reports whether no type hides the agent type.
func (in ruleSet) agentType() bool {
	for t := range in {
		if !in[t].shows("agentType") {
			return false
		}
	}
	return true
}

func (in ruleSet) children() *rule {
	child := open("session", "type", "callId", "status", "result")
	child.drop("type", in.allOf(subAgentTypes...))
	result := in.visibilityOf(fromMember(chunk.TypeSubagentEnd, "result"))
	child.drop("result", result != showNothing)
	if result == showMasked {
		child.members["result"] = maskAll
	}
	listed := in[chunk.TypeSubagentStart] != nil && in[chunk.TypeSubagentEnd] != nil
	return &rule{selectRule: func([]byte) (*rule, bool) { return child, listed }}
}

func (in ruleSet) pendingCalls() *rule {
	call := open("kind", "toolCallId", "toolName", "runId", "approvalId", "deadline", "input")
	call.blank("toolName", in.allOf(toolNames...), `""`)
	call.apply("input", in.toolInput(), "null")
	call.drop("deadline", in.allOf(fromMember(chunk.TypeToolApprovalRequest), fromMember(chunk.TypeRunPaused), fromMember(chunk.TypeSuspensionMarker)))
	call.drop("runId", in.allOf(fromMember(chunk.TypeRunStarted, "runId")))
	return &rule{selectRule: func(object []byte) (*rule, bool) {
		of := chunk.TypeToolStart
		if word(object, "kind") == "approval" {
			of = chunk.TypeToolApprovalRequest
		}
		return call, in[of] != nil
	}}
}

// byRole selects the rule of a message by its role. A message without a visible part is left out, because clients reject messages without parts.
func byRole(user, assistant *rule) *rule {
	return &rule{selectRule: func(object []byte) (*rule, bool) {
		switch word(object, "role") {
		case "user":
			return user, true
		case "assistant":
			return assistant, true
		}
		return nil, false
	}}
}

func (in ruleSet) userMessage() *rule {
	m := in.message(in.userPart)
	m.drop("metadata", in.allOf(fromMember(chunk.TypeRunStarted, "input", "metadata")))
	return m
}

// answer returns the rule of a message of an agent. Its metadata are events.
func (in ruleSet) answer(part func(object []byte) (*rule, bool)) *rule {
	m := in.message(part)
	m.drop("metadata", in.events())
	return m
}

// events reports whether the events of applications are shown.
func (in ruleSet) events() bool {
	return in.allOf(fromMember(chunk.TypeCustom, "eventName"), fromMember(chunk.TypeCustom, "data"))
}

func (in ruleSet) message(part func(object []byte) (*rule, bool)) *rule {
	m := open("id", "role", "parts", "metadata")
	m.members["parts"] = &rule{selectRule: part}
	m.accept = hasParts
	return m
}

func (in ruleSet) userPart(object []byte) (*rule, bool) {
	var member string
	switch kind := word(object, "type"); {
	case kind == "text":
		member = "content"
	case kind == "file":
		member = "files"
	case strings.HasPrefix(kind, "data-"):
		member = "data"
	default:
		return nil, false
	}
	return nil, in.allOf(fromMember(chunk.TypeRunStarted, "input", member))
}

// partKinds has the kinds of an assistant's parts that are shown, except calls. Those of all data-* parts are "data".
func (in ruleSet) partKinds() map[string]bool {
	return map[string]bool{
		"text":            in.allOf(fromMember(chunk.TypeTextDelta, "delta")),
		"reasoning":       in.allOf(fromMember(chunk.TypeThinking, "content")),
		"file":            in.allOf(fromMember(chunk.TypeFile)),
		"source-url":      in.allOf(fromMember(chunk.TypeSourceURL)),
		"source-document": in.allOf(fromMember(chunk.TypeSourceDocument)),
		"step-start":      in[chunk.TypeStepStart] != nil,
		"data":            in.events(),
	}
}

// part returns a function that selects the rule of an assistant's part by its type.
func (in ruleSet) part() func(object []byte) (*rule, bool) {
	rules := map[string]*rule{
		"text":            in.ofProvider(chunk.TypeTextDelta),
		"reasoning":       in.ofProvider(chunk.TypeThinking),
		"file":            in.ofProvider(chunk.TypeFile),
		"source-url":      in.ofProvider(chunk.TypeSourceURL),
		"source-document": in.ofProvider(chunk.TypeSourceDocument),
	}
	kinds := in.partKinds()
	tools := in[chunk.TypeToolStart] != nil && in[chunk.TypeToolEnd] != nil
	tool, static := in.tool(), in.static(in.tool())
	return func(object []byte) (*rule, bool) {
		kind := word(object, "type")
		switch {
		case kind == "dynamic-tool":
			return tool, tools
		case isStatic(kind):
			return static, tools
		case strings.HasPrefix(kind, "data-"):
			kind = "data"
		}
		return rules[kind], kinds[kind]
	}
}

// ofProvider returns a rule for parts that shows the metadata of a provider if the chunks of a type show it.
func (in ruleSet) ofProvider(t chunk.Type) *rule {
	if in.allOf(fromMember(t, chunk.PartMember, "providerMetadata")) {
		return nil
	}
	return &rule{members: map[string]*rule{"providerMetadata": {hidden: true}}}
}

// isStatic reports whether a type of parts has the name of a tool.
func isStatic(kind string) bool { return strings.HasPrefix(kind, "tool-") }

// static returns the rule for the parts of calls whose type has the name of the tool, from that of other calls. A part whose name is hidden becomes one of these: a
// stream writes no other for a call without a name.
func (in ruleSet) static(tool *rule) *rule {
	if in.allOf(toolNames...) && in.allOf(fromStart("dynamic")...) {
		return tool
	}
	tool.members["type"] = &rule{hidden: true, replacement: []byte(`"dynamic-tool","toolName":""`)}
	return tool
}

// fromStart returns a member of chunk.PartMember in the chunks that may begin a call.
func fromStart(name string) []source {
	var list []source
	for _, t := range []chunk.Type{chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolApprovalRequest, chunk.TypeToolInputError} {
		list = append(list, fromMember(t, chunk.PartMember, name))
	}
	return list
}

func (in ruleSet) tool() *rule {
	t := open("type", "toolName", "toolCallId", "state", "rawInput", "input", "output", "errorText", "approval", "providerExecuted",
		"title", "toolMetadata", "callProviderMetadata", "resultProviderMetadata")
	t.drop("title", in.allOf(fromStart("title")...))
	t.drop("toolMetadata", in.allOf(fromStart("toolMetadata")...) && in.allOf(fromMember(chunk.TypeToolEnd, chunk.PartMember, "toolMetadata")))
	t.drop("callProviderMetadata", in.allOf(fromStart("providerMetadata")...))
	t.drop("resultProviderMetadata", in.allOf(fromMember(chunk.TypeToolEnd, chunk.PartMember, "providerMetadata"), fromMember(chunk.TypeToolInputError, chunk.PartMember, "providerMetadata")))
	t.blank("toolName", in.allOf(toolNames...), `""`)
	t.drop("rawInput", in.toolInput() == showAll)
	t.apply("input", in.toolInput(), "null")
	t.apply("output", in.visibilityOf(fromMember(chunk.TypeToolEnd, "result")), "null")
	t.blank("errorText", in.allOf(toolErrors...), `""`)
	approval := open("id", "approved", "reason")
	approval.drop("reason", in.allOf(fromMember(chunk.TypeToolApprovalResponse, "reason")))
	t.members["approval"] = approval
	t.drop("approval", in[chunk.TypeToolApprovalRequest] != nil && in[chunk.TypeToolApprovalResponse] != nil)
	return t
}

// word returns the string member of object with this name, "" if there is none or it has a lone surrogate.
func word(object []byte, name string) string {
	text, err := rawjson.Text(rawjson.Get(object, name)).Unquote()
	if err != nil || !utf8.ValidString(text) {
		return ""
	}
	return text
}

func hasParts(message []byte) bool {
	for range rawjson.Elements(rawjson.Get(message, "parts")) {
		return true
	}
	return false
}
