package observe

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/sink/row"
)

// The tool with which an agent writes its structured output; it is not a call.
const finishTool = "__finish__"

// Codes of outcomes that say how a question to a client ended.
const (
	codeDenied = "client_tool_denied"
)

// call is a call of a tool. It is kept after its end for as long as a late outcome may name it.
type call struct {
	row              row.Observation
	turn             int           // number of the turn in which it began
	run              *run          // in which it began
	outcomeAt        chunk.Ordinal // of its outcome, 0 before it
	hasInput         bool
	delegated        bool // a sub-agent runs for it
	providerExecuted bool
	approved         bool // by a user: the worker runs it
	approval, client wait
}

// wait is a question to a user, or a tool that a client runs.
type wait struct {
	row       *row.Observation // nil: there was none
	decidedAt chunk.Ordinal    // of its end, 0 before it
}

func (w *wait) open() bool { return w.row != nil && w.decidedAt == 0 }

func (c *call) ended() bool { return c.outcomeAt > 0 }

// openCalls returns the calls without an outcome, in the order in which they began.
func (s *session) openCalls() []*call {
	var open []*call
	for _, c := range s.calls {
		if !c.ended() {
			open = append(open, c)
		}
	}
	slices.SortFunc(open, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.row.FirstOrdinal, b.row.FirstOrdinal), cmp.Compare(a.row.ID, b.row.ID))
	})
	return open
}

// endOldCalls forgets the calls of turns before the last one: no record can complete them.
func (f *Folder) endOldCalls(s *session) {
	for _, c := range s.openCalls() {
		if c.turn < s.turn-1 && c.row.Status != interrupted {
			f.endCall(c, interrupted)
		}
	}
	maps.DeleteFunc(s.calls, func(_ string, c *call) bool { return c.turn < s.turn-1 })
}

// input is the input of a call.
type input struct {
	shown chunk.Value
	size  int // before the view
}

// callStarts returns the call that a record begins or continues, nil for one that is not shown as a call.
func (f *Folder) callStarts(s *session, id, tool string, in *input) *call {
	if tool == finishTool {
		return nil
	}
	c := s.calls[id]
	if c == nil || c.ended() || c.turn < s.turn {
		c = &call{row: f.newRow(s, row.Tool, "TOOL", tool, id), turn: s.turn, run: s.run}
		c.row.ToolName, c.row.ToolCallID, c.row.Status = row.Text(tool), row.Text(id), row.Running
		if s.run != nil {
			c.row.ParentID, c.row.ParentSpanID = s.run.row.ID, s.run.row.SpanID
			if st := s.run.step; st != nil {
				c.row.ParentID, c.row.ParentSpanID = st.row.ID, st.row.SpanID
				st.calls = append(st.calls, stepCall{ID: c.row.ToolCallID, Name: c.row.ToolName})
			}
		}
		s.calls[id] = c
	}
	if in != nil {
		c.hasInput = true
		setInput(&c.row, in.shown, in.size)
	}
	c.providerExecuted = c.providerExecuted || chunk.RunByProvider(f.c.Extra)
	if shown := f.content(); shown != nil && len(shown.Extra) > 0 {
		c.row.Metadata = metadata(shown.Extra)
	}
	return c
}

// outcome is how a call ended.
type outcome struct {
	id, tool   string
	status     row.Status
	shown      chunk.Value // the result under the view
	size       int         // of the result
	text, code string      // of an error
	provider   bool        // the provider of the model, or the worker, ran the call
}

// callOf returns the call that a record completes: nil for one that has its outcome. A call without a start begins with it.
func (f *Folder) callOf(s *session, id, tool string) *call {
	c := s.calls[id]
	switch {
	case c == nil:
		return f.callStarts(s, id, tool, nil)
	case c.ended():
		return nil
	}
	return c
}

// outcome ends a call. A late outcome of a call that has one changes nothing; one of an unknown call is a call without a duration.
func (f *Folder) outcome(s *session, out outcome) {
	c := f.callOf(s, out.id, out.tool)
	if c == nil {
		return
	}
	c.outcomeAt = f.rec.Ordinal
	c.providerExecuted = c.providerExecuted || out.provider
	if out.status != row.Completed {
		fail(&c.row, out.text, out.code)
	} else {
		setOutput(&c.row, out.shown, out.size)
	}
	f.endWaits(c, out)
	f.endCall(c, out.status)
	if s.run != nil {
		s.run.marks = append(s.run.marks, mark{ordinal: f.rec.Ordinal, call: true, fails: out.status != row.Completed})
	}
}

// endCall writes the row of a call at its end, or when its run ends before it. What waits for it ends, too.
func (f *Folder) endCall(c *call, status row.Status) {
	for _, w := range []*wait{&c.approval, &c.client} {
		if w.open() {
			f.endWait(w, status)
		}
	}
	if c.providerExecuted {
		c.row.ProviderExecuted = new(true)
	}
	f.end(&c.row, status)
	f.emit(&c.row)
}

func (f *Folder) toolEnd(s *session, b chunk.ToolEnd) {
	shown, _ := shownBody[chunk.ToolEnd](f)
	out := outcome{id: b.ToolCallID, tool: b.ToolName, status: row.Completed, shown: shown.Result, size: len(b.Result), provider: b.ProviderExecuted != nil && *b.ProviderExecuted}
	if b.Error != nil {
		out.status, out.code = failed, textOf(b.ErrorCode)
		if shown.Error != nil {
			out.text = *shown.Error
		}
		if out.code == codeDenied {
			out.status = row.Denied
		}
	}
	f.outcome(s, out)
}

func (f *Folder) toolInputError(s *session, b chunk.ToolInputError) {
	shown, _ := shownBody[chunk.ToolInputError](f)
	if c := f.callOf(s, b.ToolCallID, b.ToolName); c != nil && shown.PartialInput != nil {
		setInput(&c.row, *shown.PartialInput, len(*b.PartialInput))
	}
	f.outcome(s, outcome{id: b.ToolCallID, tool: b.ToolName, status: row.Rejected, text: shown.Error})
}

// subagentEnd ends the call of a sub-agent.
func (f *Folder) subagentEnd(s *session, b chunk.SubagentEnd) {
	c := s.calls[b.CallID]
	if c == nil || c.ended() {
		return
	}
	c.delegated = false
	shown, _ := shownBody[chunk.SubagentEnd](f)
	out := outcome{id: b.CallID, tool: c.row.ToolName, status: row.Completed, shown: shown.Result, size: len(b.Result)}
	if text := rawjson.Get(b.Result, "error"); text != nil { // the result of a sub-agent that failed is an object with this member
		out.status = failed
		if text, err := rawjson.Text(rawjson.Get(shown.Result, "error")).Unquote(); err == nil {
			out.text = text
		}
	}
	f.outcome(s, out)
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
	const most = 1<<53 - 1
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n <= 0 || n > most {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
