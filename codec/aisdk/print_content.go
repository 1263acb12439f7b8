package aisdk

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// block opens a chunk of the open text of an agent: its start, a delta or its end. Its id depends on the log only, so all edges use the same one.
func block(f *turn.Frames, a *turn.Agent, of string) {
	kind := "text-"
	if a.Block.Kind == turn.ReasoningBlock {
		kind = "reasoning-"
	}
	f.Open(kind + of)
	f.Dst = append(f.Dst, `,"id":"`...)
	f.Dst = append(f.Dst, byte(a.Block.Kind))
	f.Dst = strconv.AppendUint(f.Dst, uint64(a.Block.At), 10)
	if !a.Own() {
		f.Dst = append(f.Dst, '-')
		f.Dst = append(f.Dst, a.Session...) // an id has no character that JSON or SSE escapes, see subjects.CheckID
	}
	f.Dst = append(f.Dst, '"')
}

// piece writes a piece of the open text of an agent.
func (p *printer) piece(f *turn.Frames, e *turn.Event) {
	if !e.Agent.Own() {
		p.markVisible(e)
	}
	of, metadata := turn.PieceOf{Part: e.Agent, At: e.Agent.Block.At}, e.Item.Part().ProviderMetadata
	if metadata == nil && f.Grow(e.Text, of) {
		return
	}
	block(f, e.Agent, "delta")
	optional(f, "providerMetadata", metadata)
	f.Piece("delta", e.Text, of)
}

// content writes parts other than texts and calls, and notices.
func (p *printer) content(f *turn.Frames, e *turn.Event) {
	switch e.Kind {
	case turn.Part:
		p.part(f, e)
	case turn.Data:
		p.data(f, e)
	case turn.AgentOpen:
		if e.Item.By.Own() {
			p.beginPart(f, e)
		}
		if !e.Alone {
			p.delegation(f, e, "subagent-start", "subAgentType", "subSessionId", "callId")
		}
	case turn.AgentClose:
		p.delegation(f, e, "subagent-end", "subAgentType", "subSessionId", "callId", "result")
	case turn.State:
		p.notice(f, e, "state-patch", "patches")
	case turn.Output:
		p.beginNotice(f, e, "output", nil)
		sanitized(f, "output", e.Item.Get("output"))
		endNotice(f)
	case turn.Error, turn.AgentFail:
		p.recoverable(f, e)
	case turn.Notice:
		p.signal(f, e)
	case turn.Other:
		p.other(f, e)
	}
}

// part writes a complete part: members of the record under a chunk type.
func (p *printer) part(f *turn.Frames, e *turn.Event) {
	p.beginPart(f, e)
	f.Open(strings.ReplaceAll(string(e.Item.Rec.Type), "_", "-"))
	if e.Item.Rec.Type == chunk.TypeFile {
		pass(f, e.Item, "url", "mediaType") // clients reject other members
	} else {
		e.Item.WriteNotice(&f.Object)
	}
	optional(f, "providerMetadata", e.Item.Part().ProviderMetadata)
	f.Shut()
}

// signal writes a notice about the current state of the run. A replay leaves it out. The state of a sub-agent's run is not part of the message.
func (p *printer) signal(f *turn.Frames, e *turn.Event) {
	if !e.Item.IsNotice() || !e.Agent.Own() || e.Turn.Replays() {
		return
	}
	p.beginNotice(f, e, strings.ReplaceAll(string(e.Item.Rec.Type), "_", "-"), nil)
	e.Item.WriteNotice(&f.Object)
	endNotice(f)
}

// notice writes members of the record as transient data. The client does not keep them: otherwise the message would grow with each notice, and every POST
// would return them to the server.
func (p *printer) notice(f *turn.Frames, e *turn.Event, name string, members ...string) {
	p.beginNotice(f, e, name, nil)
	pass(f, e.Item, members...)
	endNotice(f)
}

// beginNotice opens the data of a notice. A notice of a sub-agent names it.
func (p *printer) beginNotice(f *turn.Frames, e *turn.Event, name string, id []byte) {
	f.Open("data-" + name)
	if id != nil {
		f.Content("id", id)
	}
	f.Nest("data")
	if by := e.Item.By; !by.Own() {
		f.String("agentId", by.Session)
	}
}

func endNotice(f *turn.Frames) {
	f.Dst = append(f.Dst, `},"transient":true`...)
	f.Shut()
}

// other writes a chunk of a sub-agent unchanged, as a notice.
func (p *printer) other(f *turn.Frames, e *turn.Event) {
	it := e.Item
	if p.opt.SubAgents != Data || e.Turn.Replays() || it.Rec.Type == chunk.TypeToolApprovalResponse || it.Text("toolName") == turn.FinishTool {
		return
	}
	line := it.JSON()
	if it.IsPiece() {
		line = it.Rec.Data
	}
	f.Open("data-subagent-chunk")
	f.Nest("data")
	f.String("subSessionId", e.Agent.Session)
	sanitized(f, "chunk", line)
	endNotice(f)
}

// delegation writes a notice of a sub-agent under the id of its call. The call's tool part stays in the message and has the same result.
func (p *printer) delegation(f *turn.Frames, e *turn.Event, name string, members ...string) {
	callID := e.Item.Text("callId")
	id, ok := e.Turn.ShownID(turn.CallKey{Agent: e.Item.By.Session, ID: callID})
	if !ok {
		id = callID
	}
	p.beginNotice(f, e, name, rawjson.AppendEscaped(nil, id))
	for _, n := range members {
		sanitized(f, n, e.Item.Get(n))
	}
	endNotice(f)
}

// recoverable writes an error that does not end the answer: one of a sub-agent, or a recoverable one. The client takes an error chunk for the end.
func (p *printer) recoverable(f *turn.Frames, e *turn.Event) {
	own, it := e.Agent.Own(), e.Item
	if e.Turn.Replays() || own && !it.Is("recoverable") {
		return
	}
	name := "subagent-error"
	if own {
		name = "error"
	}
	p.beginNotice(f, e, name, nil)
	f.Raw("errorText", it.Get("error"))
	code := it.Get("code")
	if code == nil {
		code = it.Get("errorDetail", "code")
	}
	optional(f, "code", code)
	optional(f, "category", it.Get("errorDetail", "category"))
	optional(f, "retryable", it.Get("errorDetail", "retryable"))
	pass(f, it, "recoverable")
	endNotice(f)
}

// custom writes an event of the application. It is a part of the message; an event of a sub-agent is a part only if its other parts are. Sub-agents have no message
// whose metadata theirs could be.
func (p *printer) custom(f *turn.Frames, e *turn.Event) {
	switch e.Item.Text("eventName") {
	case chunk.MetadataEvent:
		if v := chunk.MessageMetadata(e.Item.Get("data")); v != nil && e.Agent.Own() {
			p.beginPart(f, e)
			f.Open("message-metadata")
			sanitized(f, "messageMetadata", v)
			f.Shut()
		}
		return
	case chunk.PreliminaryEvent:
		p.preliminary(f, e)
		return
	}
	part := e.Item.Part()
	if part.Transient && e.Turn.Replays() {
		return
	}
	stays := !part.Transient && (e.Agent.Own() || p.opt.SubAgents == Inline)
	if stays {
		p.beginPart(f, e)
	}
	p.event(f, e, part.ID, !stays)
}

// event writes the part of an event. The ids of sub-agents are their own.
func (p *printer) event(f *turn.Frames, e *turn.Event, id chunk.Value, transient bool) {
	f.Open("data-" + string(e.Item.Content("eventName")))
	if id != nil {
		content := rawjson.Text(id).Content()
		if !e.Agent.Own() {
			content = slices.Concat([]byte(dialect.CallID(e.Agent.Session, "")), content)
		}
		f.Content("id", content)
	}
	sanitized(f, "data", e.Item.Get("data"))
	f.Flag("transient", transient)
	f.Shut()
}

// data writes an event of the application, or structured data as the snapshot shows it: pieces as notices, the complete value as a part. A value in the message that is invalid is marked there.
func (p *printer) data(f *turn.Frames, e *turn.Event) {
	if e.Is == turn.DataPart {
		p.custom(f, e)
		return
	}
	p.valueAt = e.Item.Rec.Ordinal
	switch e.Is {
	case turn.PiecePart, turn.InvalidPiece:
		if !e.Turn.Replays() {
			p.event(f, e, nil, true)
		}
	case turn.ValuePart:
		p.beginPart(f, e)
		f.Open("data-structured")
		f.String("id", e.Stream.Labels.StreamID)
		sanitized(f, "data", e.Stream.AppendValue(nil))
		f.Shut()
	case turn.InvalidPart:
		p.beginPart(f, e)
		f.Open("data-structured")
		f.Raw("id", e.Item.Get("data", "streamId"))
		f.Raw("data", []byte(`{"status":"invalidated"}`))
		f.Shut()
	}
}
