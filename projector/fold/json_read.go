package fold

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
)

// maxMessages is more than any session has; a larger number means corrupt data.
const maxMessages = 1 << 24

var errStored = errors.New("corrupt stored snapshot")

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
	s := r.snapshot(id, head, nil)
	if raw, ok := head["turn"]; ok {
		turn := r.snapshot(id, r.members(raw), &s)
		s.turn = &turn
	}
	if raw, ok := head["step"]; ok {
		step := r.snapshot(id, r.members(raw), &s)
		s.step = &step
	}
	if r.err != nil {
		return Snapshot{}, r.err
	}
	return s, nil
}

// reader reads the stored form and keeps the first error.
type reader struct{ err error }

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errStored, what)
	}
}

func (r *reader) snapshot(id chunk.Session, m map[string]chunk.Value, outer *Snapshot) Snapshot {
	s := Snapshot{
		Session:      id,
		AgentType:    r.str(m["agentType"]),
		Position:     chunk.Position{Seq: chunk.Seq(r.number(m["seq"])), Ordinal: chunk.Ordinal(r.number(m["ordinal"]))},
		Epoch:        chunk.Epoch(r.number(m["epoch"])),
		Created:      r.number(m["created"]),
		SessionBytes: r.number(m["bytes"]),
		Anchor:       chunk.Anchor(r.number(m["anchor"])),
		Status:       Status(r.str(m["status"])),
		Run:          r.run(m["run"]),
		CheckpointID: r.maybe(m["checkpointId"]),
		Usage:        r.usage(m["usage"]),
		Faults:       r.faults(m["faults"]),
		stepStart:    r.flag(m["stepStart"]),
		deleted:      r.flag(m["deleted"]),
	}
	if raw, ok := m["owner"]; ok {
		owner := r.members(raw)
		s.Owner = &chunk.Principal{Subject: r.str(owner["subject"]), Issuer: r.maybe(owner["issuer"])}
	}
	r.large(&s, m, outer)
	r.chain(&s.chain, m)
	if raw, ok := m["failure"]; ok {
		s.Failure = r.failure(raw)
	}
	r.each(m["pending"], func(raw []byte) {
		p := r.members(raw)
		s.Pending = append(s.Pending, Pending{
			Kind: PendingKind(r.str(p["kind"])), CallID: r.str(p["toolCallId"]), ToolName: r.str(p["toolName"]),
			RunID: r.str(p["runId"]), ApprovalID: r.str(p["approvalId"]), Deadline: r.number(p["deadline"]),
		})
	})
	r.each(m["gone"], func(raw []byte) {
		first, last := r.pair(raw)
		s.removedAhead = append(s.removedAhead, chunk.OrdinalRange{First: first, Last: last})
	})
	r.each(m["replaced"], func(raw []byte) {
		from, to := r.pair(raw)
		s.replaced = append(s.replaced, indexRange{int(from), int(to)})
	})
	s.messages = r.history(m)
	return s
}

// large reads the output of writeLarge. Members that an inner snapshot has in common with the outer one share memory.
func (r *reader) large(s *Snapshot, m map[string]chunk.Value, outer *Snapshot) {
	if outer == nil {
		outer = &Snapshot{}
	}
	if s.State = m["state"]; r.flag(m["sameState"]) {
		s.State = outer.State
	}
	if raw, ok := m["structured"]; ok {
		state, err := structured.Parse(raw)
		if err != nil {
			r.fail(err.Error())
		}
		s.streams.state = state
	}
	if r.flag(m["sameStructured"]) {
		s.streams = outer.streams.base()
	}
	r.each(m["past"], func(raw []byte) { s.PastRuns = append(s.PastRuns, r.run(raw)) })
	if r.flag(m["samePast"]) {
		s.PastRuns = outer.PastRuns
	}
	r.each(m["errors"], func(raw []byte) {
		e := r.members(raw)
		s.Errors = append(s.Errors, Error{
			Seq: chunk.Seq(r.number(e["seq"])), RunID: r.str(e["runId"]), Message: r.str(e["message"]),
			Code: r.str(e["code"]), Recoverable: r.flag(e["recoverable"]),
		})
	})
	if r.flag(m["sameErrors"]) {
		s.Errors = outer.Errors
	}
}

func (r *reader) chain(c *Chain, m map[string]chunk.Value) {
	sum, err := hex.DecodeString(r.str(m["records"]))
	if err != nil || len(sum) != len(c.sum) {
		r.fail("records")
	}
	copy(c.sum[:], sum)
	c.FirstOrdinal = chunk.Ordinal(r.number(m["recordsSince"]))
}

func (r *reader) history(m map[string]chunk.Value) history {
	h := history{
		trimmed:     int(r.number(m["finished"])),
		shown:       int(r.number(m["shown"])) - 1,
		firstOfTurn: int(r.number(m["turnFirst"])),
		prevFirst:   int(r.number(m["prevFirst"])),
		segments:    int(r.number(m["segments"])),
	}
	if h.trimmed < 0 || h.trimmed > maxMessages {
		r.fail("the number of finished messages")
		h.trimmed = 0
	}
	if h.segments < 0 || h.segments > h.trimmed {
		r.fail("the number of segments")
		h.segments = 0
	}
	if h.trimmed > 0 {
		chain, err := hex.DecodeString(r.str(m["chain"]))
		if err != nil || len(chain) != sha256.Size {
			r.fail("chain")
		}
		copy(h.chain[:], chain)
	}
	r.each(m["generations"], func(raw []byte) {
		from, generation := r.pair(raw)
		h.spans = append(h.spans, span{int(from), chunk.Ordinal(generation)})
	})
	r.tail(&h, m["tail"])
	r.each(m["dropped"], func(raw []byte) { h.dropped = append(h.dropped, r.str(raw)) })
	r.each(m["open"], func(raw []byte) {
		open := r.message(raw)
		if open.index != h.count() {
			r.fail("open messages are not in order")
		}
		h.open = append(h.open, open)
	})
	return h
}

// tail reads the messages after the last pack. Only the outermost snapshot has them.
func (r *reader) tail(h *history, list []byte) {
	r.each(list, func(raw []byte) { h.finished = append(h.finished, FinishedMessage{Data: raw}) })
	if len(h.finished) > h.trimmed {
		r.fail("the number of finished messages")
		h.finished = nil
	}
	h.trimmed -= len(h.finished)
	for i := range h.finished {
		f := &h.finished[i]
		f.Index = h.trimmed + i
		f.Generation = h.generation(f.Index)
	}
}

func (r *reader) run(raw []byte) Run {
	m := r.members(raw)
	run := Run{
		ID: r.str(m["id"]), Status: RunStatus(r.str(m["status"])), Epoch: chunk.Epoch(r.number(m["epoch"])), Mode: r.str(m["mode"]),
		StartSeq: chunk.Seq(r.number(m["started"])), StartedAt: r.number(m["began"]), Step: r.number(m["step"]),
		CheckpointID: r.maybe(m["checkpointId"]), FinishReason: r.str(m["finishReason"]),
		Interrupted: r.flag(m["interrupted"]), Usage: r.usage(m["usage"]), Output: m["output"],
	}
	if raw, ok := m["parent"]; ok {
		p := r.members(raw)
		run.Parent = &chunk.Parent{SessionID: r.str(p["sessionId"]), CallID: r.str(p["callId"])}
	}
	return run
}

func (r *reader) usage(raw []byte) Usage {
	m := r.members(raw)
	return Usage{
		Input: r.number(m["inputTokens"]), Output: r.number(m["outputTokens"]),
		Cached: r.number(m["cachedTokens"]), CacheWrite: r.number(m["cacheWriteTokens"]),
	}
}

func (r *reader) failure(raw []byte) *Failure {
	m := r.members(raw)
	f := &Failure{Message: r.str(m["message"])}
	if raw, ok := m["detail"]; ok {
		d := r.members(raw)
		f.Detail = &chunk.ErrorDetail{
			Message: r.str(d["message"]), Code: r.maybe(d["code"]), Category: r.maybe(d["category"]), Cause: r.maybe(d["cause"]),
		}
		if raw, ok := d["retryable"]; ok {
			retryable := r.flag(raw)
			f.Detail.Retryable = &retryable
		}
	}
	return f
}

func (r *reader) faults(raw []byte) Faults {
	m := r.members(raw)
	f := Faults{Skipped: r.number(m["skipped"]), RejectedPatches: r.number(m["patches"]), RejectedPieces: r.number(m["streams"]), Lost: r.number(m["lost"])}
	r.each(m["recent"], func(raw []byte) {
		m := r.members(raw)
		f.Recent = append(f.Recent, Fault{
			Position: chunk.Position{Seq: chunk.Seq(r.number(m["seq"])), Ordinal: chunk.Ordinal(r.number(m["ordinal"]))},
			Type:     chunk.Type(r.str(m["type"])), Reason: r.str(m["reason"]),
		})
	})
	return f
}

func (r *reader) message(raw []byte) message {
	m := r.members(raw)
	msg := message{
		index: int(r.number(m["index"])), shown: int(r.number(m["shown"])), role: Role(r.str(m["role"])),
		clientID: r.str(m["clientId"]), metadata: m["metadata"], sealed: int(r.number(m["from"])),
		first: chunk.Seq(r.number(m["first"])), last: chunk.Seq(r.number(m["last"])), closed: r.flag(m["closed"]),
	}
	r.each(m["parts"], func(raw []byte) {
		msg.parts = append(msg.parts, r.part(raw))
		if msg.parts[len(msg.parts)-1].open {
			msg.text = len(msg.parts)
		}
	})
	r.each(m["children"], func(raw []byte) {
		c := r.members(raw)
		msg.children = append(msg.children, Child{
			Session: r.str(c["session"]), Type: r.str(c["type"]), CallID: r.str(c["callId"]),
			Status: ChildStatus(r.str(c["status"])), Result: c["result"],
		})
	})
	return msg
}

func (r *reader) part(raw []byte) part {
	if isRaw(raw) {
		return part{raw: raw}
	}
	m := r.members(raw)
	kind := r.str(m["type"])
	if name, static := strings.CutPrefix(kind, staticTool); static {
		t := r.tool(m)
		t.Name, t.Static = name, true
		return part{kind: toolPart, tool: t}
	}
	switch kind {
	case "text":
		return part{kind: textPart, text: r.bytes(m["text"]), open: r.str(m["state"]) == "streaming", meta: m["providerMetadata"]}
	case "reasoning":
		return part{kind: reasoningPart, text: r.bytes(m["text"]), open: r.str(m["state"]) == "streaming", meta: m["providerMetadata"]}
	case "dynamic-tool":
		return part{kind: toolPart, tool: r.tool(m)}
	default:
		return part{raw: raw}
	}
}

func (r *reader) tool(m map[string]chunk.Value) *ToolCall {
	t := &ToolCall{
		ID: r.str(m["toolCallId"]), Name: r.str(m["toolName"]), State: CallState(r.str(m["state"])),
		rawInput: r.bytes(m["rawInput"]), Input: m["input"], Output: m["output"], Error: r.str(m["errorText"]),
		ProviderExecuted: r.flag(m["providerExecuted"]),
	}
	for _, name := range toolExtras {
		if v, ok := m[name]; ok {
			t.Extra = append(t.Extra, chunk.Member{Name: name, Value: v})
		}
	}
	if raw, ok := m["approval"]; ok {
		a := r.members(raw)
		t.Approval = &Approval{ID: r.str(a["id"]), Reason: r.maybe(a["reason"])}
		if raw, ok := a["approved"]; ok {
			approved := r.flag(raw)
			t.Approval.Approved = &approved
		}
	}
	return t
}

func (r *reader) str(raw []byte) string {
	if raw == nil {
		return ""
	}
	s, err := unquote(raw)
	if err != nil {
		r.fail(err.Error())
	}
	return s
}

func (r *reader) bytes(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	s, err := rawjson.Text(raw).AppendTo(make([]byte, 0, len(raw)))
	if err != nil {
		r.fail(err.Error())
	}
	return s
}

func (r *reader) maybe(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := r.str(raw)
	return &s
}

func (r *reader) number(raw []byte) int64 {
	if raw == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		r.fail("malformed number")
	}
	return n
}

func (r *reader) flag(raw []byte) bool { return string(raw) == "true" }

func (r *reader) pair(raw []byte) (int64, int64) {
	var n []int64
	r.each(raw, func(raw []byte) { n = append(n, r.number(raw)) })
	if len(n) != 2 {
		r.fail("want a pair of numbers")
		return 0, 0
	}
	return n[0], n[1]
}

// members returns the members of a JSON object, none if raw is nil.
func (r *reader) members(raw []byte) map[string]chunk.Value {
	if raw == nil {
		return nil
	}
	m, err := members(raw)
	if err != nil {
		r.fail(err.Error())
	}
	return m
}

// each calls f with the elements of a JSON array; it does nothing if raw is nil.
func (r *reader) each(raw []byte, f func(raw []byte)) {
	if raw == nil {
		return
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(err.Error())
	}
	for _, raw := range list {
		f(raw)
	}
}
