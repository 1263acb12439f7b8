package fold

import (
	"encoding/hex"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The stored form is exact: every process writes the same bytes for a snapshot, including values of any depth and lone surrogates, which encoding/json would
// replace.

// AppendHead appends the stored form of s without its finished messages, except those after the last complete pack.
func (s Snapshot) AppendHead(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Int("version", Version)
	o.String("tenant", s.Session.Tenant)
	o.String("root", s.Session.Root)
	o.String("session", s.Session.ID)
	s.writeState(&o, nil)
	_, tail := s.messages.packs()
	o.List("tail", len(tail), func(dst []byte, i int) []byte { return append(dst, tail[i].Data...) })
	if s.turn != nil {
		o.Name("turn")
		o.Dst = s.turn.appendBase(o.Dst, &s)
	}
	if s.step != nil {
		o.Name("step")
		o.Dst = s.step.appendBase(o.Dst, &s)
	}
	return o.End()
}

// appendBase writes a snapshot inside another one.
func (s *Snapshot) appendBase(dst []byte, outer *Snapshot) []byte {
	o := rawjson.Begin(dst)
	s.writeState(&o, outer)
	return o.End()
}

func (s *Snapshot) writeState(o *rawjson.Object, outer *Snapshot) {
	o.Text("agentType", s.AgentType)
	if s.Owner != nil {
		o.Name("owner")
		o.Dst = appendOwner(o.Dst, s.Owner)
	}
	o.Int("seq", int64(s.Position.Seq))
	o.Int("ordinal", int64(s.Position.Ordinal))
	o.Int("epoch", int64(s.Epoch))
	o.Int("created", s.Created)
	o.Int("bytes", s.SessionBytes)
	if s.Anchor != 0 {
		o.Int("anchor", int64(s.Anchor))
	}
	o.Flag("deleted", s.deleted)
	o.String("status", string(s.Status))
	if s.Failure != nil {
		o.Name("failure")
		o.Dst = s.Failure.AppendJSON(o.Dst)
	}
	o.Name("run")
	o.Dst = s.Run.AppendJSON(o.Dst)
	o.Maybe("checkpointId", s.CheckpointID)
	o.String("records", s.chain.String())
	o.Int("recordsSince", int64(s.chain.FirstOrdinal))
	o.Name("usage")
	o.Dst = s.Usage.AppendJSON(o.Dst)
	s.writeLarge(o, outer)
	o.List("pending", len(s.Pending), func(dst []byte, i int) []byte { return s.Pending[i].append(dst) })
	o.Name("faults")
	o.Dst = s.Faults.AppendJSON(o.Dst)
	o.List("gone", len(s.removedAhead), func(dst []byte, i int) []byte {
		return appendPair(dst, s.removedAhead[i].First, s.removedAhead[i].Last)
	})
	o.Flag("stepStart", s.stepStart)
	o.List("replaced", len(s.replaced), func(dst []byte, i int) []byte {
		return appendPair(dst, int64(s.replaced[i].from), int64(s.replaced[i].to))
	})
	s.messages.write(o)
}

// writeLarge writes members that may be large. In a snapshot inside another one, a flag replaces a member that equals that of the outer snapshot.
func (s *Snapshot) writeLarge(o *rawjson.Object, outer *Snapshot) {
	if outer == nil {
		outer = &Snapshot{}
	}
	if s.State != nil && string(outer.State) == string(s.State) {
		o.Flag("sameState", true)
	} else {
		o.Raw("state", s.State)
	}
	switch {
	case s.streams.state == nil:
	case s.streams.state == outer.streams.state:
		o.Flag("sameStructured", true)
	case outer.streams.state == nil:
		o.Raw("structured", s.streams.state.AppendJSON(nil))
	default: // not the same in memory; after a load it would be
		unless(o, "sameStructured", "structured", s.streams.state.AppendJSON(nil), outer.streams.state.AppendJSON(nil))
	}
	writeList(o, "past", "samePast", s.PastRuns, outer.PastRuns, func(r Run, dst []byte) []byte { return r.AppendJSON(dst) })
	writeList(o, "errors", "sameErrors", s.Errors, outer.Errors, Error.AppendJSON)
}

// unless writes a value, or the member same if the value equals the other one.
func unless(o *rawjson.Object, same, name string, v, other chunk.Value) {
	if string(v) == string(other) {
		o.Flag(same, true)
		return
	}
	o.Raw(name, v)
}

// writeList writes a list, or the member same if it equals the other list. An empty list is left out.
func writeList[T any](o *rawjson.Object, name, same string, list, other []T, element func(T, []byte) []byte) {
	switch {
	case len(list) == 0:
	case len(list) != len(other):
		o.Name(name)
		o.Dst = rawjson.AppendList(o.Dst, list, element)
	case &list[0] == &other[0]:
		o.Flag(same, true)
	default: // not the same in memory; after a load it would be
		unless(o, same, name, rawjson.AppendList(nil, list, element), rawjson.AppendList(nil, other, element))
	}
}

// AppendJSON appends e as it is stored and as clients get it.
func (e Error) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Int("seq", int64(e.Seq))
	o.Text("runId", e.RunID)
	o.String("message", e.Message)
	o.Text("code", e.Code)
	o.Flag("recoverable", e.Recoverable)
	return o.End()
}

func (h *history) write(o *rawjson.Object) {
	o.Int("finished", int64(h.finishedCount()))
	o.Int("segments", int64(h.segments))
	if h.finishedCount() > 0 {
		o.String("chain", hex.EncodeToString(h.chain[:]))
	}
	o.List("generations", len(h.spans), func(dst []byte, i int) []byte {
		return appendPair(dst, int64(h.spans[i].from), int64(h.spans[i].generation))
	})
	o.Int("turnFirst", int64(h.firstOfTurn))
	o.Int("prevFirst", int64(h.prevFirst))
	o.Int("shown", int64(h.shown)+1) // counted from 1, so that none is 0
	o.List("dropped", len(h.dropped), func(dst []byte, i int) []byte { return rawjson.AppendQuoted(dst, h.dropped[i]) })
	o.List("open", len(h.open), func(dst []byte, i int) []byte { return appendMessage(dst, &h.open[i]) })
}

func appendPair(dst []byte, a, b int64) []byte {
	dst = append(dst, '[')
	dst = strconv.AppendInt(dst, a, 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, b, 10)
	return append(dst, ']')
}

// AppendJSON appends r as it is stored and as clients get it.
func (r *Run) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Text("id", r.ID)
	o.Text("status", string(r.Status))
	o.Int("epoch", int64(r.Epoch))
	o.Text("mode", r.Mode)
	o.Int("started", int64(r.StartSeq))
	o.Int("began", r.StartedAt)
	o.Int("step", r.Step)
	o.Maybe("checkpointId", r.CheckpointID)
	o.Text("finishReason", r.FinishReason)
	o.Flag("interrupted", r.Interrupted)
	o.Name("usage")
	o.Dst = r.Usage.AppendJSON(o.Dst)
	o.Raw("output", r.Output)
	if r.Parent != nil {
		o.Name("parent")
		p := rawjson.Begin(o.Dst)
		p.String("sessionId", r.Parent.SessionID)
		p.String("callId", r.Parent.CallID)
		o.Dst = p.End()
	}
	return o.End()
}

// AppendJSON appends u as it is stored and as clients get it.
func (u Usage) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Int("inputTokens", u.Input)
	o.Int("outputTokens", u.Output)
	o.Int("cachedTokens", u.Cached)
	o.Int("cacheWriteTokens", u.CacheWrite)
	return o.End()
}

// AppendJSON appends f as it is stored and as clients get it.
func (f *Failure) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("message", f.Message)
	if d := f.Detail; d != nil {
		o.Name("detail")
		in := rawjson.Begin(o.Dst)
		in.String("message", d.Message)
		in.Maybe("code", d.Code)
		in.Maybe("category", d.Category)
		in.Maybe("cause", d.Cause)
		if d.Retryable != nil {
			in.Bool("retryable", *d.Retryable)
		}
		o.Dst = in.End()
	}
	return o.End()
}

func (p Pending) append(dst []byte) []byte { return PendingCall{Pending: p}.AppendJSON(dst) }

// AppendJSON appends c as it is stored, and as clients get it with its input.
func (c PendingCall) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.String("kind", string(c.Kind))
	o.String("toolCallId", c.CallID)
	o.String("toolName", c.ToolName)
	o.Text("runId", c.RunID)
	o.Text("approvalId", c.ApprovalID)
	o.Int("deadline", c.Deadline)
	o.Raw("input", c.Input)
	return o.End()
}

// AppendJSON appends f as it is stored and as clients get it.
func (f *Faults) AppendJSON(dst []byte) []byte {
	o := rawjson.Begin(dst)
	o.Int("skipped", f.Skipped)
	o.Int("patches", f.RejectedPatches)
	o.Int("streams", f.RejectedPieces)
	o.Int("lost", f.Lost)
	o.List("recent", len(f.Recent), func(dst []byte, i int) []byte {
		m := rawjson.Begin(dst)
		m.Int("seq", int64(f.Recent[i].Position.Seq))
		m.Int("ordinal", int64(f.Recent[i].Position.Ordinal))
		m.String("type", string(f.Recent[i].Type))
		m.String("reason", f.Recent[i].Reason)
		return m.End()
	})
	return o.End()
}

func appendOwner(dst []byte, p *chunk.Principal) []byte {
	o := rawjson.Begin(dst)
	o.String("subject", p.Subject)
	o.Maybe("issuer", p.Issuer)
	return o.End()
}
