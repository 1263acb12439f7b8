package fold

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// FrontendSnapshot is the snapshot that a browser loads: the six members of spec section 5.1 and in addition the session, its
// sub-agents, the pending calls, the runs, the open structured data and the errors.
//
//	{"state":…,"messages":[…],"streamSequence":17,"status":"active",
//	 "checkpointId":null,"timestamp":1760000000000,
//	 "session":{"tenant":"t","root":"r","id":"s","agentType":"a"},
//	 "children":[…],"pendingCalls":[…],"usage":{…},
//	 "chain":{"since":1,"sum":"…"},                        of the records up to streamSequence
//	 "run":{…},"pastRuns":[…],"structured":[…],
//	 "errors":[…],"error":{…},"faults":{…},                if there are any
//	 "before":"msg-4"}                                     of a MessagePage; null if there are no older messages
type FrontendSnapshot struct {
	State          chunk.Value // nil is written as null
	Messages       []UIMessage
	StreamSequence chunk.Seq     // resume after it: no record is missing or duplicated
	Ordinal        chunk.Ordinal // of the record at StreamSequence; not part of the JSON
	Status         Status
	CheckpointID   *string
	Timestamp      int64 // Unix milliseconds
	Session        chunk.Session
	AgentType      string
	Children       []Child
	PendingCalls   []PendingCall
	Usage          Usage
	Chain          Chain
	Run            Run
	PastRuns       []Run
	Structured     []chunk.Value // open streams, as structured.Stream.AppendView writes them
	Errors         []Error
	Failure        *Failure
	Faults         Faults

	// Before is set if Messages are a page of the conversation, see MessagePage: the id to request older ones with, empty if
	// there are none.
	Before *string
}

// UIMessage is a message in the form of the AI SDK.
type UIMessage struct {
	ID       string
	Role     Role
	Parts    []chunk.Value
	Metadata chunk.Value // nil for none
}

// PendingCall is a pending call with its input.
type PendingCall struct {
	Pending

	Input chunk.Value // nil if unknown
}

// MessageID returns the id of the message with an index in the history of the session.
func MessageID(index int) string { return messagePrefix + strconv.Itoa(index) }

const messagePrefix = "msg-"

// Frontend returns s as a browser loads it. Without partial it omits an answer in flight, and everything is in the state just
// before that answer, including the cursor: the stream from there contains the whole answer, with the same ids. With partial
// the snapshot covers everything up to its position; it is for reading, not for resuming a chat.
//
// Frontend omits hidden messages. The snapshot must be HasAllMessages.
func (s Snapshot) Frontend(partial bool, timestamp int64) FrontendSnapshot {
	at := s.visible(partial)
	list := at.all()
	f := at.frontend(&s, list, timestamp)
	f.Messages = at.uiMessages(list)
	return f
}

// visible returns s, or the state of s before the answer in flight.
func (s Snapshot) visible(partial bool) Snapshot {
	if s.InFlight() && !partial {
		return s.restore(s.turn)
	}
	return s
}

// frontend returns the visible form of s without its messages, with the current status of the session; list holds the messages
// whose sub-agents are shown.
func (s *Snapshot) frontend(now *Snapshot, list []message, timestamp int64) FrontendSnapshot {
	f := FrontendSnapshot{
		State: s.State, StreamSequence: s.Position.Seq, Ordinal: s.Position.Ordinal, Status: now.Status, CheckpointID: s.CheckpointID,
		Timestamp: timestamp, Session: s.Session, AgentType: now.AgentType,
		Usage: s.Usage, Failure: s.Failure, Faults: s.Faults,
		Chain: s.chain, Run: s.Run, PastRuns: s.PastRuns, Structured: s.streams.openStreams(), Errors: s.Errors,
		PendingCalls: s.pendingCalls(),
	}
	for i := range list {
		f.Children = append(f.Children, list[i].children...)
	}
	f.Children = latestChildren(f.Children)
	return f
}

// all returns the messages of s. It decodes the finished ones.
func (s *Snapshot) all() []message {
	list := make([]message, 0, len(s.messages.finished)+len(s.messages.open))
	r := reader{}
	for _, f := range s.messages.finished {
		list = append(list, r.message(f.Data))
	}
	return append(list, s.messages.open...)
}

// uiMessages joins the steps of a turn to one message, and omits hidden, replaced and empty ones.
func (s *Snapshot) uiMessages(list []message) []UIMessage {
	var out []UIMessage
	var parts uiParts
	last := noMessage // index of the last message of out
	for i := range list {
		m := &list[i]
		if len(m.parts) == 0 || isHidden(m.metadata) || s.isReplaced(m.index) {
			continue
		}
		if last == noMessage || m.shown != last {
			last = m.shown
			out = append(out, UIMessage{ID: MessageID(m.shown), Role: m.role})
			parts = newUIParts()
		}
		ui := &out[len(out)-1]
		if m.metadata != nil {
			ui.Metadata = m.metadata
		}
		for j := range m.parts {
			ui.Parts = parts.add(ui.Parts, &m.parts[j])
		}
	}
	return out
}

// isHidden reports whether the metadata of a message hides it from users: a member "hidden" that is true, or "true".
func isHidden(metadata chunk.Value) bool {
	if !isObject(metadata) {
		return false
	}
	m, err := members(metadata)
	if err != nil {
		return false
	}
	flag := string(m["hidden"])
	return flag == "true" || flag == `"true"`
}

// latestChildren returns the last entry of each sub-agent, in the place of its first: the end of a sub-agent may have an entry
// apart from its start.
func latestChildren(list []Child) []Child {
	place := make(map[string]int, len(list))
	var out []Child
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

func (s *Snapshot) pendingCalls() []PendingCall {
	var out []PendingCall
	for _, p := range s.Pending {
		call := PendingCall{Pending: p}
		if t, _ := s.find(p.CallID); t != nil {
			call.Input = t.input
		}
		out = append(out, call)
	}
	return slices.Clip(out)
}

// MarshalJSON implements json.Marshaler.
func (f FrontendSnapshot) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// AppendJSON appends f as one line of JSON.
func (f FrontendSnapshot) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Raw("state", orNull(f.State))
	o.Name("messages")
	o.Dst = appendList(o.Dst, f.Messages, UIMessage.AppendJSON)
	o.Name("streamSequence")
	o.Dst = strconv.AppendUint(o.Dst, uint64(f.StreamSequence), 10)
	o.String("status", string(f.Status))
	if f.CheckpointID == nil {
		o.Raw("checkpointId", orNull(nil))
	}
	o.Maybe("checkpointId", f.CheckpointID)
	o.Name("timestamp")
	o.Dst = strconv.AppendInt(o.Dst, f.Timestamp, 10)
	o.Name("session")
	id := rawjson.Begin(o.Dst)
	id.String("tenant", f.Session.Tenant)
	id.String("root", f.Session.Root)
	id.String("id", f.Session.ID)
	id.Text("agentType", f.AgentType)
	o.Dst = id.End()
	o.Name("children")
	o.Dst = appendList(o.Dst, f.Children, Child.append)
	o.Name("pendingCalls")
	o.Dst = appendList(o.Dst, f.PendingCalls, PendingCall.append)
	o.Name("usage")
	o.Dst = f.Usage.append(o.Dst)
	o.Name("chain")
	c := rawjson.Begin(o.Dst)
	c.Int("since", int64(f.Chain.FirstOrdinal))
	c.String("sum", f.Chain.String())
	o.Dst = c.End()
	if f.Run.Status != "" {
		o.Name("run")
		o.Dst = f.Run.append(o.Dst)
	}
	appendIfAny(&o, "pastRuns", f.PastRuns, func(r Run, dst []byte) []byte { return r.append(dst) })
	appendIfAny(&o, "structured", f.Structured, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
	appendIfAny(&o, "errors", f.Errors, Error.append)
	if f.Failure != nil {
		o.Name("error")
		o.Dst = f.Failure.append(o.Dst)
	}
	if f.Faults.Skipped+f.Faults.RejectedPatches+f.Faults.RejectedPieces+f.Faults.Lost > 0 {
		// The counts without the reasons: reasons are for operators.
		o.Name("faults")
		counts := Faults{Skipped: f.Faults.Skipped, RejectedPatches: f.Faults.RejectedPatches, RejectedPieces: f.Faults.RejectedPieces, Lost: f.Faults.Lost}
		o.Dst = counts.append(o.Dst)
	}
	switch {
	case f.Before == nil:
	case *f.Before == "":
		o.Raw("before", orNull(nil))
	default:
		o.String("before", *f.Before)
	}
	return o.End()
}

// appendIfAny writes a list unless it is empty.
func appendIfAny[T any](o *rawjson.Object, name string, list []T, element func(T, []byte) []byte) {
	if len(list) > 0 {
		o.Name(name)
		o.Dst = appendList(o.Dst, list, element)
	}
}

func appendList[T any](dst []byte, list []T, element func(T, []byte) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(v, dst)
	}
	return append(dst, ']')
}

// AppendJSON appends m as one line of JSON.
func (m UIMessage) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("id", m.ID)
	o.String("role", string(m.Role))
	o.Name("parts")
	o.Dst = appendList(o.Dst, m.Parts, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
	o.Raw("metadata", m.Metadata)
	return o.End()
}

func (c PendingCall) append(dst []byte) []byte {
	o := rawjson.Begin(dst)
	c.write(&o)
	o.Raw("input", c.Input)
	return o.End()
}
