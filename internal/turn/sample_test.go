package turn_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/internal/turn"
)

// sample is the printer of a small dialect, as CONTRIBUTING.md describes one: texts with the names of their agents, calls with their outcomes, and the end.
type sample struct{}

func (sample) Print(f *turn.Frames, e *turn.Event) {
	switch e.Kind {
	case turn.Begin:
		f.Open("begin")
		f.Flag("again", e.Again)
		f.Shut()
		f.Bare()
	case turn.BlockDelta:
		begin(f, e.Agent)
		f.Content("piece", e.Text)
		f.Shut()
	case turn.Input, turn.Outcome:
		f.Open("call")
		f.Content("id", e.Call.Shown)
		f.Content("tool", e.Call.Name)
		f.Raw("value", e.Value)
		f.Raw("error", e.Failure)
		f.Shut()
	case turn.Removed:
		if !e.Quiet {
			f.Open("removed")
			f.Shut()
		}
	case turn.Pause, turn.End, turn.Fail:
		f.Open("end")
		f.Int("reason", int64(e.Reason))
		f.Flag("waits", e.Kind == turn.Pause)
		f.Raw("error", e.Failure)
		f.Shut()
	}
}

func begin(f *turn.Frames, a *turn.Agent) {
	f.Open("say")
	f.Text("by", a.Session)
	f.Flag("thinks", a.Block.Kind == turn.ReasoningBlock)
}

// fastSample is the same with the fast path for pieces.
type fastSample struct{ sample }

func (fastSample) DeltaHead(f *turn.Frames, a *turn.Agent) (tail string) {
	begin(f, a)
	f.Name("piece")
	f.Dst = append(f.Dst, '"')
	return "\"}\n\n"
}

// logs generates logs whose first record opens a turn.
func logs(t *rapid.T) turntest.Log {
	return turntest.Logs(turntest.Config{Turns: 2, SubAgents: true, Crashes: true, Reuse: true, Wide: rapid.Bool().Draw(t, "wide")}).Draw(t, "log")
}

// write returns the frames of each record. hides reports which records are hidden.
func write(m *turn.Machine, log turntest.Log, hides func(int) bool) (frames [][]byte) {
	for i, rec := range log {
		if hides(i) {
			frames = append(frames, m.Hide(nil, rec))
		} else {
			frames = append(frames, m.Append(nil, rec))
		}
	}
	return frames
}

// TestFastPath checks that a piece of a text has the same frame with the fast path and without it.
func TestFastPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log, rules := logs(t), turn.Rules{CursorAfter: rapid.Bool().Draw(t, "cursor after"), EarlyStart: rapid.Bool().Draw(t, "early start")}
		hidden := rapid.SliceOfN(rapid.IntRange(0, 9), len(log), len(log)).Draw(t, "hidden")
		hides := func(i int) bool {
			return hidden[i] == 0 && (log[i].Session != turntest.Session || !log[i].Type.Control())
		}
		slow, fast := write(turn.New(sample{}, rules, turn.Config{}), log, hides), write(turn.New(fastSample{}, rules, turn.Config{}), log, hides)
		for i := range log {
			if !bytes.Equal(slow[i], fast[i]) {
				t.Fatalf("record %d:\n%s\nwith the fast path:\n%s\nof\n%s", i, slow[i], fast[i], log[:i+1])
			}
		}
	})
}

// TestResume checks that a client that connects again anywhere gets what one gets that stays, after the beginning of its response.
func TestResume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs(t)
		never := func(int) bool { return false }
		whole := write(turn.New(fastSample{}, turn.Rules{EarlyStart: true}, turn.Config{}), log, never)
		for range 5 {
			at := rapid.IntRange(1, len(log)).Draw(t, "at")
			m := turn.New(fastSample{}, turn.Rules{EarlyStart: true}, turn.Config{})
			write(m, log[:at], never)
			over := m.Done()
			begins := string(m.Resume(nil))
			if want := "data: {\"type\":\"begin\",\"again\":true}\n\n"; begins != want {
				t.Fatalf("the response begins with %q, want %q", begins, want)
			}
			if over || len(bytes.Join(whole[:at], nil)) == 0 {
				continue // the next response of a turn that waits begins with the record that resumes it
			}
			for i, got := range write(m, log[at:], never) {
				if want := whole[at+i]; !bytes.Equal(got, want) {
					t.Fatalf("record %d after a connection at %d:\n%s\nwant\n%s\nof\n%s", at+i, at, got, want, log[:at+i+1])
				}
			}
		}
	})
}

// TestSubAgentWithoutAName: the schema accepts an empty id of a session, and no such session can end. The run does not wait for it.
func TestSubAgentWithoutAName(t *testing.T) {
	var frames []byte
	m := turn.New(sample{}, turn.Rules{}, turn.Config{})
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}, chunk.SubagentStart{SubAgentType: "x", CallID: "c1"}, chunk.StreamPaused{},
	} {
		frames = m.Append(frames, record(t, i, body))
	}
	if !m.Done() || !bytes.Contains(frames, []byte(`"waits":true`)) {
		t.Errorf("the response is open after\n%s", frames)
	}
}

// TestIDsLikeNumberedOnes: a model may call a tool with the id that a second call of another id is shown under. The two are two calls.
func TestIDsLikeNumberedOnes(t *testing.T) {
	start := func(id string) chunk.Body {
		return chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{}`)}
	}
	end := func(id string) chunk.Body {
		return chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`1`), ProviderExecuted: new(true)}
	}
	removal := func(first, last int64) chunk.Body {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: last}}}
	}
	for _, test := range []struct {
		what   string
		bodies []chunk.Body
		want   []string // ids of the events of calls, of their arguments and outcomes
	}{
		{"an outcome alone", []chunk.Body{start("a"), end("a"), start("a"), end("a"), end("a_2")}, []string{"a", "a", "a_2", "a_2", "a_2_2", "a_2_2"}},
		{
			"an outcome after a removal", []chunk.Body{start("a_2"), end("a_2"), start("a"), end("a"), start("a"), removal(4, 6), end("a")},
			[]string{"a_2", "a_2", "a", "a", "a_3", "removed", "a", "a"},
		},
	} {
		m := turn.New(sample{}, turn.Rules{}, turn.Config{})
		frames := m.Append(nil, record(t, 0, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}))
		for i, body := range test.bodies {
			frames = m.Append(frames, record(t, i+1, body))
		}
		var got []string
		for _, id := range regexp.MustCompile(`"(?:call","id":"([^"]*)|(removed))"`).FindAllSubmatch(frames, -1) {
			got = append(got, string(id[1])+string(id[2]))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the calls are %q, want %q", test.what, got, test.want)
		}
	}
}

// record returns record number i of the session.
func record(tb testing.TB, i int, body chunk.Body) chunk.Record {
	tb.Helper()
	c := chunk.Chunk{AgentID: turntest.Session.ID, AgentType: "a", Timestamp: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return chunk.Record{Seq: chunk.Seq(i + 1), Session: turntest.Session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data}
}

// Example writes a turn in the sample dialect.
func Example() {
	m := turn.New(fastSample{}, turn.Rules{}, turn.Config{})
	session := chunk.RootSession("acme", "s1")
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "Hello "}, chunk.TextDelta{Delta: "world"}, chunk.StreamEnd{StreamID: "s1"},
	} {
		c := chunk.Chunk{AgentID: "s1", AgentType: "a", Timestamp: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s", m.Append(nil, chunk.Record{Seq: chunk.Seq(i + 1), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data}))
	}
	// Output:
	// data: {"type":"begin"}
	//
	// id: 2
	// data: {"type":"say","piece":"Hello "}
	//
	// id: 3
	// data: {"type":"say","piece":"world"}
	//
	// id: 4
	// data: {"type":"end"}
}
