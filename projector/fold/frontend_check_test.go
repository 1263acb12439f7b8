package fold

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// TestHistoryIsValid checks that every snapshot passes the strict check of the SDK, validateUIMessages, for any log.
// Applications that post a conversation to their own server run that check there.
func TestHistoryIsValid(t *testing.T) {
	laws(t, 60, func(t *rapid.T, a *generator) {
		s := newSnapshot(session)
		for i, rec := range a.all {
			s = take(t, s, rec, a.all[:i+1])
			for _, partial := range []bool{false, true} {
				if err := checkHistory(BrowserForm(s, partial, 0)); err != nil {
					t.Fatalf("after %d: %v", rec.Seq, err)
				}
			}
		}
	})
}

// TestUnusualCallsAreValid checks the same for states that random logs rarely reach: each state, with missing or additional
// records before it.
func TestUnusualCallsAreValid(t *testing.T) {
	yes, no := true, false
	args := chunk.ToolArgStreamStart{ToolCallID: "c", ToolName: "t"}
	asks := chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "t", ApprovalID: "a", Input: chunk.Value(`{}`)}
	decides := func(approved bool) chunk.Body {
		return chunk.ToolApprovalResponse{ToolCallID: "c", ToolName: "t", ApprovalID: "a", Approved: approved}
	}
	ends := chunk.ToolEnd{ToolCallID: "c", ToolName: "t", Result: chunk.Value(`1`)}
	fails := chunk.ToolOutputError{ToolCallID: "c", ToolName: "t", Error: "e"}
	for _, c := range []struct {
		want   string
		bodies []chunk.Body
	}{
		{`"state":"input-streaming","rawInput":""}`, []chunk.Body{asks, args}},
		{`"state":"input-streaming","rawInput":""}`, []chunk.Body{asks, decides(yes), args}},
		{`"state":"input-available","input":{"q":1}}`, []chunk.Body{asks, decides(yes), args, chunk.ToolStart{ToolCallID: "c", ToolName: "t", Arguments: chunk.Value(`{"q":1}`)}}},
		{`"state":"approval-responded","input":{},"approval":{"id":"a","approved":true},"providerExecuted":true}`, []chunk.Body{asks, decides(yes)}},
		{`"state":"output-available","input":{},"output":1}`, []chunk.Body{args, ends}},
		{`"state":"output-available","input":{},"output":1}`, []chunk.Body{asks, ends}},
		{`"state":"output-available","input":{},"output":1,"approval":{"id":"a","approved":true}}`, []chunk.Body{asks, decides(yes), ends}},
		{`"state":"output-error","errorText":"e","providerExecuted":true}`, []chunk.Body{args, fails}},
		{`"state":"output-denied","input":{},"approval":{"id":"a","approved":false},"providerExecuted":true}`, []chunk.Body{args, decides(no)}},
		{`"state":"output-denied","input":{},"approval":{"id":"a","approved":false},"providerExecuted":true}`, []chunk.Body{decides(no), decides(yes), fails}},
	} {
		both(t, func(sc *script) {
			sc.turn(1)
			for _, b := range c.bodies {
				sc.applyChunk(1, b)
			}
			f := BrowserForm(sc.s, true, 0)
			if err := checkHistory(f); err != nil {
				sc.t.Error(err)
			}
			want := `{"type":"dynamic-tool","toolName":"t","toolCallId":"c",` + c.want
			if got := string(f.Messages[0].Parts[0]); got != want {
				sc.t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// checkHistory is a model of the strict check.
func checkHistory(f Page) error {
	for _, m := range f.Messages {
		if len(m.Parts) == 0 || m.ID == "" || m.Role != User && m.Role != Assistant {
			return fmt.Errorf("message %q of %q has %d parts", m.ID, m.Role, len(m.Parts))
		}
		for _, raw := range m.Parts {
			if err := checkPart(raw); err != nil {
				return fmt.Errorf("%s: %w in %s", m.ID, err, raw)
			}
		}
	}
	return nil
}

// partFields has the members of each type of part except tools: s is a string, * any value, ? is optional. Other members are
// accepted.
var partFields = map[string]string{
	"text":            "text:s state:progress?",
	"reasoning":       "text:s state:progress?",
	"source-url":      "sourceId:s url:s title:s?",
	"source-document": "sourceId:s mediaType:s title:s filename:s?",
	"file":            "mediaType:s url:s filename:s?",
	"step-start":      "",
	"data-":           "data:* id:s?",
}

// toolFields has the members of a tool part by its state; ! is forbidden.
var toolFields = map[string]string{
	"input-streaming":    "input:*? rawInput:s? output:! errorText:! approval:!",
	"input-available":    "input:* output:! errorText:! approval:!",
	"approval-requested": "input:* output:! errorText:! approval:asked",
	"approval-responded": "input:* output:! errorText:! approval:decided",
	"output-available":   "input:* output:* errorText:! approval:granted?",
	"output-error":       "input:*? output:! errorText:s approval:granted?",
	"output-denied":      "input:* output:! errorText:! approval:denied",
}

func checkPart(raw []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	typ := bare(m["type"])
	if strings.HasPrefix(typ, "data-") {
		typ = "data-"
	}
	if typ == "dynamic-tool" {
		fields, known := toolFields[bare(m["state"])]
		if !known {
			return fmt.Errorf("state %s", m["state"])
		}
		return checkFields(m, "toolName:s toolCallId:s providerExecuted:bool? "+fields)
	}
	fields, known := partFields[typ]
	if !known {
		return fmt.Errorf("type %s", m["type"])
	}
	return checkFields(m, fields)
}

func checkFields(m map[string]json.RawMessage, fields string) error {
	for field := range strings.FieldsSeq(fields) {
		name, kind, _ := strings.Cut(field, ":")
		kind, optional := strings.CutSuffix(kind, "?")
		raw, present := m[name]
		if !present && !optional && kind != "!" || present && !fits(kind, raw) {
			return fmt.Errorf("%s is %s", name, raw)
		}
	}
	return nil
}

func fits(kind string, raw json.RawMessage) bool {
	switch kind {
	case "*":
		return true
	case "s":
		return raw[0] == '"'
	case "bool":
		return slices.Contains([]string{"true", "false"}, string(raw))
	case "progress":
		return slices.Contains([]string{"streaming", "done"}, bare(raw))
	case "asked", "decided", "granted", "denied":
		return fitsApproval(kind, raw)
	}
	return false
}

func fitsApproval(kind string, raw json.RawMessage) bool {
	var a map[string]json.RawMessage
	if err := json.Unmarshal(raw, &a); err != nil || a["id"] == nil || a["id"][0] != '"' {
		return false
	}
	_, reason := a["reason"]
	switch approved := string(a["approved"]); kind {
	case "asked":
		return approved == "" && !reason
	case "granted":
		return approved == "true"
	case "denied":
		return approved == "false"
	default:
		return approved == "true" || approved == "false"
	}
}

// bare returns the content of a JSON string without escapes.
func bare(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }
