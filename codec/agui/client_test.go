package agui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/tailrace/tailrace/chunk"
)

// client does what @ag-ui/client 1.0 does with a stream: it checks the order of events for each call of runAgent, and keeps messages and a state between the
// calls. e2e/dialects/agui checks the Writer with that package itself; this is the same for fast tests.
type client struct {
	messages []map[string]any
	state    any
	cursor   string // id of the last event
	events   []map[string]any

	// Of one call of runAgent.
	verify verifier
	names  []string // of the CUSTOM events
}

func newClient() *client { return &client{state: map[string]any{}} }

// open begins a call of runAgent.
func (c *client) open() { c.verify = verifier{} }

// read reads frames.
func (c *client) read(frames []byte) error {
	for frame := range strings.SplitSeq(string(frames), "\n\n") {
		if frame == "" {
			continue
		}
		for line := range strings.SplitSeq(frame, "\n") {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				if _, ok := chunk.ParseCursor(id); !ok {
					return fmt.Errorf("id %q", id)
				}
				c.cursor = id
				continue
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				return fmt.Errorf("line %q", line)
			}
			var event map[string]any
			if err := decode([]byte(data), &event); err != nil {
				return fmt.Errorf("%w: %s", err, data)
			}
			if err := c.verify.check(event); err != nil {
				return fmt.Errorf("%w: %s", err, data)
			}
			c.events = append(c.events, event)
			if err := c.apply(event); err != nil {
				return fmt.Errorf("%w: %s", err, data)
			}
		}
	}
	return nil
}

// decode keeps numbers as they are.
func decode(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

func str(m map[string]any, name string) string { s, _ := m[name].(string); return s }

// verifier has the order rules of the client's verifyEvents.
type verifier struct {
	first, started, finished, failed        bool
	messages, calls, spans, thoughts        map[string]bool
	messageOf, callOf, thoughtOf, acitivity map[string]string
	steps                                   map[string]bool
	agents, closed                          map[string]bool
}

func (v *verifier) reset() {
	*v = verifier{
		first: true, started: true,
		messages: map[string]bool{}, calls: map[string]bool{}, spans: map[string]bool{}, thoughts: map[string]bool{},
		messageOf: map[string]string{}, callOf: map[string]string{}, thoughtOf: map[string]string{}, acitivity: map[string]string{},
		steps: map[string]bool{}, agents: map[string]bool{}, closed: map[string]bool{},
	}
}

// required has the members that each event must have, with the first letter of their JSON type.
var required = map[string]string{
	"RUN_STARTED": "threadId:s runId:s", "RUN_FINISHED": "threadId:s runId:s", "RUN_ERROR": "message:s", "STEP_STARTED": "stepName:s", "STEP_FINISHED": "stepName:s",
	"TEXT_MESSAGE_START": "messageId:s role:s", "TEXT_MESSAGE_CONTENT": "messageId:s delta:s", "TEXT_MESSAGE_END": "messageId:s",
	"REASONING_START": "messageId:s", "REASONING_MESSAGE_START": "messageId:s role:s", "REASONING_MESSAGE_CONTENT": "messageId:s delta:s",
	"REASONING_MESSAGE_END": "messageId:s", "REASONING_END": "messageId:s", "TOOL_CALL_START": "toolCallId:s toolCallName:s", "TOOL_CALL_ARGS": "toolCallId:s delta:s",
	"TOOL_CALL_END": "toolCallId:s", "TOOL_CALL_RESULT": "messageId:s toolCallId:s content:s", "STATE_DELTA": "delta:[", "STATE_SNAPSHOT": "snapshot:*", "CUSTOM": "name:s value:*",
	"ACTIVITY_SNAPSHOT": "messageId:s activityType:s content:m", "SUBAGENT_STARTED": "subagentRunId:s name:s", "SUBAGENT_FINISHED": "subagentRunId:s",
	"SUBAGENT_ERROR": "subagentRunId:s message:s",
}

func checkMembers(event map[string]any) error {
	members, known := required[str(event, "type")]
	if !known {
		return fmt.Errorf("unknown type %v", event["type"])
	}
	for m := range strings.FieldsSeq(members) {
		name, want, _ := strings.Cut(m, ":")
		v, ok := event[name]
		got := fmt.Sprintf("%T", v)
		if !ok || want != "*" && !strings.HasPrefix(got, want) {
			return fmt.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	return nil
}

func (v *verifier) check(event map[string]any) error {
	if err := checkMembers(event); err != nil {
		return err
	}
	kind, tag := str(event, "type"), str(event, "subagentRunId")
	message, call := str(event, "messageId"), str(event, "toolCallId")
	switch {
	case v.failed && kind != "RUN_STARTED":
		return fmt.Errorf("%s after RUN_ERROR", kind)
	case v.finished && kind != "RUN_ERROR" && kind != "RUN_STARTED":
		return fmt.Errorf("%s after RUN_FINISHED", kind)
	case !v.first && kind != "RUN_STARTED" && kind != "RUN_ERROR":
		return fmt.Errorf("%s is first", kind)
	case v.started && !v.finished && !v.failed && kind == "RUN_STARTED":
		return fmt.Errorf("RUN_STARTED during a run")
	}
	owned := func(owners map[string]string, id string) error {
		if owner, ok := owners[id]; ok && tag != "" && tag != owner {
			return fmt.Errorf("%s: %s is of %q, not of %q", kind, id, owner, tag)
		}
		return nil
	}
	open := func(set map[string]bool, owners map[string]string, id string) error {
		if set[id] {
			return fmt.Errorf("%s: %s is open", kind, id)
		}
		if err := owned(owners, id); err != nil {
			return err
		}
		set[id] = true
		if _, ok := owners[id]; !ok {
			owners[id] = tag
		}
		return nil
	}
	inside := func(set map[string]bool, owners map[string]string, id string, ends bool) error {
		if !set[id] {
			return fmt.Errorf("%s: %s is not open", kind, id)
		}
		if ends {
			delete(set, id)
		}
		return owned(owners, id)
	}
	switch kind {
	case "RUN_STARTED":
		v.reset()
	case "RUN_ERROR":
		v.first, v.failed = true, true
	case "RUN_FINISHED":
		for what, set := range map[string]map[string]bool{
			"steps": v.steps, "messages": v.messages, "reasoning messages": v.thoughts, "reasoning": v.spans, "calls": v.calls, "sub-agents": v.agents,
		} {
			if len(set) > 0 {
				return fmt.Errorf("RUN_FINISHED with open %s: %v", what, set)
			}
		}
		v.finished = true
	case "TEXT_MESSAGE_START":
		return open(v.messages, v.messageOf, message)
	case "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END":
		return inside(v.messages, v.messageOf, message, kind == "TEXT_MESSAGE_END")
	case "REASONING_START":
		return open(v.spans, v.thoughtOf, message)
	case "REASONING_END":
		return inside(v.spans, v.thoughtOf, message, true)
	case "REASONING_MESSAGE_START":
		return open(v.thoughts, v.thoughtOf, message)
	case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END":
		return inside(v.thoughts, v.thoughtOf, message, kind == "REASONING_MESSAGE_END")
	case "TOOL_CALL_START":
		if owner, ok := v.messageOf[str(event, "parentMessageId")]; ok && tag != "" && owner != tag {
			return fmt.Errorf("the message of the call is of %q, not of %q", owner, tag)
		}
		return open(v.calls, v.callOf, call)
	case "TOOL_CALL_ARGS", "TOOL_CALL_END":
		return inside(v.calls, v.callOf, call, kind == "TOOL_CALL_END")
	case "TOOL_CALL_RESULT":
		v.messageOf[message] = tag
	case "STEP_STARTED", "STEP_FINISHED":
		key := tag + "\x00" + str(event, "stepName")
		if v.steps[key] == (kind == "STEP_STARTED") {
			return fmt.Errorf("%s: open is %v", kind, v.steps[key])
		}
		if v.steps[key] = kind == "STEP_STARTED"; !v.steps[key] {
			delete(v.steps, key)
		}
	case "SUBAGENT_STARTED":
		parent := str(event, "parentSubagentRunId")
		if v.agents[tag] || v.closed[tag] || parent != "" && !v.agents[parent] && !v.closed[parent] {
			return fmt.Errorf("SUBAGENT_STARTED: %q is active %v, has ended %v, parent %q", tag, v.agents[tag], v.closed[tag], parent)
		}
		v.agents[tag] = true
	case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
		if !v.agents[tag] {
			return fmt.Errorf("%s: %q is not active", kind, tag)
		}
		delete(v.agents, tag)
		v.closed[tag] = true
	}
	return nil
}

func (c *client) find(id string) map[string]any {
	for _, m := range c.messages {
		if m["id"] == id {
			return m
		}
	}
	return nil
}

// callIn returns the message with a call, and the call.
func (c *client) callIn(id string) (at int, call map[string]any) {
	for i, m := range c.messages {
		calls, _ := m["toolCalls"].([]any)
		for _, v := range calls {
			if call, _ := v.(map[string]any); call["id"] == id {
				return i, call
			}
		}
	}
	return -1, nil
}

func merge(target, event map[string]any) {
	metadata, ok := event["metadata"].(map[string]any)
	if !ok {
		return
	}
	old, _ := target["metadata"].(map[string]any)
	merged := map[string]any{}
	for _, m := range []map[string]any{old, metadata} {
		maps.Copy(merged, m)
	}
	target["metadata"] = merged
}

func (c *client) add(event map[string]any, m map[string]any) map[string]any {
	if tag := str(event, "subagentRunId"); tag != "" {
		m["subagentRunId"] = tag
	}
	c.messages = append(c.messages, m)
	return m
}

// apply has the rules of the client's defaultApplyEvents.
func (c *client) apply(event map[string]any) error {
	id := str(event, "messageId")
	switch str(event, "type") {
	case "RUN_STARTED":
		input, _ := event["input"].(map[string]any)
		list, _ := input["messages"].([]any)
		for _, v := range list {
			if m, _ := v.(map[string]any); c.find(str(m, "id")) == nil {
				c.messages = append(c.messages, m)
			}
		}
	case "TEXT_MESSAGE_START", "REASONING_MESSAGE_START":
		m := c.find(id)
		if m == nil {
			m = c.add(event, map[string]any{"id": id, "role": str(event, "role"), "content": ""})
		}
		merge(m, event)
	case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
		m := c.find(id)
		if m == nil {
			return fmt.Errorf("no message")
		}
		m["content"] = str(m, "content") + str(event, "delta")
	case "TOOL_CALL_START":
		if _, call := c.callIn(str(event, "toolCallId")); call != nil {
			merge(call, event)
			return nil
		}
		m := c.find(str(event, "parentMessageId"))
		if m == nil {
			m = c.add(event, map[string]any{"id": str(event, "parentMessageId"), "role": "assistant"})
		}
		calls, _ := m["toolCalls"].([]any)
		m["toolCalls"] = append(calls, map[string]any{
			"id": str(event, "toolCallId"), "type": "function", "function": map[string]any{"name": str(event, "toolCallName"), "arguments": ""},
		})
	case "TOOL_CALL_ARGS", "TOOL_CALL_END":
		_, call := c.callIn(str(event, "toolCallId"))
		if call == nil {
			return fmt.Errorf("no call")
		}
		f, _ := call["function"].(map[string]any)
		f["arguments"] = str(f, "arguments") + str(event, "delta")
		merge(call, event)
	case "TOOL_CALL_RESULT":
		m := map[string]any{"id": id, "toolCallId": str(event, "toolCallId"), "role": "tool", "content": event["content"]}
		if tag := str(event, "subagentRunId"); tag != "" {
			m["subagentRunId"] = tag
		}
		merge(m, event)
		at, _ := c.callIn(str(event, "toolCallId"))
		if at < 0 {
			return fmt.Errorf("a result without a call")
		}
		for at++; at < len(c.messages) && c.messages[at]["role"] == "tool"; at++ {
		}
		c.messages = slices.Insert(c.messages, at, m)
	case "ACTIVITY_SNAPSHOT":
		if c.find(id) != nil {
			return fmt.Errorf("an activity twice")
		}
		c.add(event, map[string]any{"id": id, "role": "activity", "activityType": event["activityType"], "content": event["content"]})
	case "STATE_SNAPSHOT":
		c.state = event["snapshot"]
	case "STATE_DELTA":
		return c.patch(event["delta"])
	case "CUSTOM":
		c.names = append(c.names, str(event, "name"))
	}
	return nil
}

// patch changes the state, or leaves it if an operation fails.
func (c *client) patch(delta any) error {
	text, err := json.Marshal(delta)
	if err != nil {
		return err
	}
	state, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return err
	}
	if next, err := patch.Apply(state); err == nil {
		return decode(next, &c.state)
	}
	return nil
}

// normalized returns the messages of a client, or of a snapshot, without what the package documentation lists as different.
func normalized(list []map[string]any) string {
	var b strings.Builder
	var results []string
	flush := func() {
		slices.Sort(results) // of calls of one message: the client has them in the order in which they came
		for _, r := range results {
			b.WriteString(r)
		}
		results = nil
	}
	for _, m := range list {
		if str(m, "subagentRunId") != "" {
			continue // the snapshot of a session has no messages of its sub-agents
		}
		line := normalizedMessage(m)
		if m["role"] == "tool" {
			results = append(results, line)
			continue
		}
		flush()
		b.WriteString(line)
	}
	flush()
	return b.String()
}

func normalizedMessage(m map[string]any) string {
	out := maps.Clone(m)
	if metadata, ok := m["metadata"].(map[string]any); ok && m["role"] == "tool" {
		kept := map[string]any{}
		if e, ok := metadata["error"]; ok {
			kept["error"] = e
		}
		out["metadata"] = kept
	}
	if calls, ok := m["toolCalls"].([]any); ok {
		var list []any
		for _, v := range calls {
			call, _ := v.(map[string]any)
			f, _ := call["function"].(map[string]any)
			list = append(list, map[string]any{"id": call["id"], "name": f["name"], "arguments": arguments(call)})
		}
		out["toolCalls"] = list
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(text) + "\n"
}

// arguments returns the arguments of a call: those in its metadata if the text differs from them.
func arguments(call map[string]any) any {
	metadata, _ := call["metadata"].(map[string]any)
	if v, ok := metadata["arguments"]; ok {
		return v
	}
	f, _ := call["function"].(map[string]any)
	var v any
	if decode([]byte(str(f, "arguments")), &v) != nil {
		return "incomplete"
	}
	return v
}
