package observe

import "github.com/tailrace/tailrace/chunk"

// apply changes the state of s by the present record, and adds the rows of what it begins and ends.
func (f *Folder) apply(s *session) {
	switch f.rec.Type {
	case chunk.TypeTextDelta: // most records are; their chunk is decoded only where it is needed
		f.output(s)
		if b, ok := shownBody[chunk.TextDelta](f); ok {
			f.addText(s, b.Delta)
		}
		return
	case chunk.TypeThinking, chunk.TypeToolArgStreamDelta:
		f.output(s)
		return
	case chunk.TypeStatePatch, chunk.TypeCustom: // rows of events only
		return
	}
	if !f.decode() {
		return
	}
	switch b := f.c.Body.(type) {
	case chunk.RunStarted:
		f.runStarted(s, b)
	case chunk.StreamPaused:
		f.paused(s)
	case chunk.StreamActive:
		f.continued(s)
	case chunk.RunResumed:
		if s.run != nil && s.run.row.Status == interrupted {
			f.continued(s)
		}
	case chunk.StreamEnd:
		f.streamEnd(s, b)
	case chunk.StreamFailed:
		f.streamFailed(s, b)
	case chunk.RunInterrupted:
		f.runInterrupted(s)
	case chunk.ExecutorSuperseded:
		f.superseded(s)
	case chunk.RunPaused:
		if b.PendingToolCallID != nil {
			f.awaitClient(s, *b.PendingToolCallID, deadlineOf(f.c.Extra))
		}
	case chunk.SuspensionMarker:
		f.suspended(s, b)
	case chunk.Output:
		if s.run != nil {
			shown, _ := shownBody[chunk.Output](f)
			s.run.final = &output{shown: shown.Output, size: len(b.Output)}
		}
	case chunk.StepStart:
		f.stepStart(s, b)
	case chunk.StepEnd:
		f.stepEnd(s, b)
	case chunk.Truncated:
		f.truncated(s, b)
	default:
		f.applyTool(s)
	}
}

// applyTool applies the records of calls.
func (f *Folder) applyTool(s *session) {
	switch b := f.c.Body.(type) {
	case chunk.ToolArgStreamStart:
		f.output(s)
		f.callStarts(s, b.ToolCallID, b.ToolName, nil)
	case chunk.ToolStart:
		f.output(s)
		shown, _ := shownBody[chunk.ToolStart](f)
		f.callStarts(s, b.ToolCallID, b.ToolName, &input{shown: shown.Arguments, size: len(b.Arguments)})
	case chunk.ToolApprovalRequest:
		shown, _ := shownBody[chunk.ToolApprovalRequest](f)
		f.approvalRequest(s, b, &input{shown: shown.Input, size: len(b.Input)})
	case chunk.ToolApprovalResponse:
		f.approvalResponse(s, b)
	case chunk.ToolEnd:
		f.toolEnd(s, b)
	case chunk.ToolInputError:
		f.toolInputError(s, b)
	case chunk.ToolOutputError:
		shown, _ := shownBody[chunk.ToolOutputError](f)
		f.outcome(s, outcome{id: b.ToolCallID, tool: b.ToolName, status: failed, text: shown.Error})
	case chunk.SubagentStart:
		if c := s.calls[b.CallID]; c != nil && !c.ended() {
			c.delegated = true
		}
	case chunk.SubagentEnd:
		f.subagentEnd(s, b)
	}
}
