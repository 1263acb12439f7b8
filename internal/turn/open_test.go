package turn

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// TestOpenCallsKeepTheirOrder compares the calls without an outcome, and their numbers by agent, with a list.
func TestOpenCallsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := []*Agent{{}, {Session: "k1"}}
		var s calls
		var want []*Call
		for n := range rapid.IntRange(1, 60).Draw(t, "changes") {
			if len(want) > 0 && rapid.Bool().Draw(t, "drops") {
				i := rapid.IntRange(0, len(want)-1).Draw(t, "call")
				s.drop(want[i])
				want = slices.Delete(want, i, i+1)
			} else {
				a := rapid.SampledFrom(by).Draw(t, "agent")
				c := &Call{By: a, Key: CallKey{a.Session, strconv.Itoa(n)}, suffix: 1}
				s.add(c)
				want = append(want, c)
			}
			if len(s.open) > 2*len(want)+1 {
				t.Fatalf("%d places for %d calls", len(s.open), len(want))
			}
			if rapid.Bool().Draw(t, "lists") && !slices.Equal(s.list(), want) {
				t.Fatalf("the calls are %v, want %v", s.list(), want)
			}
			for _, a := range by {
				own := 0
				for _, c := range want {
					if c.By == a {
						own++
					}
				}
				if int(a.OpenCalls) != own {
					t.Fatalf("agent %q has %d calls, want %d", a.Session, a.OpenCalls, own)
				}
			}
		}
	})
}

// none is a Printer that writes nothing.
type none struct{}

func (none) Print(*Frames, *Event) {}

// TestRunningSubAgentsOfACall: a call is run as long as a sub-agent that it started has no end, and its start was not removed.
func TestRunningSubAgentsOfACall(t *testing.T) {
	m := New(none{}, Rules{}, Config{})
	removed := chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 5, Last: 5}}}
	for i, r := range []struct {
		body chunk.Body
		runs int
	}{
		{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, 0},
		{chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c"}, 1},
		{chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c"}, 1},
		{chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k1", CallID: "c"}, 0},
		{chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k2", CallID: "c"}, 1},
		{chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k3", CallID: "c"}, 2},
		{removed, 1},
		{chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k4", CallID: "c"}, 1},
		{chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k3", CallID: "c"}, 0},
	} {
		m.Append(nil, removedRecord(t, i+1, session, chunk.Ordinal(i+1), r.body))
		if got := fmt.Sprint(m.runs[CallKey{ID: "c"}], len(m.runs)); got != fmt.Sprint(r.runs, min(r.runs, 1)) {
			t.Errorf("record %d: %s sub-agents and calls, want %d", i+1, got, r.runs)
		}
	}
}
