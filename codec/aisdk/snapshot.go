package aisdk

import (
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// FrontendSnapshot is the snapshot that a browser loads: the six members of docs/protocol/stream.md#helix-5.1 and in addition
// the session, its sub-agents, the pending calls, the runs, the open structured data and the errors.
//
//	{"state":…,"messages":[…],"streamSequence":17,"status":"active",
//	 "checkpointId":null,"timestamp":1760000000000,
//	 "session":{"tenant":"t","root":"r","id":"s","agentType":"a"},
//	 "children":[…],"pendingCalls":[…],"usage":{…},
//	 "chain":{"since":1,"sum":"…"},                        of the records up to streamSequence
//	 "run":{…},"pastRuns":[…],"origin":{"session":"s0","sequence":41,"anchor":"mgj6k2aa","run":"…","step":3},"structured":[…],
//	 "errors":[…],"error":{…},"faults":{…},                if there are any
//	 "branches":{"msg-4":["msg-2","msg-4","msg-8"]},       by the message that is shown, if there are any
//	 "before":"msg-4"}                                     of a Page; null if there are no older messages
type FrontendSnapshot struct {
	State          chunk.Value // nil is written as null
	Messages       []UIMessage
	StreamSequence chunk.Seq     // resume after it: no record is missing or duplicated
	Ordinal        chunk.Ordinal // of the record at StreamSequence; not part of the JSON
	Status         fold.Status
	CheckpointID   *string
	Timestamp      int64 // Unix milliseconds
	Session        chunk.Session
	AgentType      string
	Children       []fold.Child
	PendingCalls   []fold.PendingCall
	Usage          fold.Usage
	Chain          fold.Chain
	Run            fold.Run
	PastRuns       []fold.Run
	Origin         *chunk.ForkOrigin // nil for a session that is not a fork
	Structured     []chunk.Value     // open streams, as structured.Stream.AppendShown writes them
	Errors         []fold.Error
	Failure        *fold.Failure
	Faults         fold.Faults
	Branches       map[string][]string // see fold.Snapshot.Branches

	// Before is set if Messages are a page of the conversation, see Page: the id to request older ones with, empty if
	// there are none.
	Before *string
}

// UIMessage is a message in the form of the AI SDK.
type UIMessage struct {
	ID       string
	Role     fold.Role
	Parts    []chunk.Value
	Metadata chunk.Value // nil for none
}

// SnapshotOptions selects what a FrontendSnapshot shows.
type SnapshotOptions struct {
	// Partial includes an answer in flight: everything up to the position of the snapshot, for reading and not for resuming a chat. Otherwise everything is
	// in the state just before that answer, including the cursor: the stream from there has the whole answer, with the same ids.
	Partial bool

	// Checkpoint is the id of a checkpoint, which the last record of the snapshot must have saved; nil for none. It shows everything up to that record as a
	// session that has ended. Clients read it, or start again from it.
	Checkpoint *string

	Timestamp int64 // Unix milliseconds

	// SubAgents returns the messages of the sub-agents that the messages of a list called, and of those that these called, by session. Their output becomes
	// parts of the list's messages, like that of a stream with Inline. The output of a session that it omits is not shown. It is called once; nil for none.
	SubAgents func(list []fold.Message) map[string][]fold.Message

	// Answered, if not nil, sets the outcome of a call that has an answer and waits according to the log: its run waits for other answers, too.
	Answered func(call *fold.ToolCall)

	// ClientTool is that of the Options of the stream. It is called for the calls of sub-agents.
	ClientTool func(name string) bool
}

// Snapshot returns s as a browser loads it, without hidden messages. s must be HasAllMessages.
func Snapshot(s fold.Snapshot, o SnapshotOptions) FrontendSnapshot {
	at := s
	if !o.Partial && o.Checkpoint == nil {
		at = s.BeforeAnswer()
	}
	list := at.AllMessages()
	eachCall(list, o.Answered)
	if o.Checkpoint != nil {
		closeTexts(list)
	}
	var agents *inlineAgents
	if o.SubAgents != nil {
		agents = &inlineAgents{messages: o.SubAgents(list), clientTool: o.ClientTool}
	}
	f := snapshotOf(&at, &s, list, agents, o.Timestamp)
	if o.Checkpoint != nil {
		f.Status, f.CheckpointID, f.Failure = fold.Ended, o.Checkpoint, nil
	}
	return f
}

// eachCall calls f, if not nil, for the calls of messages.
func eachCall(list []fold.Message, f func(*fold.ToolCall)) {
	if f == nil {
		return
	}
	for i := range list {
		for _, p := range list[i].Parts {
			if p.Call != nil {
				f(p.Call)
			}
		}
	}
}

// closeTexts ends the texts that more was to follow.
func closeTexts(list []fold.Message) {
	for i := range list {
		for j := range list[i].Parts {
			list[i].Parts[j].Streaming = false
		}
	}
}

// Page returns what a browser loads, with only the messages of a page and the sub-agents that they called.
func Page(p *fold.MessagePage, timestamp int64) FrontendSnapshot {
	at, now := p.Snapshot(), p.Current()
	list, older := p.Messages()
	f := snapshotOf(&at, &now, list, nil, timestamp)
	f.Before = &older
	return f
}

// snapshotOf returns the form of at, with the current status of the session; list has the messages that are shown.
func snapshotOf(at, now *fold.Snapshot, list []fold.Message, agents *inlineAgents, timestamp int64) FrontendSnapshot {
	f := FrontendSnapshot{
		State: at.State, Messages: uiMessages(list, agents), StreamSequence: at.Position.Seq, Ordinal: at.Position.Ordinal, Status: now.Status,
		CheckpointID: at.CheckpointID, Timestamp: timestamp, Session: at.Session, AgentType: now.AgentType,
		Usage: at.Usage, Failure: at.Failure, Faults: at.Faults,
		Chain: at.Chain(), Run: at.Run, PastRuns: at.PastRuns, Origin: now.Origin, Structured: at.OpenData(), Errors: at.Errors,
		PendingCalls: at.PendingCalls(), Branches: at.Branches(),
	}
	for i := range list {
		f.Children = append(f.Children, list[i].Children...)
	}
	f.Children = latestChildren(f.Children)
	return f
}

// UIMessages joins the steps of a turn to one message, and omits hidden, replaced and empty ones.
func UIMessages(list []fold.Message) []UIMessage { return uiMessages(list, nil) }

// uiMessages is UIMessages with the output of sub-agents, none if agents is nil.
func uiMessages(list []fold.Message, agents *inlineAgents) []UIMessage {
	var out []UIMessage
	var parts uiParts
	last := -1 // index of the last message of out
	for i := range list {
		m := &list[i]
		if m.Hidden || m.Replaced {
			agents.omit(m.Children)
			continue
		}
		begins := last < 0 || m.Shown != last
		var shown []chunk.Value
		if begins {
			parts = uiParts{calls: map[string]bool{}, data: map[dataKey]int{}, agents: agents}
		} else {
			shown = out[len(out)-1].Parts
		}
		before := len(shown)
		shown = parts.addMessage(shown, m, "")
		if len(m.Parts) == 0 && len(shown) == before {
			continue
		}
		if begins {
			last = m.Shown
			out = append(out, UIMessage{ID: fold.MessageID(m.Shown), Role: m.Role})
		}
		ui := &out[len(out)-1]
		ui.Parts = shown
		if ui.Metadata = fold.MergeMetadata(ui.Metadata, m.Metadata); m.Role == fold.Assistant && ui.Metadata != nil {
			ui.Metadata = AppendSanitized(nil, ui.Metadata)
		}
	}
	return out
}

// latestChildren returns the last entry of each sub-agent, in the place of its first: the end of a sub-agent may have an entry
// apart from its start.
func latestChildren(list []fold.Child) []fold.Child {
	place := make(map[string]int, len(list))
	var out []fold.Child
	for _, c := range list {
		if i, ok := place[c.Session]; ok {
			out[i] = c
			continue
		}
		place[c.Session] = len(out)
		out = append(out, c)
	}
	return out
}

// MarshalJSON implements json.Marshaler.
func (f FrontendSnapshot) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// AppendJSON appends f as one line of JSON.
func (f FrontendSnapshot) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Raw("state", dialect.OrNull(f.State))
	rawjson.AddList(&o, "messages", f.Messages, UIMessage.AppendJSON)
	o.Number("streamSequence", int64(f.StreamSequence))
	o.String("status", string(f.Status))
	if f.CheckpointID == nil {
		o.Raw("checkpointId", null)
	}
	o.Maybe("checkpointId", f.CheckpointID)
	o.Number("timestamp", f.Timestamp)
	o.Nest("session")
	o.String("tenant", f.Session.Tenant)
	o.String("root", f.Session.Root)
	o.String("id", f.Session.ID)
	o.Text("agentType", f.AgentType)
	o.Close()
	rawjson.AddList(&o, "children", f.Children, fold.Child.AppendJSON)
	rawjson.AddList(&o, "pendingCalls", f.PendingCalls, fold.PendingCall.AppendJSON)
	o.Name("usage")
	o.Dst = f.Usage.AppendJSON(o.Dst)
	o.Nest("chain")
	o.Int("since", int64(f.Chain.FirstOrdinal))
	o.String("sum", f.Chain.String())
	o.Close()
	if f.Run.Status != "" {
		o.Name("run")
		o.Dst = f.Run.AppendJSON(o.Dst)
	}
	o.List("pastRuns", len(f.PastRuns), func(dst []byte, i int) []byte { return f.PastRuns[i].AppendJSON(dst) })
	if origin := f.Origin; origin != nil {
		o.Nest("origin")
		o.String("session", origin.Session)
		o.Number("sequence", origin.Sequence)
		o.Maybe("anchor", origin.Anchor)
		o.Maybe("run", origin.Run)
		o.Number("step", origin.Step)
		o.Close()
	}
	o.List("structured", len(f.Structured), func(dst []byte, i int) []byte { return append(dst, f.Structured[i]...) })
	o.List("errors", len(f.Errors), func(dst []byte, i int) []byte { return f.Errors[i].AppendJSON(dst) })
	if f.Failure != nil {
		o.Name("error")
		o.Dst = f.Failure.AppendJSON(o.Dst)
	}
	if f.Faults.Skipped+f.Faults.RejectedPatches+f.Faults.RejectedPieces+f.Faults.Lost > 0 {
		// The counts without the reasons: reasons are for operators.
		o.Name("faults")
		counts := fold.Faults{Skipped: f.Faults.Skipped, RejectedPatches: f.Faults.RejectedPatches, RejectedPieces: f.Faults.RejectedPieces, Lost: f.Faults.Lost}
		o.Dst = counts.AppendJSON(o.Dst)
	}
	if len(f.Branches) > 0 {
		o.Nest("branches")
		for _, shown := range slices.Sorted(maps.Keys(f.Branches)) {
			o.List(shown, len(f.Branches[shown]), func(dst []byte, i int) []byte { return rawjson.AppendQuoted(dst, f.Branches[shown][i]) })
		}
		o.Close()
	}
	if f.Before != nil {
		o.TextOrNull("before", *f.Before)
	}
	return o.End()
}

// MarshalJSON implements json.Marshaler.
func (m UIMessage) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// AppendJSON appends m as one line of JSON.
func (m UIMessage) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("id", m.ID)
	o.String("role", string(m.Role))
	rawjson.AddList(&o, "parts", m.Parts, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
	o.Raw("metadata", m.Metadata)
	return o.End()
}
