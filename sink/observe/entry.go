package observe

import (
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/sink/row"
)

// entry is what a record contributes to the rows of its session. The entries of two turns are kept, because a cleanup computes the state again without those that it
// removes. So an entry has everything that depends on the view and on other sessions.
type entry struct {
	ordinal, last chunk.Ordinal // last is another one for consecutive pieces of text
	seq           chunk.Seq
	anchor        chunk.Anchor
	at            time.Time // by the clock of the writer
	step          int64
	agentType     string

	body     chunk.Body // without the values, which are in value; nil for a record that only begins a turn
	value    *value     // input, arguments, result or output
	text     string     // of an error, or the reason of a decision
	meta     row.JSON
	deadline time.Time // of a question to a client
	flag     bool      // run_started: has input. A call begins: the provider of the model runs it. subagent_end: it failed
	calls    []string  // of a suspension
	caller   *caller   // of a run of a sub-agent
	control  bool      // has no effect before the first run

	pieces *pieces // of text
}

// value is content as the view shows it, with its size before the view.
type value struct {
	json row.JSON
	size int
	cut  bool // it was too large
}

// maxContent is the most bytes of a value in a row.
const maxContent = 256 << 10

func valueOf(shown chunk.Value, size int) *value {
	if len(shown) > maxContent || size > maxContent {
		return &value{size: size, cut: true}
	}
	return &value{json: row.JSON(shown), size: size}
}

// entry returns what the present record contributes to s, false for nothing.
func (f *Folder) entry(s *session) (entry, bool) {
	if !f.contributes(s) || !f.decode() {
		return entry{}, false
	}
	e := f.newEntry(s)
	switch b := f.c.Body.(type) {
	case chunk.Opaque:
		return e, false
	case chunk.RunStarted:
		f.runEntry(s, &e, b)
	case chunk.Output:
		e.body, e.value = chunk.Output{}, valueOf(shownBody[chunk.Output](&f.record).Output, len(b.Output))
	case chunk.StreamEnd:
		e.body = chunk.StreamEnd{}
		if b.FinalOutput != nil {
			var shown chunk.Value
			if v := shownBody[chunk.StreamEnd](&f.record).FinalOutput; v != nil {
				shown = *v
			}
			e.value = valueOf(shown, len(*b.FinalOutput))
		}
	case chunk.StreamFailed:
		e.body = chunk.StreamFailed{ErrorDetail: b.ErrorDetail}
		if b.ErrorDetail != nil {
			e.body = chunk.StreamFailed{ErrorDetail: &chunk.ErrorDetail{Code: b.ErrorDetail.Code}}
		}
		e.text = shownBody[chunk.StreamFailed](&f.record).Error
	case chunk.StepStart, chunk.StepEnd:
		e.body, e.meta = b, f.metadata()
	case chunk.RunPaused:
		e.body, e.deadline = b, deadlineOf(f.c.Extra)
	case chunk.SuspensionMarker:
		e.body = chunk.SuspensionMarker{}
		e.calls, e.deadline = suspendedCalls(b.Payload)
	case chunk.StreamPaused, chunk.StreamActive, chunk.RunResumed, chunk.RunInterrupted, chunk.ExecutorSuperseded, chunk.Truncated:
		e.body = b
	case chunk.SubagentStart, chunk.SubagentEnd, chunk.ToolArgStreamStart, chunk.ToolStart, chunk.ToolApprovalRequest, chunk.ToolApprovalResponse, chunk.ToolEnd,
		chunk.ToolInputError, chunk.ToolOutputError:
		f.callEntry(&e, b)
	}
	return e, e.body != nil || s.turn == 0 && !f.rec.Type.Control()
}

// contributes reports whether a record of this type may change s: most records are found here to be pieces that change nothing.
func (f *Folder) contributes(s *session) bool {
	switch f.rec.Type {
	case chunk.TypeThinking, chunk.TypeToolArgStreamDelta:
		return s.awaitsOutput()
	case chunk.TypeRunStarted, chunk.TypeTruncated, chunk.TypeStreamFailed:
		return true
	case chunk.TypeStatePatch, chunk.TypeCustom, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeFile, chunk.TypeError, chunk.TypeToolArgStreamEnd:
		return s.turn == 0
	}
	return s.turn > 0 || !f.rec.Type.Control()
}

func (f *Folder) newEntry(s *session) entry {
	e := entry{
		ordinal: f.rec.Ordinal, last: f.rec.Ordinal, seq: f.rec.Seq, anchor: f.rec.Anchor(), at: f.time(), step: f.c.Step, agentType: row.Text(f.c.AgentType),
	}
	e.control = f.rec.Type.Control() && f.rec.Type != chunk.TypeRunStarted
	switch f.rec.Type {
	case chunk.TypeThinking:
		e.body = chunk.Thinking{}
	case chunk.TypeToolArgStreamDelta:
		e.body = chunk.ToolArgStreamDelta{}
	}
	if s.turn == 0 && !s.key.IsRoot() {
		e.caller = f.callerOf(s, nil)
	}
	return e
}

func (f *Folder) runEntry(s *session, e *entry, b chunk.RunStarted) {
	e.flag = len(b.Input) > 0
	e.meta = f.metadata()
	if e.flag {
		var shown chunk.Value
		if len(shownBody[chunk.RunStarted](&f.record).Input) > 0 {
			rec, _ := f.show()
			shown = messagesOf(rec.Data)
		}
		e.value = valueOf(shown, len(messagesOf(f.rec.Data)))
	}
	if !s.key.IsRoot() {
		e.caller = f.callerOf(s, b.Parent)
	}
	b.Input = nil
	e.body = b
}

// messagesOf returns the member input of a run_started.
func messagesOf(data []byte) chunk.Value {
	var m chunk.Members
	if err := m.Read(data); err != nil {
		return nil
	}
	return m.Get("input")
}

func (f *Folder) callEntry(e *entry, body chunk.Body) {
	r := &f.record
	switch b := body.(type) {
	case chunk.ToolArgStreamStart:
		e.body, e.meta, e.flag = b, f.metadata(), chunk.RunByProvider(f.c.Extra)
	case chunk.ToolStart:
		e.value, e.meta, e.flag = valueOf(shownBody[chunk.ToolStart](r).Arguments, len(b.Arguments)), f.metadata(), chunk.RunByProvider(f.c.Extra)
		b.Arguments = nil
		e.body = b
	case chunk.ToolApprovalRequest:
		e.value, e.meta, e.flag = valueOf(shownBody[chunk.ToolApprovalRequest](r).Input, len(b.Input)), f.metadata(), chunk.RunByProvider(f.c.Extra)
		e.deadline = deadlineOf(f.c.Extra)
		b.Input = nil
		e.body = b
	case chunk.ToolApprovalResponse:
		e.text = orEmpty(shownBody[chunk.ToolApprovalResponse](r).Reason)
		e.value = valueOf(decision(b.Approved, e.text), len(decision(b.Approved, orEmpty(b.Reason))))
		b.Reason = nil
		e.body = b
	case chunk.ToolEnd:
		shown := shownBody[chunk.ToolEnd](r)
		e.value, e.text = valueOf(shown.Result, len(b.Result)), orEmpty(shown.Error)
		if b.Error != nil {
			b.Error = new("")
		}
		b.Result = nil
		e.body = b
	case chunk.ToolInputError:
		shown := shownBody[chunk.ToolInputError](r)
		e.text = shown.Error
		if b.PartialInput != nil {
			var v chunk.Value
			if shown.PartialInput != nil {
				v = *shown.PartialInput
			}
			e.value = valueOf(v, len(*b.PartialInput))
		}
		b.Error, b.PartialInput = "", nil
		e.body = b
	case chunk.ToolOutputError:
		e.text = shownBody[chunk.ToolOutputError](r).Error
		b.Error = ""
		e.body = b
	case chunk.SubagentStart:
		e.body = b
	case chunk.SubagentEnd:
		if e.flag = hasError(b.Result); e.flag {
			e.text = errorText(shownBody[chunk.SubagentEnd](r).Result)
		}
		b.Result = nil
		e.body = b
	}
}

// decision returns the output of an approval.
func decision(approved bool, reason string) chunk.Value {
	o := rawjson.Begin(nil)
	o.Bool("approved", approved)
	o.Text("reason", reason)
	return o.End()
}

// hasError reports whether the result of a sub-agent says that it failed: it is an object with this member.
func hasError(result chunk.Value) bool {
	v := rawjson.Get(rawjson.TrimSpace(result), "error")
	return len(v) > 0 && string(v) != "null"
}

// errorText returns the error in the result of a sub-agent, if it is a text.
func errorText(result chunk.Value) string {
	v := rawjson.Get(rawjson.TrimSpace(result), "error")
	if rawjson.Kind(v) == '{' {
		v = rawjson.Get(v, "message")
	}
	if rawjson.Kind(v) != '"' {
		return ""
	}
	return string(rawjson.Text(v).Bytes())
}

// suspendedCalls returns the calls that a suspension marker names, and their deadline.
func suspendedCalls(payload chunk.Value) (ids []string, deadline time.Time) {
	list := rawjson.Get(payload, "toolCallIds")
	if rawjson.Kind(list) != '[' {
		return nil, time.Time{}
	}
	for v := range rawjson.Elements(list) {
		if rawjson.Kind(v) == '"' {
			ids = append(ids, string(rawjson.Text(v).Bytes()))
		}
	}
	return ids, momentOf(rawjson.Get(payload, "deadline"))
}

// deadlineOf returns the member deadline of a chunk that asks a client, in Unix milliseconds; the zero time for none.
func deadlineOf(extra []chunk.Member) time.Time {
	for _, m := range extra {
		if m.Name == "deadline" {
			return momentOf(m.Value)
		}
	}
	return time.Time{}
}

func momentOf(v chunk.Value) time.Time {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n <= 0 || n > chunk.MaxTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// metadata returns the shown members that the schema does not have as an object, "" for none.
func (f *Folder) metadata() row.JSON {
	c := f.content()
	if c == nil || len(c.Extra) == 0 {
		return ""
	}
	out := []byte{'{'}
	for i, m := range c.Extra {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(rawjson.AppendQuoted(out, m.Name), ':'), m.Value...)
	}
	if out = append(out, '}'); len(out) > maxContent {
		return ""
	}
	return row.JSON(out)
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
