package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// client is a model of the client in the SDK: the parser of events, the strict schema of chunks (clients before 6.0.231 reject unknown members) and the builder
// of the message. It shares no code with the package under test. Input that the SDK would reject is an error.
type client struct {
	major     int
	id        string
	parts     []*uiPart
	text      map[string]*uiPart // open blocks
	reasoning map[string]*uiPart
	partial   map[string]bool // tool calls whose input is being streamed
	lastID    string          // the last id of an event, which is the cursor
	finish    string
	started   int
	ended     bool // [DONE] was received
	reload    bool // the application must reload the message
	errorText string
	transient []string // types of the received transient data parts
	published int      // number of parts that the SDK has rendered: a step-start is rendered with the part after it
}

func newClient(major int) *client {
	c := &client{major: max(major, 6)}
	c.open()
	return c
}

// open starts the next response of the same message.
func (c *client) open() {
	c.text, c.reasoning, c.partial = map[string]*uiPart{}, map[string]*uiPart{}, map[string]bool{}
	c.started, c.ended, c.finish, c.errorText = 0, false, "", ""
}

// uiPart is a part of the message: the JSON of each member, with strings in canonical form.
type uiPart struct {
	typ    string
	agent  string // of a text: the sub-agent, "" for the message's own
	member map[string]string
}

func (p *uiPart) set(name string, raw []byte) { p.member[name] = oneForm(raw) }

// String returns the part in a form that is equal for equal parts.
func (p *uiPart) String() string {
	var b strings.Builder
	b.WriteString(p.typ)
	for _, name := range slices.Sorted(maps.Keys(p.member)) {
		fmt.Fprintf(&b, " %s=%s", name, p.member[name])
	}
	return b.String()
}

// oneForm returns the JSON of a string with only the required escapes, and other values unchanged.
func oneForm(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return string(raw)
	}
	text, err := rawjson.Text(raw).AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return string(rawjson.AppendQuoted(nil, text))
}

// schema lists the members of each chunk type: * is any value, ? marks an optional member, 7 a type or member that version 6 rejects.
var schema = map[string]string{
	"start":                  "messageId:s? messageMetadata:*?",
	"finish":                 "finishReason:reason? messageMetadata:*?",
	"abort":                  "reason:s?7",
	"error":                  "errorText:s",
	"message-metadata":       "messageMetadata:*",
	"start-step":             "",
	"finish-step":            "",
	"reset-step":             "7",
	"text-start":             "id:s",
	"text-delta":             "id:s delta:s",
	"text-end":               "id:s",
	"reasoning-start":        "id:s",
	"reasoning-delta":        "id:s delta:s",
	"reasoning-end":          "id:s",
	"tool-input-start":       "toolCallId:s toolName:s dynamic:b? providerExecuted:b?",
	"tool-input-delta":       "toolCallId:s inputTextDelta:s",
	"tool-input-available":   "toolCallId:s toolName:s input:* dynamic:b? providerExecuted:b?",
	"tool-input-error":       "toolCallId:s toolName:s input:* errorText:s dynamic:b? providerExecuted:b?",
	"tool-output-available":  "toolCallId:s output:* dynamic:b? providerExecuted:b? preliminary:b?",
	"tool-output-error":      "toolCallId:s errorText:s dynamic:b? providerExecuted:b?",
	"tool-output-denied":     "toolCallId:s",
	"tool-approval-request":  "approvalId:s toolCallId:s",
	"tool-approval-response": "approvalId:s approved:b reason:s? 7",
	"source-url":             "sourceId:s url:s title:s?",
	"source-document":        "sourceId:s mediaType:s title:s filename:s?",
	"file":                   "url:s mediaType:s",
	"data-":                  "data:* id:s? transient:b?",
}

// read parses a response body, or the next part of one.
func (c *client) read(body []byte) error {
	for event := range strings.SplitSeq(string(body), "\n\n") {
		if event == "" {
			continue
		}
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "data":
				data = append(data, value)
			case "id":
				c.lastID = value
			default:
				return fmt.Errorf("line %q", line)
			}
		}
		if len(data) != 1 {
			return fmt.Errorf("event %q has %d data lines", event, len(data))
		}
		if err := c.event([]byte(data[0])); err != nil {
			return fmt.Errorf("%w in %s", err, data[0])
		}
	}
	if len(body) > 0 && !bytes.HasSuffix(body, []byte("\n\n")) {
		return fmt.Errorf("the last event of %q is cut", body)
	}
	return nil
}

func (c *client) event(data []byte) error {
	if c.ended {
		return fmt.Errorf("a chunk after the end")
	}
	if string(data) == "[DONE]" {
		c.ended = true
		return nil
	}
	if c.errorText != "" {
		return fmt.Errorf("a chunk after an error")
	}
	m, typ, err := c.check(data)
	if err != nil {
		return err
	}
	err = c.apply(m, typ)
	if !slices.Contains([]string{"start-step", "finish-step", "finish", "abort", "error"}, typ) && string(m["transient"]) != "true" {
		c.published = len(c.parts)
	}
	return err
}

// posts reports whether one of the SDK's predicates makes the client post: all calls since the last step-start have a result of the browser or a decision about
// the approval.
func (c *client) posts() bool {
	parts := c.parts[:c.published]
	for i, p := range slices.Backward(parts) {
		if p.typ == "step-start" {
			parts = parts[i+1:]
			break
		}
	}
	own, decided := 0, 0
	ownDone, allDone := true, true
	for _, p := range parts {
		if p.typ != "dynamic-tool" {
			continue
		}
		state := p.member["state"]
		done := state == `"output-available"` || state == `"output-error"`
		if p.member["providerExecuted"] != "true" {
			own++
			ownDone = ownDone && done
		}
		switch state {
		case `"approval-responded"`:
			decided++
		case `"output-denied"`:
		default:
			allDone = allDone && done
		}
	}
	return own > 0 && ownDone || decided > 0 && allDone
}

// asks reports whether the message has a pending call.
func (c *client) asks() bool {
	return slices.ContainsFunc(c.parts, func(p *uiPart) bool {
		return p.member["state"] == `"approval-requested"` || p.member["state"] == `"input-available"` && p.member["providerExecuted"] != "true"
	})
}

// answers adds results and decisions for all pending calls of the message, as a client does before it posts.
func (c *client) answers() {
	for _, p := range c.parts {
		switch {
		case p.member["state"] == `"approval-requested"`:
			p.member["state"] = `"approval-responded"`
		case p.member["state"] == `"input-available"` && p.member["providerExecuted"] != "true":
			p.member["state"] = `"output-available"`
		}
	}
}

// check checks a chunk against the schema.
func (c *client) check(data []byte) (map[string]json.RawMessage, string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, "", err
	}
	var anything any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&anything); err != nil {
		return nil, "", err
	}
	if forbidden(anything) {
		return nil, "", fmt.Errorf("prototype pollution")
	}
	typ, _ := strings.CutPrefix(string(m["type"]), `"`)
	typ = strings.TrimSuffix(typ, `"`)
	known, ok := schema[typ]
	if strings.HasPrefix(typ, "data-") {
		known, ok = schema["data-"], true
	}
	if !ok {
		return nil, "", fmt.Errorf("unknown type %q", typ)
	}
	names := map[string]bool{"type": true}
	for field := range strings.FieldsSeq(known) {
		if field == "7" {
			if c.major < 7 {
				return nil, "", fmt.Errorf("%s is for version 7", typ)
			}
			continue
		}
		name, kind, _ := strings.Cut(field, ":")
		names[name] = true
		raw, there := m[name]
		if !there && !strings.Contains(kind, "?") {
			return nil, "", fmt.Errorf("%s has no %s", typ, name)
		}
		if there && !c.fits(kind, raw) {
			return nil, "", fmt.Errorf("%s of %s is %s", name, typ, raw)
		}
	}
	for name := range m {
		if !names[name] {
			return nil, "", fmt.Errorf("%s has a member %s", typ, name)
		}
	}
	return m, typ, nil
}

func (c *client) fits(kind string, raw json.RawMessage) bool {
	switch {
	case strings.HasSuffix(kind, "7") && c.major < 7:
		return false
	case strings.HasPrefix(kind, "s"):
		return raw[0] == '"'
	case strings.HasPrefix(kind, "b"):
		return string(raw) == "true" || string(raw) == "false"
	case strings.HasPrefix(kind, "reason"):
		reasons := []string{`"stop"`, `"length"`, `"content-filter"`, `"tool-calls"`, `"error"`, `"other"`}
		return slices.Contains(reasons, string(raw)) || c.major >= 7 && string(raw) == `"interrupted"`
	}
	return true
}

// forbidden reports whether the SDK's guard against prototype pollution rejects a value.
func forbidden(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if name == "__proto__" {
				return true
			}
			if in, ok := value.(map[string]any); ok && name == "constructor" {
				if _, ok := in["prototype"]; ok {
					return true
				}
			}
			if forbidden(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, forbidden)
	}
	return false
}

// apply adds a chunk to the message.
func (c *client) apply(m map[string]json.RawMessage, typ string) error {
	switch typ {
	case "start":
		return c.start(m)
	case "text-start", "text-delta", "text-end":
		return c.block(c.text, m, typ, "text")
	case "reasoning-start", "reasoning-delta", "reasoning-end":
		return c.block(c.reasoning, m, typ, "reasoning")
	case "file", "source-url", "source-document":
		c.add(typ, m)
	case "start-step":
		c.parts = append(c.parts, &uiPart{typ: "step-start", member: map[string]string{}})
	case "finish-step":
		if c.major < 7 {
			for id := range c.text {
				return fmt.Errorf("forgets the open text %s", id)
			}
			for id := range c.reasoning {
				return fmt.Errorf("forgets the open reasoning %s", id)
			}
		}
	case "reset-step":
		for n := len(c.parts); n > 0 && c.parts[n-1].typ != "step-start"; n-- {
			c.parts = c.parts[:n-1]
		}
		clear(c.text)
		clear(c.reasoning)
	case "finish":
		c.finish = string(m["finishReason"])
		return c.unended()
	case "error":
		c.errorText = string(m["errorText"])
		return c.unended()
	case "abort":
		return c.unended()
	case "message-metadata":
	default:
		if strings.HasPrefix(typ, "data-") {
			c.data(m, typ)
			return nil
		}
		return c.tool(m, typ)
	}
	return nil
}

func (c *client) start(m map[string]json.RawMessage) error {
	id := string(m["messageId"])
	if c.id != "" && c.id != id {
		return fmt.Errorf("another message: %s, not %s", id, c.id)
	}
	c.id = id
	c.started++
	if c.started > 1 {
		return fmt.Errorf("started twice")
	}
	return nil
}

// unended returns an error if a block is still open at the end: its part would keep the state streaming.
func (c *client) unended() error {
	if len(c.text)+len(c.reasoning) > 0 {
		return fmt.Errorf("leaves blocks open")
	}
	return nil
}

func (c *client) block(open map[string]*uiPart, m map[string]json.RawMessage, typ, kind string) error {
	id := string(m["id"])
	p := open[id]
	switch _, what, _ := strings.Cut(typ, "-"); what {
	case "start":
		if p != nil {
			return fmt.Errorf("%s is open", id)
		}
		_, agent, _ := strings.Cut(strings.Trim(id, `"`), "-")
		open[id] = &uiPart{typ: kind, agent: agent, member: map[string]string{"text": `""`, "state": `"streaming"`}}
		c.parts = append(c.parts, open[id])
		return nil
	case "delta":
		if p == nil {
			return fmt.Errorf("%s is not open", id)
		}
		was := p.member["text"]
		p.set("text", []byte(was[:len(was)-1]+string(m["delta"][1:])))
	case "end":
		if p == nil {
			return fmt.Errorf("%s is not open", id)
		}
		if p.member["text"] == `""` {
			return fmt.Errorf("%s says nothing", id)
		}
		p.member["state"] = `"done"`
		delete(open, id)
	}
	return nil
}

func (c *client) add(typ string, m map[string]json.RawMessage) {
	p := &uiPart{typ: typ, member: map[string]string{}}
	for name, raw := range m {
		if name != "type" {
			p.set(name, raw)
		}
	}
	c.parts = append(c.parts, p)
}

func (c *client) data(m map[string]json.RawMessage, typ string) {
	if string(m["transient"]) == "true" {
		c.transient = append(c.transient, typ)
		c.reload = c.reload || typ == "data-truncated"
		return
	}
	if id, ok := m["id"]; ok {
		for _, p := range c.parts {
			if p.typ == typ && p.member["id"] == oneForm(id) {
				p.set("data", m["data"])
				return
			}
		}
	}
	c.add(typ, m)
}

// find returns the latest tool part with an id.
func (c *client) find(id json.RawMessage) *uiPart {
	for _, p := range slices.Backward(c.parts) {
		if p.typ == "dynamic-tool" && p.member["toolCallId"] == oneForm(id) {
			return p
		}
	}
	return nil
}

func (c *client) tool(m map[string]json.RawMessage, typ string) error {
	id := m["toolCallId"]
	if typ == "tool-approval-response" {
		for _, p := range c.parts {
			if p.member["approval.id"] == oneForm(m["approvalId"]) {
				p.member["state"] = `"approval-responded"`
				p.set("approval.approved", m["approved"])
				if reason, ok := m["reason"]; ok {
					p.set("approval.reason", reason)
				}
				return nil
			}
		}
		return fmt.Errorf("no approval %s", m["approvalId"])
	}
	p := c.find(id)
	switch typ {
	case "tool-input-start", "tool-input-available", "tool-input-error":
		if string(m["dynamic"]) != "true" {
			return fmt.Errorf("not dynamic")
		}
		if p == nil {
			p = &uiPart{typ: "dynamic-tool", member: map[string]string{}}
			c.parts = append(c.parts, p)
		}
		p.set("toolCallId", id)
		p.set("toolName", m["toolName"])
	case "tool-input-delta":
		if !c.partial[oneForm(id)] {
			return fmt.Errorf("no input streams")
		}
		return nil
	default:
		if p == nil {
			return fmt.Errorf("no such call")
		}
	}
	state := p.member["state"]
	completed := slices.Contains([]string{`"output-available"`, `"output-error"`, `"output-denied"`}, state)
	if string(m["providerExecuted"]) == "true" {
		p.member["providerExecuted"] = "true"
	}
	switch typ {
	case "tool-input-start":
		if completed && !c.reload {
			return fmt.Errorf("begins again after %s", state)
		}
		c.partial[oneForm(id)] = true
		delete(p.member, "input")
		p.member["state"] = `"input-streaming"`
	case "tool-input-available":
		if state != "" && state != `"input-streaming"` && !strings.HasPrefix(state, `"approval-`) && !c.reload && c.parts[len(c.parts)-1].typ != "step-start" {
			return fmt.Errorf("available again after %s", state)
		}
		p.set("input", m["input"])
		p.member["state"] = `"input-available"`
	case "tool-input-error":
		p.set("input", m["input"])
		p.set("errorText", m["errorText"])
		p.member["state"] = `"output-error"`
	case "tool-approval-request":
		p.set("approval.id", m["approvalId"])
		p.member["state"] = `"approval-requested"`
	case "tool-output-available":
		p.set("output", m["output"])
		p.member["state"] = `"output-available"`
	case "tool-output-error":
		p.set("errorText", m["errorText"])
		p.member["state"] = `"output-error"`
	case "tool-output-denied":
		p.member["state"] = `"output-denied"`
	}
	return nil
}
