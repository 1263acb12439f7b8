package fold

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// start returns the part of a call that starts, news the part of a call that gets an outcome.
func (w *reference) start(id, name string) *refPart {
	w.text = nil
	if p := w.calls[id]; p != nil && p.json != nil && !p.hasOutcome() && p.turn == w.turns {
		return p
	}
	p := w.part(map[string]any{"type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": "input-available"})
	if strings.HasPrefix(name, "subagent__") {
		p.json["providerExecuted"] = true
	}
	w.calls[id] = p
	return p
}

func (w *reference) news(id, name string) *refPart {
	p := w.calls[id]
	if p == nil {
		p = w.start(id, name)
		p.json["input"] = map[string]any{}
	}
	if p.json == nil || p.hasOutcome() {
		return nil
	}
	return p
}

// allowed omits an approval where the SDK rejects it, and adds an input where the SDK requires one.
func (p *refPart) allowed(j map[string]any) {
	asked, _ := j["approval"].(map[string]any)
	switch p.state() {
	case "input-streaming", "input-available":
		delete(j, "approval")
	case "output-available", "output-error":
		if asked["approved"] != true {
			delete(j, "approval")
		}
	}
	if _, present := j["input"]; !present && p.state() != "input-streaming" && p.state() != "output-error" {
		j["input"] = map[string]any{}
	}
}

func (w *reference) input(p *refPart, v any) {
	p.json["input"] = v
	p.text = ""
	if !strings.HasPrefix(p.state(), "approval-") {
		p.json["state"] = "input-available"
	}
}

func (w *reference) tool(body chunk.Body) bool {
	finish := func(name string) bool { return name == "__finish__" }
	switch b := body.(type) {
	case chunk.ToolArgStreamStart:
		if finish(b.ToolName) {
			if w.calls[b.ToolCallID] == nil {
				w.calls[b.ToolCallID] = &refPart{} // never shown
			}
			return true
		}
		p := w.start(b.ToolCallID, b.ToolName)
		p.json["state"], p.text = "input-streaming", ""
		delete(p.json, "input")
	case chunk.ToolArgStreamDelta:
		if p := w.calls[b.ToolCallID]; p != nil && p.state() == "input-streaming" {
			p.text = chunk.Concat(p.text, b.Delta)
		}
	case chunk.ToolArgStreamEnd:
	case chunk.ToolStart:
		if !finish(b.ToolName) {
			w.input(w.start(b.ToolCallID, b.ToolName), refParse(b.Arguments))
		}
	case chunk.ToolEnd:
		if finish(b.ToolName) {
			return true
		}
		if p := w.news(b.ToolCallID, b.ToolName); p != nil {
			if b.Error != nil {
				p.json["state"], p.json["errorText"] = "output-error", *b.Error
			} else {
				p.json["state"], p.json["output"] = "output-available", refParse(b.Result)
			}
			if b.ProviderExecuted != nil && *b.ProviderExecuted {
				p.json["providerExecuted"] = true
			}
			w.answered(b.ToolCallID)
		}
	case chunk.ToolInputError:
		if finish(b.ToolName) {
			return true
		}
		if p := w.news(b.ToolCallID, b.ToolName); p != nil {
			w.text = nil
			p.json["state"], p.json["errorText"], p.json["input"], p.json["providerExecuted"] = "output-error", b.Error, nil, true
			if b.PartialInput != nil {
				p.json["input"] = refParse(*b.PartialInput)
			}
			w.answered(b.ToolCallID)
		}
	case chunk.ToolOutputError:
		if finish(b.ToolName) {
			return true
		}
		if p := w.news(b.ToolCallID, b.ToolName); p != nil {
			p.json["state"], p.json["errorText"], p.json["providerExecuted"] = "output-error", b.Error, true
			w.answered(b.ToolCallID)
		}
	case chunk.ToolApprovalRequest:
		if finish(b.ToolName) {
			return true
		}
		p := w.start(b.ToolCallID, b.ToolName)
		w.input(p, refParse(b.Input))
		if b.IsAutomatic == nil {
			p.json["state"], p.json["approval"] = "approval-requested", map[string]any{"id": b.ApprovalID}
			w.await(b.ToolCallID, map[string]any{"deadline": w.until(), "kind": "approval", "toolCallId": b.ToolCallID, "toolName": b.ToolName, "approvalId": b.ApprovalID})
		}
	case chunk.ToolApprovalResponse:
		if finish(b.ToolName) {
			return true
		}
		p := w.news(b.ToolCallID, b.ToolName)
		if p == nil {
			return true
		}
		w.answered(b.ToolCallID)
		decided := map[string]any{"id": b.ApprovalID, "approved": b.Approved}
		if b.Reason != nil {
			decided["reason"] = *b.Reason
		}
		if !b.Approved {
			p.json["state"], p.json["approval"] = "output-denied", decided
		} else if p.state() == "approval-requested" {
			p.json["state"], p.json["approval"] = "approval-responded", decided
		}
	default:
		return false
	}
	return true
}

// children0 folds sub-agents, with one entry for each session.
func (w *reference) children0(body chunk.Body) bool {
	switch b := body.(type) {
	case chunk.SubagentStart:
		w.text = nil
		if had := w.children[b.SubSessionID]; had == nil || had["status"] != "running" || had["turn"] != w.turns {
			w.message()
			w.child(b.SubSessionID, map[string]any{"session": b.SubSessionID, "type": b.SubAgentType, "callId": b.CallID, "status": "running", "turn": w.turns})
		}
	case chunk.SubagentEnd:
		c := map[string]any{"session": b.SubSessionID, "type": b.SubAgentType, "callId": b.CallID, "status": "ended", "result": refParse(b.Result)}
		if had := w.children[b.SubSessionID]; had == nil || had["status"] != "running" || had["turn"].(int) < w.turns-1 {
			w.message() // the place of a sub-agent without a start
		}
		if m, ok := c["result"].(map[string]any); ok && m["error"] != nil {
			c["status"] = "failed"
		}
		w.child(b.SubSessionID, c)
	default:
		return false
	}
	return true
}

func (w *reference) child(id string, c map[string]any) {
	if w.children[id] == nil {
		w.order = append(w.order, id)
	}
	w.children[id] = c
}

func (w *reference) rest(body chunk.Body) {
	add := func(j map[string]any, title string, v *string) {
		if v != nil {
			j[title] = *v
		}
		w.part(j)
	}
	switch b := body.(type) {
	case chunk.TextDelta:
		w.applyChunk("text", b.Delta)
	case chunk.Thinking:
		w.think(b)
	case chunk.Custom:
		if !w.structured(b) {
			w.part(map[string]any{"type": "data-" + b.EventName, "data": refParse(b.Data)})
		}
	case chunk.File:
		w.text = nil
		add(map[string]any{"type": "file", "url": b.URL, "mediaType": b.MediaType}, "filename", b.Filename)
	case chunk.SourceURL:
		w.text = nil
		add(map[string]any{"type": "source-url", "sourceId": b.SourceID, "url": b.URL}, "title", b.Title)
	case chunk.SourceDocument:
		w.text = nil
		add(map[string]any{"type": "source-document", "sourceId": b.SourceID, "mediaType": b.MediaType, "title": b.Title}, "filename", b.Filename)
	case chunk.StatePatch:
		old := w.state
		if old == nil {
			old = map[string]any{}
		}
		if next, err := refPatch(old, b.Patches); err != nil {
			w.patches++
		} else {
			w.state = next
		}
	case chunk.StepStart:
		w.closeMessage()
		w.boundary = true
	case chunk.StepEnd:
		w.closeMessage()
		w.boundary = false
		if b.Usage != nil {
			w.usage[0] += 10
			w.usage[1] += 3
			if b.Usage.CachedTokens != nil {
				w.usage[2] += 7
			}
		}
	case chunk.RunInterrupted:
		w.text = nil
		if b.CheckpointID != nil {
			w.cp = *b.CheckpointID
		}
		if w.status == "active" {
			w.run["status"] = "interrupted"
			w.status, w.soft = "paused", true
		}
	case chunk.RunResumed:
		if w.status == "paused" && w.soft {
			w.run["status"] = "running"
			w.status, w.soft = "active", false
		}
	case chunk.RunPaused:
		w.text = nil
		w.awaitClient(*b.PendingToolCallID, w.until())
	case chunk.SuspensionMarker:
		deadline := refParse(b.Payload).(map[string]any)["deadline"]
		w.awaitClient("c1", deadline)
		w.awaitClient("c3", deadline)
	case chunk.CheckpointCreated:
		w.cp = b.CheckpointID
	case chunk.StreamResync:
		w.text, w.cp = nil, b.CheckpointID
	case chunk.Error:
		w.text = nil
		w.reported(b)
	case chunk.ExecutorSuperseded:
		w.text = nil
		w.runIs("running", "superseded")
	case chunk.Output:
		w.run["output"] = refParse(b.Output)
	}
}

func (w *reference) think(b chunk.Thinking) {
	piece := b.Content
	if b.IsComplete && w.text != nil && w.text.json["type"] == "reasoning" {
		piece = strings.TrimPrefix(piece, w.text.text)
	}
	w.applyChunk("reasoning", piece)
	if b.IsComplete && w.text != nil && w.text.json["type"] == "reasoning" {
		w.text = nil
	}
}
