package fold

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
)

// maxMessages is more than any session has; a larger number means corrupt data.
const maxMessages = 1 << 24

var errStored = errors.New("corrupt stored snapshot")

// AppendHead appends the stored form of s without its finished messages, except those after the last complete pack.
func (s Snapshot) AppendHead(dst []byte) []byte {
	f := form{out: rawjson.Begin(dst)}
	f.out.Int("version", Version)
	f.out.String("tenant", s.Session.Tenant)
	f.out.String("root", s.Session.Root)
	f.out.String("session", s.Session.ID)
	s.fields(&f, &Snapshot{})
	_, tail := s.messages.packs()
	f.out.List("tail", len(tail), func(dst []byte, i int) []byte { return append(dst, tail[i].Data...) })
	inner := func(v *Snapshot, f *form) { v.fields(f, &s) }
	optionalMember(&f, "turn", &s.turn, inner)
	optionalMember(&f, "step", &s.step, inner)
	return f.out.End()
}

// ParseHead reads the output of AppendHead: a snapshot without its finished messages. It returns ErrVersion, ErrNewerVersion, or another error for corrupt
// data. It does not keep a reference to data.
func ParseHead(data []byte) (Snapshot, error) {
	head, err := members(append([]byte(nil), data...))
	if err != nil {
		return Snapshot{}, fmt.Errorf("%w: %w", errStored, err)
	}
	r := reader{}
	v := r.number(head["version"])
	if r.err != nil {
		return Snapshot{}, r.err
	}
	if v > Version {
		return Snapshot{}, fmt.Errorf("%w: %d, want %d", ErrNewerVersion, v, Version)
	}
	if v < Version {
		return Snapshot{}, fmt.Errorf("%w: %d, want %d", ErrVersion, v, Version)
	}
	id := chunk.Session{Tenant: r.str(head["tenant"]), Root: r.str(head["root"]), ID: r.str(head["session"])}
	s, f := Snapshot{Session: id}, form{in: head, r: &r}
	s.fields(&f, &Snapshot{})
	inner := func(v *Snapshot, f *form) {
		v.Session = id
		v.fields(f, &s)
	}
	optionalMember(&f, "turn", &s.turn, inner)
	optionalMember(&f, "step", &s.step, inner)
	if r.err != nil {
		return Snapshot{}, r.err
	}
	return s, nil
}

// fields are those of a snapshot inside of outer, or of a whole one, whose outer is empty.
func (s *Snapshot) fields(f *form, outer *Snapshot) {
	textMember(f, "agentType", &s.AgentType)
	optionalMember(f, "owner", &s.Owner, func(p *chunk.Principal, f *form) {
		stringMember(f, "subject", &p.Subject)
		f.maybe("issuer", &p.Issuer)
	})
	optionalMember(f, "origin", &s.Origin, originFields)
	numberMember(f, "seq", &s.Position.Seq)
	numberMember(f, "ordinal", &s.Position.Ordinal)
	numberMember(f, "epoch", &s.Epoch)
	numberMember(f, "created", &s.Created)
	numberMember(f, "bytes", &s.SessionBytes)
	numberMember(f, "anchor", &s.Anchor)
	f.flag("deleted", &s.deleted)
	stringMember(f, "status", &s.Status)
	optionalMember(f, "failure", &s.Failure, (*Failure).fields)
	objectMember(f, "run", &s.Run, (*Run).fields)
	f.maybe("checkpointId", &s.CheckpointID)
	sum := s.chain.String()
	stringMember(f, "records", &sum)
	if f.r != nil {
		f.r.hash("records", sum, &s.chain.sum)
	}
	numberMember(f, "recordsSince", &s.chain.FirstOrdinal)
	objectMember(f, "usage", &s.Usage, (*Usage).fields)
	objectMember(f, "counts", &s.counts, (*counts).fields)
	s.large(f, outer)
	objectsMember(f, "pending", &s.Pending, pendingFields)
	objectMember(f, "faults", &s.Faults, (*Faults).fields)
	pairsMember(f, "gone", &s.removedAhead, func(r *chunk.OrdinalRange) (*int64, *int64) { return &r.First, &r.Last })
	f.flag("stepStart", &s.stepStart)
	pairsMember(f, "replaced", &s.branches, func(b *branch) (*int, *int) { return &b.from, &b.to })
	s.messages.fields(f)
}

func originFields(o *chunk.ForkOrigin, f *form) {
	stringMember(f, "session", &o.Session)
	numberMember(f, "sequence", &o.Sequence)
	f.maybe("anchor", &o.Anchor)
	f.maybe("run", &o.Run)
	numberMember(f, "step", &o.Step)
	numberMember(f, "depth", &o.Depth)
}

// large are members that may be large. In a snapshot inside another one, a flag replaces a member that equals that of the outer snapshot; when they are read, both
// share memory.
func (s *Snapshot) large(f *form, outer *Snapshot) {
	same := s.State != nil && string(outer.State) == string(s.State)
	if f.r != nil || !same {
		f.raw("state", &s.State)
	}
	if f.flag("sameState", &same); f.r != nil && same {
		s.State = outer.State
	}
	if f.r != nil {
		s.readStructured(f, outer)
	} else if state := s.streams.state; state != nil {
		text := state.AppendJSON(nil)
		same := state == outer.streams.state || outer.streams.state != nil && bytes.Equal(text, outer.streams.state.AppendJSON(nil))
		if !same {
			f.out.Raw("structured", text)
		}
		f.out.Flag("sameStructured", same)
	}
	sharedMember(f, "past", "samePast", &s.PastRuns, outer.PastRuns, (*Run).fields)
	sharedMember(f, "errors", "sameErrors", &s.Errors, outer.Errors, errorFields)
}

func (s *Snapshot) readStructured(f *form, outer *Snapshot) {
	if raw, ok := f.in["structured"]; ok {
		state, err := structured.Parse(raw)
		if err != nil {
			f.r.fail(err.Error())
		}
		s.streams.state = state
	}
	if f.r.flag(f.in["sameStructured"]) {
		s.streams = outer.streams.base()
	}
}

func (h *history) fields(f *form) {
	finished, chain, shown := h.finishedCount(), "", h.shown+1 // counted from 1, so that none is 0
	if finished > 0 {
		chain = hex.EncodeToString(h.chain[:])
	}
	numberMember(f, "finished", &finished)
	numberMember(f, "segments", &h.segments)
	textMember(f, "chain", &chain)
	pairsMember(f, "generations", &h.spans, func(s *span) (*int, *chunk.Ordinal) { return &s.from, &s.generation })
	numberMember(f, "turnFirst", &h.firstOfTurn)
	numberMember(f, "prevFirst", &h.prevFirst)
	numberMember(f, "shown", &shown)
	listMember(f, "dropped", &h.dropped, func(dst []byte, id *string) []byte { return rawjson.AppendQuoted(dst, *id) }, f.r.str)
	objectsMember(f, "open", &h.open, (*message).fields)
	if f.r != nil {
		h.trimmed, h.shown = finished, shown-1
		h.complete(f, chain)
	}
}

// complete checks what was read, and adds the messages after the last pack. Only the outermost snapshot has them.
func (h *history) complete(f *form, chain string) {
	r := f.r
	if h.trimmed < 0 || h.trimmed > maxMessages {
		r.fail("the number of finished messages")
		h.trimmed = 0
	}
	if h.segments < 0 || h.segments > h.trimmed {
		r.fail("the number of segments")
		h.segments = 0
	}
	for i := range h.open {
		if h.open[i].index != h.trimmed-h.segments+i {
			r.fail("open messages are not in order")
		}
	}
	if h.trimmed > 0 {
		r.hash("chain", chain, &h.chain)
	}
	r.each(f.in["tail"], func(raw []byte) { h.finished = append(h.finished, FinishedMessage{Data: raw}) })
	if len(h.finished) > h.trimmed {
		r.fail("the number of finished messages")
		h.finished = nil
	}
	h.trimmed -= len(h.finished)
	for i := range h.finished {
		m := &h.finished[i]
		m.Index = h.trimmed + i
		m.Generation = h.generation(m.Index)
	}
}

// AppendJSON appends r as it is stored and as clients get it.
func (r *Run) AppendJSON(dst []byte) []byte { return appendForm(dst, r, (*Run).fields) }

func (r *Run) fields(f *form) {
	textMember(f, "id", &r.ID)
	textMember(f, "status", &r.Status)
	numberMember(f, "epoch", &r.Epoch)
	textMember(f, "mode", &r.Mode)
	numberMember(f, "started", &r.StartSeq)
	numberMember(f, "began", &r.StartedAt)
	numberMember(f, "step", &r.Step)
	f.maybe("checkpointId", &r.CheckpointID)
	textMember(f, "finishReason", &r.FinishReason)
	f.flag("interrupted", &r.Interrupted)
	objectMember(f, "usage", &r.Usage, (*Usage).fields)
	f.raw("output", &r.Output)
	optionalMember(f, "parent", &r.Parent, func(p *chunk.Parent, f *form) {
		stringMember(f, "sessionId", &p.SessionID)
		stringMember(f, "callId", &p.CallID)
	})
}

// AppendJSON appends e as it is stored and as clients get it.
func (e Error) AppendJSON(dst []byte) []byte { return appendForm(dst, &e, errorFields) }

func errorFields(e *Error, f *form) {
	numberMember(f, "seq", &e.Seq)
	textMember(f, "runId", &e.RunID)
	stringMember(f, "message", &e.Message)
	textMember(f, "code", &e.Code)
	f.flag("recoverable", &e.Recoverable)
}

// AppendJSON appends u as it is stored and as clients get it.
func (u Usage) AppendJSON(dst []byte) []byte { return appendForm(dst, &u, (*Usage).fields) }

func (u *Usage) fields(f *form) {
	numberMember(f, "inputTokens", &u.Input)
	numberMember(f, "outputTokens", &u.Output)
	numberMember(f, "cachedTokens", &u.Cached)
	numberMember(f, "cacheWriteTokens", &u.CacheWrite)
}

// AppendJSON appends x as it is stored and as clients get it.
func (x *Failure) AppendJSON(dst []byte) []byte { return appendForm(dst, x, (*Failure).fields) }

func (x *Failure) fields(f *form) {
	stringMember(f, "message", &x.Message)
	optionalMember(f, "detail", &x.Detail, func(d *chunk.ErrorDetail, f *form) {
		stringMember(f, "message", &d.Message)
		f.maybe("code", &d.Code)
		f.maybe("category", &d.Category)
		f.maybe("cause", &d.Cause)
		if raw, ok := f.in["retryable"]; ok {
			d.Retryable = new(f.r.flag(raw))
		}
		if f.r == nil && d.Retryable != nil {
			f.out.Bool("retryable", *d.Retryable)
		}
	})
}

// AppendJSON appends c as clients get it, with its input.
func (c PendingCall) AppendJSON(dst []byte) []byte {
	return appendForm(dst, &c, func(c *PendingCall, f *form) {
		pendingFields(c, f)
		f.raw("input", &c.Input)
	})
}

func pendingFields(p *PendingCall, f *form) {
	stringMember(f, "kind", &p.Kind)
	stringMember(f, "toolCallId", &p.CallID)
	stringMember(f, "toolName", &p.ToolName)
	textMember(f, "runId", &p.RunID)
	textMember(f, "approvalId", &p.ApprovalID)
	numberMember(f, "deadline", &p.Deadline)
}

// AppendJSON appends x as it is stored and as clients get it.
func (x *Faults) AppendJSON(dst []byte) []byte { return appendForm(dst, x, (*Faults).fields) }

func (x *Faults) fields(f *form) {
	numberMember(f, "skipped", &x.Skipped)
	numberMember(f, "patches", &x.RejectedPatches)
	numberMember(f, "streams", &x.RejectedPieces)
	numberMember(f, "lost", &x.Lost)
	objectsMember(f, "recent", &x.Recent, func(x *Fault, f *form) {
		numberMember(f, "seq", &x.Position.Seq)
		numberMember(f, "ordinal", &x.Position.Ordinal)
		stringMember(f, "type", &x.Type)
		stringMember(f, "reason", &x.Reason)
	})
}
