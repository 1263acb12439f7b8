package conversation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// subagent starts a sub-agent in the session that the run gives it, or in another one.
func (s *history) subagent(call, session string) *history {
	s.t.Helper()
	if session == "" {
		session = control.SubagentSession(testSession, s.run, call).ID
	}
	return s.write(chunk.ToolStart{ToolCallID: call, ToolName: "agent:search", Arguments: chunk.Value(`{}`)},
		chunk.SubagentStart{SubAgentType: "search", SubSessionID: session, CallID: call})
}

// A run waits for its own calls without an outcome: not for those of other runs, not for approved ones, which the agent executes, and not for sub-agents of another
// writer, whose sessions it does not know.
func TestPendingCalls(t *testing.T) {
	first := control.ExecuteRunID(testSession, "u1")
	second := control.ResumeRunID(first)
	for name, tt := range map[string]struct {
		log  *history
		run  string
		want string
	}{
		"no session":           {begin(t), first, ""},
		"running":              {begin(t).turn("u1"), first, ""},
		"calls":                {begin(t).turn("u1").asks("c1", "a1"), first, "c1 client-tool-result browser; a1 approval-response pay " + first + "::a1"},
		"another run":          {begin(t).turn("u1").asks("c1", "a1"), second, ""},
		"outcomes":             {begin(t).turn("u1").asks("c1", "c2").resumes("c1"), first, "c2 client-tool-result browser"},
		"approved":             {begin(t).turn("u1").asks("a1").resumes("a1"), first, ""},
		"calls of a later run": {begin(t).turn("u1").asks("c1").resumes("c1").asks("c2"), second, "c2 client-tool-result browser"},
		"sub-agent":            {begin(t).turn("u1").subagent("d1", "").asks("c1"), first, "d1 subagent-result agent:search search; c1 client-tool-result browser"},
		"of another run":       {begin(t).turn("u1").subagent("d1", "").asks(), second, ""},
		"of another writer":    {begin(t).turn("u1").subagent("d1", "sub-1").asks(), first, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range PendingCalls(tt.log.snap, tt.run) {
				line := fmt.Sprintf("%s %s %s %s", c.CallID, c.Kind, c.ToolName, c.Approval)
				if c.Child != nil {
					line += c.Child.Type
				}
				if c.Session != testSession || c.RunID != tt.run {
					t.Errorf("%s is of %s, run %s", line, c.Session, c.RunID)
				}
				got = append(got, strings.TrimSpace(line))
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Deadlines that are the same millisecond have not passed yet.
func TestDeadlines(t *testing.T) {
	call := func(id string, deadline int64) PendingCall {
		return PendingCall{Session: testSession, RunID: "r1", CallID: id, ToolName: "t", Kind: control.ClientResult, Deadline: deadline}
	}
	approval, child, answered := call("a", 50), call("s", 0), call("x", 10)
	approval.Kind, approval.Approval = control.Approval, "r1::a"
	child.Kind = control.SubagentResult
	answered.Answer = &control.Answer{}
	for name, tt := range map[string]struct {
		calls []PendingCall
		next  int64
		late  string // at 100
	}{
		"none":      {},
		"no time":   {[]PendingCall{call("c", 0), child}, 0, ""},
		"passed":    {[]PendingCall{call("c", 99), call("d", 100), approval}, 50, "c client-tool-result ; a approval-response r1::a"},
		"not yet":   {[]PendingCall{call("c", 300), call("d", 200), call("e", 0)}, 200, ""},
		"sub-agent": {[]PendingCall{child, call("c", 1)}, 1, "c client-tool-result "},
		"answered":  {[]PendingCall{answered, call("c", 1)}, 1, "c client-tool-result "},
	} {
		t.Run(name, func(t *testing.T) {
			if next, ok := NextDeadline(tt.calls); ok != (tt.next > 0) || ok && next.UnixMilli() != tt.next {
				t.Errorf("next %d, %v, want %d", next.UnixMilli(), ok, tt.next)
			}
			before := slices.Clone(tt.calls)
			var late []string
			for _, a := range Expire(tt.calls, time.UnixMilli(100)) {
				if a.Error != "no answer before the deadline" || a.ErrorCode != control.CodeDeadline || a.Session != testSession || a.RunID != "r1" || a.Validate() != nil {
					t.Errorf("answer %+v: %v", a, a.Validate())
				}
				late = append(late, fmt.Sprintf("%s %s %s", a.CallID, a.Kind, a.ApprovalID))
			}
			if got := strings.Join(late, "; "); got != tt.late {
				t.Errorf("got  %s\nwant %s", got, tt.late)
			}
			if !slices.Equal(callIDs(before), callIDs(tt.calls)) {
				t.Error("the calls were changed")
			}
		})
	}
}

func callIDs(calls []PendingCall) (ids []string) {
	for _, c := range calls {
		ids = append(ids, c.CallID)
	}
	return ids
}

// A run is resumed when all its calls have an answer, by the same command from every process, and not while a message follows its abandoned calls.
func TestResumeOfAnsweredCalls(t *testing.T) {
	snap := begin(t).turn("u1").subagent("d1", "").asks("c1", "a1").snap
	abandoned := control.Answer{ErrorCode: control.CodeAbandoned, At: testNow}
	for name, tt := range map[string]struct {
		answers map[string]control.Answer
		now     time.Time
		want    bool
	}{
		"none":                    {nil, testNow, false},
		"one missing":             {map[string]control.Answer{"c1": {}, "a1": {}}, testNow, false},
		"all":                     {map[string]control.Answer{"c1": {}, "a1": {}, "d1": {}, "c0": {}}, testNow, true},
		"a message follows":       {map[string]control.Answer{"c1": abandoned, "a1": {}, "d1": {}}, testNow.Add(time.Second), false},
		"a message did not come":  {map[string]control.Answer{"c1": abandoned, "a1": {}, "d1": {}}, testNow.Add(time.Minute), true},
		"abandoned, one missing ": {map[string]control.Answer{"c1": abandoned}, testNow.Add(time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := Resume(snap, tt.answers, tt.now)
			if ok != tt.want {
				t.Fatalf("got %v, want %v", ok, tt.want)
			}
			if ok && (c.Kind != control.Resume || c.Session != testSession || c.AgentType != agentType || c.Resumes != snap.Run.ID ||
				c.RunID != control.ResumeRunID(snap.Run.ID) || c.Mode != "continue" || c.Validate() != nil) {
				t.Errorf("command %+v: %v", c, c.Validate())
			}
		})
	}
	abort := Abort(snap, control.Stop{Session: testSession, RunID: snap.Run.ID, Kind: control.StopAbort, Reason: "why"})
	if abort.Kind != control.Abort || abort.Session != testSession || abort.AgentType != agentType || abort.RunID != snap.Run.ID || abort.Reason != "why" || abort.Validate() != nil {
		t.Errorf("command %+v: %v", abort, abort.Validate())
	}
}

func TestDone(t *testing.T) {
	first := control.ExecuteRunID(testSession, "u1")
	suspended := begin(t).turn("u1").asks("c1")
	for name, tt := range map[string]struct {
		log  *history
		kind control.CommandKind
		run  string
		want bool
	}{
		"not started":            {begin(t), control.Execute, first, false},
		"running":                {begin(t).turn("u1"), control.Execute, first, false},
		"running, aborted":       {begin(t).turn("u1"), control.Abort, first, false},
		"suspended":              {suspended, control.Execute, first, true},
		"suspended, aborted":     {suspended, control.Abort, first, false},
		"resume of suspended":    {suspended, control.Resume, control.ResumeRunID(first), false},
		"ended":                  {begin(t).turn("u1").ends(), control.Execute, first, true},
		"ended, aborted":         {begin(t).turn("u1").ends(), control.Abort, first, true},
		"a later run is running": {begin(t).turn("u1").asks("c1").resumes("c1"), control.Execute, first, true},
		"abort of an old run":    {begin(t).turn("u1").asks("c1").resumes("c1"), control.Abort, first, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Done(tt.log.snap, control.Command{Kind: tt.kind, Session: testSession, RunID: tt.run}); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestLastText(t *testing.T) {
	none := begin(t)
	answer := begin(t).turn("u1").write(chunk.TextDelta{Delta: " then"}).asks("c1")
	if got := LastText(none.snap); got != "" {
		t.Errorf("got %q", got)
	}
	if got := LastText(answer.snap); got != "well then" {
		t.Errorf("got %q", got)
	}
}
