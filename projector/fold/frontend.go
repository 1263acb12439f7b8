package fold

import (
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// FrontendSnapshot is what a browser loads: the six members of spec section 5.1
// and, beside them, the session, its sub-agents, the calls that wait for
// somebody, the runs, the structured data that still grows and what went wrong.
//
//	{"state":…,"messages":[…],"streamSequence":17,"status":"active",
//	 "checkpointId":null,"timestamp":1760000000000,
//	 "session":{"tenant":"t","root":"r","id":"s","agentType":"a"},
//	 "children":[…],"pendingCalls":[…],"usage":{…},
//	 "chain":{"since":1,"sum":"…"},                        of the records up to streamSequence
//	 "run":{…},"pastRuns":[…],"structured":[…],
//	 "errors":[…],"error":{…},"faults":{…},                if there are any
//	 "before":"msg-4"}                                     of a Page; null when nothing is older
type FrontendSnapshot struct {
	State          chunk.Value // nil is written as null
	Messages       []UIMessage
	StreamSequence chunk.Seq     // resume after it, and nothing is missed or doubled
	Ordinal        chunk.Ordinal // of the record there; not part of the JSON
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
	Structured     []chunk.Value // streams that grow, as structured.Stream.AppendView writes them
	Errors         []Error
	Failure        *Failure
	Faults         Faults

	// Before is set when Messages are a part of the conversation, see Page: the id
	// to ask for older ones with, empty when there are none.
	Before *string
}

// UIMessage is a message in the shape of the AI SDK.
type UIMessage struct {
	ID       string
	Role     Role
	Parts    []chunk.Value
	Metadata chunk.Value // nil for none
}

// PendingCall is a call that waits, with its input.
type PendingCall struct {
	Pending

	Input chunk.Value // nil when it is not known
}

// MessageID is the id of the message with an index in the session's history.
func MessageID(index int) string { return messagePrefix + strconv.Itoa(index) }

const messagePrefix = "msg-"

// Frontend is s as a browser loads it. An answer in flight is left out unless
// partial is asked for, and then everything is as it stood just before that
// answer began, the cursor included: the stream from there brings the whole
// answer, under the same ids. With partial the snapshot is everything up to its
// position; it is for reading, not for resuming in a chat.
//
// Hidden messages are left out. The snapshot must be Complete.
func (s Snapshot) Frontend(partial bool, timestamp int64) FrontendSnapshot {
	at := s.shownAt(partial)
	list := at.all()
	f := at.frontend(&s, list, timestamp)
	f.Messages = at.shownMessages(list)
	return f
}

// shownAt is s, or s as it stood before the answer in flight.
func (s Snapshot) shownAt(partial bool) Snapshot {
	if s.InFlight() && !partial {
		return s.restored(s.turn)
	}
	return s
}

// frontend is what is shown of s but for its messages, with what the session is
// by now; list is the messages whose sub-agents are shown.
func (s *Snapshot) frontend(now *Snapshot, list []message, timestamp int64) FrontendSnapshot {
	f := FrontendSnapshot{
		State: s.State, StreamSequence: s.Position.Seq, Ordinal: s.Position.Ordinal, Status: now.Status, CheckpointID: s.CheckpointID,
		Timestamp: timestamp, Session: s.Session, AgentType: now.AgentType,
		Usage: s.Usage, Failure: s.Failure, Faults: s.Faults,
		Chain: s.chain, Run: s.Run, PastRuns: s.Past, Structured: s.streams.growing(), Errors: s.Errors,
		PendingCalls: s.pendingCalls(),
	}
	for i := range list {
		f.Children = append(f.Children, list[i].children...)
	}
	f.Children = latest(f.Children)
	return f
}

// all are the messages of s, the finished ones read anew.
func (s *Snapshot) all() []message {
	list := make([]message, 0, len(s.messages.finished)+len(s.messages.open))
	r := reader{}
	for _, f := range s.messages.finished {
		list = append(list, r.message(f.Data))
	}
	return append(list, s.messages.open...)
}

// shownMessages joins the steps of a turn to one message, drops the hidden ones,
// the replaced ones and those that say nothing.
func (s *Snapshot) shownMessages(list []message) []UIMessage {
	var out []UIMessage
	var shown shownParts
	last := noMessage // index of the message that out ends with
	for i := range list {
		m := &list[i]
		if len(m.parts) == 0 || hidden(m.metadata) || s.isReplaced(m.index) {
			continue
		}
		if last == noMessage || m.shown != last {
			last = m.shown
			out = append(out, UIMessage{ID: MessageID(m.shown), Role: m.role})
			shown = newShown()
		}
		ui := &out[len(out)-1]
		if m.metadata != nil {
			ui.Metadata = m.metadata
		}
		for j := range m.parts {
			ui.Parts = shown.add(ui.Parts, &m.parts[j])
		}
	}
	return out
}

// hidden reports whether the metadata of a message says that people are not
// shown it: a member "hidden" that is true, or "true".
func hidden(metadata chunk.Value) bool {
	if !isContainer(metadata) || metadata[space(metadata, 0)] != '{' {
		return false
	}
	m, err := members(metadata)
	if err != nil {
		return false
	}
	flag := string(m["hidden"])
	return flag == "true" || flag == `"true"`
}

// latest keeps the last entry of each sub-agent, at the place of its first: the
// end of one may be listed apart from its start.
func latest(list []Child) []Child {
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

// MarshalJSON is AppendJSON for encoding/json.
func (f FrontendSnapshot) MarshalJSON() ([]byte, error) { return f.AppendJSON(nil), nil }

// AppendJSON appends f as one line of JSON.
func (f FrontendSnapshot) AppendJSON(dst []byte) []byte {
	o := beginObject(dst)
	o.value("state", orNull(f.State))
	o.name("messages")
	o.dst = appendList(o.dst, f.Messages, UIMessage.AppendJSON)
	o.name("streamSequence")
	o.dst = strconv.AppendUint(o.dst, uint64(f.StreamSequence), 10)
	o.str("status", string(f.Status))
	if f.CheckpointID == nil {
		o.value("checkpointId", orNull(nil))
	}
	o.maybe("checkpointId", f.CheckpointID)
	o.name("timestamp")
	o.dst = strconv.AppendInt(o.dst, f.Timestamp, 10)
	o.name("session")
	id := beginObject(o.dst)
	id.str("tenant", f.Session.Tenant)
	id.str("root", f.Session.Root)
	id.str("id", f.Session.ID)
	id.text("agentType", f.AgentType)
	o.dst = id.end()
	o.name("children")
	o.dst = appendList(o.dst, f.Children, Child.append)
	o.name("pendingCalls")
	o.dst = appendList(o.dst, f.PendingCalls, PendingCall.append)
	o.name("usage")
	o.dst = f.Usage.append(o.dst)
	o.name("chain")
	c := beginObject(o.dst)
	c.number("since", int64(f.Chain.Since))
	c.str("sum", f.Chain.String())
	o.dst = c.end()
	if f.Run.Status != "" {
		o.name("run")
		o.dst = f.Run.append(o.dst)
	}
	some(&o, "pastRuns", f.PastRuns, func(r Run, dst []byte) []byte { return r.append(dst) })
	some(&o, "structured", f.Structured, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
	some(&o, "errors", f.Errors, Error.append)
	if f.Failure != nil {
		o.name("error")
		o.dst = f.Failure.append(o.dst)
	}
	if f.Faults.Skipped+f.Faults.Patches+f.Faults.Streams+f.Faults.Lost > 0 {
		// How much, not why: reasons are for those who run this.
		o.name("faults")
		counts := Faults{Skipped: f.Faults.Skipped, Patches: f.Faults.Patches, Streams: f.Faults.Streams, Lost: f.Faults.Lost}
		o.dst = counts.append(o.dst)
	}
	switch {
	case f.Before == nil:
	case *f.Before == "":
		o.value("before", orNull(nil))
	default:
		o.str("before", *f.Before)
	}
	return o.end()
}

// some writes a list, if there is anything in it.
func some[T any](o *object, name string, list []T, element func(T, []byte) []byte) {
	if len(list) > 0 {
		o.name(name)
		o.dst = appendList(o.dst, list, element)
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
	o := beginObject(dst)
	o.str("id", m.ID)
	o.str("role", string(m.Role))
	o.name("parts")
	o.dst = appendList(o.dst, m.Parts, func(v chunk.Value, dst []byte) []byte { return append(dst, v...) })
	o.value("metadata", m.Metadata)
	return o.end()
}

func (c PendingCall) append(dst []byte) []byte {
	o := beginObject(dst)
	c.write(&o)
	o.value("input", c.Input)
	return o.end()
}
