package fold

import (
	"encoding/hex"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// The stored form is written by hand, because it must be exact: the same
// snapshot is the same bytes for everybody, values of any depth and lone
// surrogates included, and encoding/json would replace the latter.

// object writes the members of one JSON object.
type object struct {
	dst   []byte
	begun bool
}

func beginObject(dst []byte) object { return object{dst: append(dst, '{')} }

func (o *object) end() []byte { return append(o.dst, '}') }

func (o *object) name(name string) {
	if o.begun {
		o.dst = append(o.dst, ',')
	}
	o.begun = true
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, '"', ':')
}

func (o *object) str(name, v string) {
	o.name(name)
	o.dst = appendString(o.dst, v)
}

// text, number, flag and value leave the member out when it says nothing.
func (o *object) text(name, v string) {
	if v != "" {
		o.str(name, v)
	}
}

func (o *object) maybe(name string, v *string) {
	if v != nil {
		o.str(name, *v)
	}
}

func (o *object) number(name string, v int64) {
	if v != 0 {
		o.name(name)
		o.dst = strconv.AppendInt(o.dst, v, 10)
	}
}

func (o *object) flag(name string, v bool) {
	if v {
		o.name(name)
		o.dst = append(o.dst, "true"...)
	}
}

func (o *object) value(name string, v chunk.Value) {
	if v != nil {
		o.name(name)
		o.dst = append(o.dst, v...)
	}
}

// list writes an array member of n elements, if there are any.
func (o *object) list(name string, n int, element func(dst []byte, i int) []byte) {
	if n == 0 {
		return
	}
	o.name(name)
	o.dst = append(o.dst, '[')
	for i := range n {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = element(o.dst, i)
	}
	o.dst = append(o.dst, ']')
}

// AppendHead appends the stored form of s without its finished messages.
func (s Snapshot) AppendHead(dst []byte) []byte {
	o := beginObject(dst)
	o.number("version", Version)
	o.str("tenant", s.Session.Tenant)
	o.str("root", s.Session.Root)
	o.str("session", s.Session.ID)
	s.writeState(&o, nil)
	if s.turn != nil {
		o.name("turn")
		o.dst = s.turn.appendBase(o.dst, &s)
	}
	if s.step != nil {
		o.name("step")
		o.dst = s.step.appendBase(o.dst, &s)
	}
	return o.end()
}

// appendBase writes a snapshot inside another one.
func (s *Snapshot) appendBase(dst []byte, outer *Snapshot) []byte {
	o := beginObject(dst)
	s.writeState(&o, outer)
	return o.end()
}

func (s *Snapshot) writeState(o *object, outer *Snapshot) {
	o.text("agentType", s.AgentType)
	o.number("seq", int64(s.Position.Seq))
	o.number("ordinal", int64(s.Position.Ordinal))
	o.number("epoch", int64(s.Epoch))
	o.number("created", s.Created)
	o.flag("deleted", s.deleted)
	o.str("status", string(s.Status))
	if s.Failure != nil {
		o.name("failure")
		o.dst = s.Failure.append(o.dst)
	}
	o.name("run")
	o.dst = s.Run.append(o.dst)
	o.maybe("checkpointId", s.CheckpointID)
	o.str("records", s.chain.String())
	o.number("recordsSince", int64(s.chain.Since))
	o.name("usage")
	o.dst = s.Usage.append(o.dst)
	s.writeLarge(o, outer)
	o.list("pending", len(s.Pending), func(dst []byte, i int) []byte { return s.Pending[i].append(dst) })
	o.name("faults")
	o.dst = s.Faults.append(o.dst)
	o.list("gone", len(s.gone), func(dst []byte, i int) []byte {
		return appendPair(dst, s.gone[i].First, s.gone[i].Last)
	})
	o.flag("stepStart", s.stepStart)
	o.list("replaced", len(s.replaced), func(dst []byte, i int) []byte {
		return appendPair(dst, int64(s.replaced[i].from), int64(s.replaced[i].to))
	})
	s.messages.write(o)
}

// writeLarge writes what may be large. In a snapshot inside another one it mostly
// is the same as outside, and is only said to be.
func (s *Snapshot) writeLarge(o *object, outer *Snapshot) {
	if outer == nil {
		outer = &Snapshot{}
	}
	if s.State != nil && string(outer.State) == string(s.State) {
		o.flag("sameState", true)
	} else {
		o.value("state", s.State)
	}
	switch {
	case s.streams.state == nil:
	case s.streams.state == outer.streams.state:
		o.flag("sameStructured", true)
	case outer.streams.state == nil:
		o.value("structured", s.streams.state.AppendJSON(nil))
	default: // not the same in memory; after a load it would be
		o.unless("sameStructured", "structured", s.streams.state.AppendJSON(nil), outer.streams.state.AppendJSON(nil))
	}
	writeList(o, "past", "samePast", s.Past, outer.Past, func(r Run, dst []byte) []byte { return r.append(dst) })
	writeList(o, "errors", "sameErrors", s.Errors, outer.Errors, Error.append)
}

// unless writes a value, or that it is the same as another one.
func (o *object) unless(same, name string, v, other chunk.Value) {
	if string(v) == string(other) {
		o.flag(same, true)
		return
	}
	o.value(name, v)
}

// writeList writes a list, or that it is the same as another one. An empty one is
// left out.
func writeList[T any](o *object, name, same string, list, other []T, element func(T, []byte) []byte) {
	switch {
	case len(list) == 0:
	case len(list) != len(other):
		o.name(name)
		o.dst = appendList(o.dst, list, element)
	case &list[0] == &other[0]:
		o.flag(same, true)
	default: // not the same in memory; after a load it would be
		o.unless(same, name, appendList(nil, list, element), appendList(nil, other, element))
	}
}

func (e Error) append(dst []byte) []byte {
	o := beginObject(dst)
	o.number("seq", int64(e.Seq))
	o.text("runId", e.RunID)
	o.str("message", e.Message)
	o.text("code", e.Code)
	o.flag("recoverable", e.Recoverable)
	return o.end()
}

func (h *history) write(o *object) {
	o.number("finished", int64(h.finishedCount()))
	if h.finishedCount() > 0 {
		o.str("chain", hex.EncodeToString(h.chain[:]))
	}
	o.list("generations", len(h.spans), func(dst []byte, i int) []byte {
		return appendPair(dst, int64(h.spans[i].from), int64(h.spans[i].generation))
	})
	o.number("turnFirst", int64(h.turnFirst))
	o.number("prevFirst", int64(h.prevFirst))
	o.number("shown", int64(h.shown)+1) // counted from 1, so that none is 0
	o.list("dropped", len(h.dropped), func(dst []byte, i int) []byte { return appendString(dst, h.dropped[i]) })
	o.list("open", len(h.open), func(dst []byte, i int) []byte { return appendMessage(dst, &h.open[i]) })
}

func appendPair(dst []byte, a, b int64) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendInt(dst, a, 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, b, 10)
	return append(dst, ']')
}

func (r *Run) append(dst []byte) []byte {
	o := beginObject(dst)
	o.text("id", r.ID)
	o.text("status", string(r.Status))
	o.number("epoch", int64(r.Epoch))
	o.text("mode", r.Mode)
	o.number("started", int64(r.Started))
	o.number("began", r.Began)
	o.number("step", r.Step)
	o.maybe("checkpointId", r.CheckpointID)
	o.text("finishReason", r.FinishReason)
	o.flag("interrupted", r.Interrupted)
	o.name("usage")
	o.dst = r.Usage.append(o.dst)
	o.value("output", r.Output)
	if r.Parent != nil {
		o.name("parent")
		p := beginObject(o.dst)
		p.str("sessionId", r.Parent.SessionID)
		p.str("callId", r.Parent.CallID)
		o.dst = p.end()
	}
	return o.end()
}

func (u Usage) append(dst []byte) []byte {
	o := beginObject(dst)
	o.number("inputTokens", u.Input)
	o.number("outputTokens", u.Output)
	o.number("cachedTokens", u.Cached)
	o.number("cacheWriteTokens", u.CacheWrite)
	return o.end()
}

func (f *Failure) append(dst []byte) []byte {
	o := beginObject(dst)
	o.str("message", f.Message)
	if d := f.Detail; d != nil {
		o.name("detail")
		in := beginObject(o.dst)
		in.str("message", d.Message)
		in.maybe("code", d.Code)
		in.maybe("category", d.Category)
		in.maybe("cause", d.Cause)
		if d.Retryable != nil {
			in.name("retryable")
			in.dst = strconv.AppendBool(in.dst, *d.Retryable)
		}
		o.dst = in.end()
	}
	return o.end()
}

func (p Pending) append(dst []byte) []byte {
	o := beginObject(dst)
	p.write(&o)
	return o.end()
}

func (p Pending) write(o *object) {
	o.str("kind", string(p.Kind))
	o.str("toolCallId", p.CallID)
	o.str("toolName", p.ToolName)
	o.text("runId", p.RunID)
	o.text("approvalId", p.ApprovalID)
	o.number("deadline", p.Deadline)
}

func (f *Faults) append(dst []byte) []byte {
	o := beginObject(dst)
	o.number("skipped", f.Skipped)
	o.number("patches", f.Patches)
	o.number("streams", f.Streams)
	o.number("lost", f.Lost)
	o.list("recent", len(f.Recent), func(dst []byte, i int) []byte {
		m := beginObject(dst)
		m.number("seq", int64(f.Recent[i].Position.Seq))
		m.number("ordinal", int64(f.Recent[i].Position.Ordinal))
		m.str("type", string(f.Recent[i].Type))
		m.str("reason", f.Recent[i].Reason)
		return m.end()
	})
	return o.end()
}
