package view

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/tailrace/tailrace/projector/fold"
)

// Snapshot returns what is shown of a session: what a client has that followed its stream with Record. The snapshots of the dialects are written from it. It changes
// nothing of the argument.
func (c *Chat) Snapshot(of fold.Content) fold.Content {
	if c == nil {
		return of
	}
	shown := fold.Content{
		Session: of.Session, Position: of.Position, Anchor: of.Anchor, Status: of.Status, RunID: c.runID(of.RunID), Before: of.Before,
		Run: fold.Run{ID: c.runID(of.Run.ID), StartedAt: of.Run.StartedAt},
	}
	isHiddenAgent := !of.Session.IsRoot() && !c.subAgents
	switch {
	case of.Failure != nil && c.failure && !isHiddenAgent:
		shown.Failure = of.Failure
	case of.Failure != nil:
		shown.Failure = &fold.Failure{}
	}
	if isHiddenAgent {
		return shown
	}
	shown.Messages = c.messages(of.Messages, of.Session.IsRoot())
	if c.calls {
		for _, p := range of.Pending {
			shown.Pending = append(shown.Pending, c.pending(p))
		}
	}
	if c.parts["data"] {
		shown.Structured = of.Structured
	}
	if c.state {
		shown.State = of.State
	}
	if c.output != showNothing {
		shown.Run.Output = c.output.of(of.Run.Output, "")
	}
	if c.checkpoints {
		shown.CheckpointID = of.CheckpointID
	}
	return shown
}

// messages returns what is shown of messages, without those of which that is nothing. As in chatPage, the heading of a step is left out if nothing of the step is
// shown; a step may be several messages.
func (c *Chat) messages(list []fold.Message, isRoot bool) []fold.Message {
	var out []fold.Message
	heading, omits := -1, false // the message that ends with a heading, and whether parts after the last one that is shown are hidden
	endStep := func() {
		if heading >= 0 && omits {
			m := &out[heading]
			m.Parts = m.Parts[:len(m.Parts)-1]
		}
		heading, omits = -1, false
	}
	for i := range list {
		m := &list[i]
		if m.Hidden || m.Replaced {
			continue
		}
		last := len(out)
		if last > 0 && out[last-1].Shown != m.Shown {
			endStep()
		}
		out = append(out, c.head(m))
		for j := range m.Parts {
			p := &m.Parts[j]
			begins := p.Kind == fold.PartStepStart
			if begins {
				endStep()
			}
			if !c.shows(m.Role, p, isRoot) {
				omits = true
				continue
			}
			out[last].Parts = append(out[last].Parts, c.part(p))
			if heading, omits = -1, false; begins {
				heading = last
			}
		}
	}
	endStep()
	return slices.DeleteFunc(out, func(m fold.Message) bool { return len(m.Parts) == 0 })
}

// head returns what is shown of a message besides its parts.
func (c *Chat) head(of *fold.Message) fold.Message {
	m := *of
	m.Parts, m.Children = nil, nil
	if !c.metadata {
		m.Metadata = nil
	}
	if !c.clientIDs {
		m.ClientID = ""
	}
	return m
}

// shows reports whether a part is shown.
func (c *Chat) shows(role fold.Role, p *fold.Part, isRoot bool) bool {
	if role == fold.User {
		shown := p.Kind == fold.PartText && c.contents || p.Kind == fold.PartFile && c.files || p.Kind == fold.PartData && c.data
		return shown && c.showsInput(isRoot)
	}
	switch p.Kind {
	case fold.PartCall:
		return c.calls
	case fold.PartStepStart:
		return true
	case fold.PartSource:
		return c.parts[word(p.AppendJSON(nil), "type")]
	case fold.PartText, fold.PartReasoning, fold.PartFile, fold.PartData:
	}
	return c.parts[string(p.Kind)]
}

// part returns a part that is shown, without what is hidden of a call, and without the members that only the AI SDK has.
func (c *Chat) part(of *fold.Part) fold.Part {
	p := *of
	p.ProviderMetadata = nil
	if p.Call == nil {
		return p
	}
	call := *p.Call
	call.Extra = nil
	if !c.toolNames {
		call.Name, call.Static = "", false
	}
	if c.inputs != showAll {
		call.ReplaceInput(c.inputs.of(call.Input, hiddenInput))
	}
	call.Output = c.results.of(call.Output, "null")
	if !c.errors && call.State == fold.CallFailed {
		call.Error = ""
	}
	if a := call.Approval; a != nil && a.Reason != nil && !c.reasons {
		call.Approval = &fold.Approval{ID: a.ID, Approved: a.Approved}
		if call.State == fold.CallDenied {
			call.Error = fold.Denial("")
		}
	}
	p.Call = &call
	return p
}

func (c *Chat) pending(p fold.PendingCall) fold.PendingCall {
	p.RunID, p.Deadline = "", 0
	if !c.toolNames {
		p.ToolName = ""
	}
	if p.Input = c.inputs.of(p.Input, hiddenInput); c.inputs == showNothing {
		p.Input = []byte(hiddenInput) // also if it is not known
	}
	return p
}

// runID returns what is shown of the id of a run: runs with the same id continue each other, so clients compare ids.
func (c *Chat) runID(id string) string {
	if c.runIDs || id == "" {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
