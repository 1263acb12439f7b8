package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// Chat is a view for chats: messages in the form of the AI SDK, from a stream or from a page. It shows nothing that the view hides. What it shows is the same in
// both, because a client continues a page with a stream, and sends what it has back. So it shows a part only if the view shows every chunk that the part may be
// made of. For a call of a tool those are all of toolTypes: a view without the requests for approval, for example, shows no calls in a chat.
//
// The nil *Chat shows everything. A Chat is safe for concurrent use.
type Chat struct {
	rules  ruleSet
	course ruleSet // types that the view does not list, and that determine the course of a message
	page   *rule

	calls, toolNames, subAgents                         bool
	inputs, results, output                             visibility
	errors, reasons, failure, state, checkpoints        bool
	contents, files, data, metadata, runIDs, agentTypes bool
	clientIDs                                           bool
	parts                                               map[string]bool // see ruleSet.partKinds
}

// toolTypes are the types that a call may be made of. Its streamed input is not one of them: a view that hides the pieces hides the input.
var toolTypes = []chunk.Type{
	chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError,
	chunk.TypeToolApprovalRequest, chunk.TypeToolApprovalResponse,
}

// stepStart is the type of the part with which a step begins.
const stepStart = "step-start"

// hiddenInput is the input of a call whose input is hidden, also of one whose start is not in the message: a client accepts no outcome without input.
const hiddenInput = "{}"

// chat returns the rules for chats.
func (in ruleSet) chat(subAgents bool) *Chat {
	run := func(path ...string) bool { return in.allOf(fromMember(chunk.TypeRunStarted, path...)) }
	c := &Chat{
		subAgents: subAgents, calls: in.calls(), toolNames: in.allOf(toolNames...), agentTypes: in.agentType(),
		inputs: in.toolInput(), results: in.visibilityOf(fromMember(chunk.TypeToolEnd, "result")), errors: in.allOf(toolErrors...),
		reasons:  in.allOf(fromMember(chunk.TypeToolApprovalResponse, "reason")),
		parts:    in.partKinds(),
		output:   in.visibilityOf(fromMember(chunk.TypeOutput, "output"), fromMember(chunk.TypeStreamEnd, "finalOutput")),
		failure:  in.allOf(fromMember(chunk.TypeStreamFailed, "error"), fromMember(chunk.TypeStreamFailed, "errorDetail")),
		contents: run("input", "content"), files: run("input", "files"), data: run("input", "data"), metadata: run("input", "metadata"), clientIDs: run("input", "clientMessageId"), runIDs: run("runId"),
		state: in.allOf(fromMember(chunk.TypeStatePatch, "patches")), checkpoints: in.allOf(checkpoints...),
	}
	c.rules, c.course, c.page = in.chatRules(c), in.courseRules(c), in.chatPage(c)
	return c
}

// calls reports whether chats show the calls of tools.
func (in ruleSet) calls() bool {
	return !slices.ContainsFunc(toolTypes, func(t chunk.Type) bool { return in[t] == nil })
}

// chatRules returns the rules for records. They hide the types of the parts that chatPage hides, and members where it hides them.
func (in ruleSet) chatRules(c *Chat) ruleSet {
	out := maps.Clone(in)
	for kind, t := range map[string]chunk.Type{
		"text": chunk.TypeTextDelta, "reasoning": chunk.TypeThinking, "file": chunk.TypeFile, "source-url": chunk.TypeSourceURL,
		"source-document": chunk.TypeSourceDocument, "data": chunk.TypeCustom,
	} {
		out.remove(!c.parts[kind], t)
	}
	out.remove(!c.calls, toolTypes...)
	// A delegation is a call: its end repeats the result.
	out.remove(!c.calls, chunk.TypeToolArgStreamDelta, chunk.TypeToolArgStreamEnd)
	out.remove(!c.calls || in[chunk.TypeSubagentStart] == nil || in[chunk.TypeSubagentEnd] == nil, chunk.TypeSubagentStart, chunk.TypeSubagentEnd)
	for _, t := range toolTypes {
		out.blank(t, "toolName", c.toolNames, `""`)
	}
	if c.inputs == showNothing {
		delete(out, chunk.TypeToolArgStreamDelta)
		out.blank(chunk.TypeToolStart, "arguments", false, hiddenInput)
		out.blank(chunk.TypeToolApprovalRequest, "input", false, hiddenInput)
		out.blank(chunk.TypeToolInputError, "partialInput", false, hiddenInput)
	}
	out.blank(chunk.TypeToolEnd, "result", c.results != showNothing, "null")
	for _, t := range []chunk.Type{chunk.TypeToolEnd, chunk.TypeToolInputError, chunk.TypeToolOutputError} {
		out.blank(t, "error", c.errors, `""`)
	}
	return out
}

// courseRules returns the rules of the types that the view does not list, and that determine the course of a message.
func (in ruleSet) courseRules(c *Chat) ruleSet {
	out := make(ruleSet)
	for _, t := range []chunk.Type{chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeRunInterrupted, chunk.TypeRunResumed} {
		if in[t] == nil {
			out[t] = withoutContent(t, c.agentTypes)
			out.blank(t, "runId", c.runIDs, `""`)
		}
	}
	return out
}

// remove removes types if hidden.
func (in ruleSet) remove(hidden bool, types ...chunk.Type) {
	for _, t := range types {
		if hidden {
			delete(in, t)
		}
	}
}

// blank replaces a member of a type, where a record has it, unless it is shown.
func (in ruleSet) blank(t chunk.Type, name string, shown bool, instead string) {
	r := in[t]
	if r == nil {
		return
	}
	if _, has := r.members[name]; has && !shown {
		copied := *r
		copied.members = maps.Clone(r.members)
		copied.blank(name, false, instead)
		in[t] = &copied
	}
}

// chatPage returns the rules for the page with which a chat starts. It differs from that of other clients in the calls, see Chat, and in the boundaries of
// steps: a stream writes none for a step of which nothing is shown, and a client tells the server how many it has.
func (in ruleSet) chatPage(c *Chat) *rule {
	part := in.part()
	tool := in.tool()
	tool.apply("input", c.inputs, hiddenInput)
	static := in.static(in.tool())
	static.apply("input", c.inputs, hiddenInput)
	assistant := in.answer(func(object []byte) (*rule, bool) {
		switch kind := word(object, "type"); {
		case kind == "dynamic-tool":
			return tool, c.calls
		case isStatic(kind):
			return static, c.calls
		case kind == stepStart:
			return nil, true
		}
		return part(object)
	})
	assistant.members["parts"].heading = func(object []byte) bool { return word(object, "type") == stepStart }
	page := *in.page().snapshot
	page.members = maps.Clone(page.members)
	page.members["messages"] = byRole(in.userMessage(), assistant)
	if !c.calls {
		for _, name := range []string{"children", "pendingCalls"} {
			page.members[name] = &rule{selectRule: func([]byte) (*rule, bool) { return nil, false }}
		}
	}
	return &page
}

// Chat returns the view for chats, nil for the nil *Compiled.
func (c *Compiled) Chat() *Chat {
	if c == nil {
		return nil
	}
	return c.chat
}

// Page returns what is shown of the page with which a chat starts: the snapshot of a root session.
func (c *Chat) Page(text []byte) ([]byte, error) {
	if c == nil {
		return text, nil
	}
	if err := check(text); err != nil {
		return nil, fmt.Errorf("page of a chat: %w", err)
	}
	return c.page.append(nil, text), nil
}

// Record returns what is shown of rec, and whether it is shown at all. The result may share memory with rec. It always shows what determines the course of a
// message, without content: where runs and steps begin, are interrupted, continue and end, and which records were removed.
func (c *Chat) Record(rec chunk.Record) (chunk.Record, bool) {
	switch {
	case c == nil:
		return rec, true
	case !rec.Session.IsRoot() && !c.subAgents:
		return chunk.Record{}, false
	case rec.Type == chunk.TypeRunStarted:
		return c.runStarted(rec)
	case rec.Type == chunk.TypeTruncated: // it has positions only
		return rec, true
	}
	r := c.rules[rec.Type]
	if r == nil && rec.Session.IsRoot() {
		r = c.course[rec.Type] // the course of a sub-agent is not a part of the message
	}
	if r == nil || !c.toolNames && isFinishTool(rec.Data) {
		return chunk.Record{}, false
	}
	data, ok := r.rewrite(rec)
	if !ok {
		return chunk.Record{}, false // readers ignore it
	}
	if m := r.members["partialInput"]; rec.Type == chunk.TypeToolInputError && m != nil && m.hidden && rawjson.Get(data, "partialInput") == nil {
		data = append(data[:len(data)-1], `,"partialInput":`+hiddenInput+`}`...)
	}
	rec.Data = data
	return rec, true
}

// isFinishTool reports whether a record is of the tool with which an agent writes its structured output. Messages do not have it; without its name it would look
// like any other tool.
func isFinishTool(data []byte) bool { return word(data, "toolName") == "__finish__" }

// runStarted returns the members of a run_started that the course of a message depends on.
func (c *Chat) runStarted(rec chunk.Record) (chunk.Record, bool) {
	of, err := chunk.Decode(rec.Data)
	b, ok := chunk.As[chunk.RunStarted](of)
	if err != nil || !ok {
		return chunk.Record{}, false
	}
	run := chunk.RunStarted{RunID: c.runID(b.RunID), Epoch: b.Epoch, Mode: b.Mode}
	for i := range b.Input { // a run with a message begins another turn, and their number is in the ids of later ones
		run.Input = append(run.Input, c.inputMessage(&b.Input[i], rec.Session.IsRoot()))
	}
	shown := chunk.Chunk{AgentID: of.AgentID, AgentType: of.AgentType, Timestamp: of.Timestamp, Step: of.Step, Body: run}
	if !c.agentTypes {
		shown.AgentType = ""
	}
	if rec.Data, err = shown.AppendJSON(nil); err != nil {
		return chunk.Record{}, false
	}
	return rec, true
}

// unshownMetadata are the metadata of a message of which nothing is shown, see fold.IsHidden.
var unshownMetadata = chunk.Value(`{"hidden":true}`)

// inputMessage returns what is shown of a message of a user.
func (c *Chat) inputMessage(of *chunk.InputMessage, isRoot bool) chunk.InputMessage {
	shown := chunk.InputMessage{}
	for _, m := range of.Extra {
		if id, err := rawjson.Text(m.Value).Unquote(); err == nil && m.Name == fold.ReplacesMember {
			if _, ok := fold.MessageIndex(id); ok {
				shown.Extra = append(shown.Extra, m) // a client removes the messages that this one replaces
			}
		}
	}
	if c.contents && c.showsInput(isRoot) {
		shown.Content = of.Content
	}
	if c.files && c.showsInput(isRoot) {
		shown.Files = of.Files
	}
	if c.data && c.showsInput(isRoot) {
		shown.Data = of.Data
	}
	if shown.Content == "" && len(shown.Files)+len(shown.Data) == 0 || of.Metadata != nil && fold.IsHidden(*of.Metadata) {
		return chunk.InputMessage{Metadata: &unshownMetadata, Extra: shown.Extra}
	}
	if c.clientIDs {
		shown.ClientMessageID = of.ClientMessageID
	}
	if c.metadata {
		shown.Metadata = of.Metadata
	}
	return shown
}

// showsInput reports whether input is shown to an agent's client, as far as the view shows its members. That of a sub-agent is the input of the call which starts it.
func (c *Chat) showsInput(isRoot bool) bool { return isRoot || c.calls && c.inputs == showAll }

// Hidden are parts of conversations that a Chat does not show, see conversation.Hidden.
type Hidden struct {
	Calls, SubAgentCalls, Inputs, Results, Errors, Reasons        bool
	Contents, Metadata, Texts, Output, SubAgents, Failure, RunIDs bool
}

// Hidden returns what c does not show.
func (c *Chat) Hidden() Hidden {
	if c == nil {
		return Hidden{}
	}
	return Hidden{
		Calls: !c.calls, SubAgentCalls: !c.calls || !c.subAgents, Inputs: c.inputs != showAll, Results: c.results != showAll, Errors: !c.errors, Reasons: !c.reasons,
		Contents: !c.contents || !c.files || !c.data, Metadata: !c.metadata, Texts: !c.parts["text"], Output: c.output != showAll, SubAgents: !c.subAgents, Failure: !c.failure, RunIDs: !c.runIDs,
	}
}
