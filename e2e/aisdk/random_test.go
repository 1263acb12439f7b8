//go:build e2e

package aisdk

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/chunk/chunktest"
)

var (
	seed = flag.Uint64("seed", 0, "of the random logs; 0: another one each time")
	logs = flag.Int("logs", 40, "random sessions, and a third as many logs of anything")
)

// dice writes random logs.
type dice struct {
	*rand.Rand

	w     *writer
	turn  int
	runs  int
	calls int
	open  []string        // calls that wait for people
	asked map[string]bool // of them, those under approval
}

func of[T any](d *dice, list ...T) T { return list[d.IntN(len(list))] }

func (d *dice) words() string {
	return of(d, "a", "Hello ", "é\"\n", "\xed\xa0\xbd", "\xed\xb8\x80", "\u2028", "</script>", "data: [DONE]\n\n", "__proto__", "\\ud83d", "\x00", "😀", "")
}

func (d *dice) json() string {
	return of(d, `{}`, `{"q":1}`, `{"a":[1,{"b":null}]}`, `{"n":9007199254740993,"x":-0,"y":1e400,"z":0.10}`, `{"half":"\ud83d","é":"\u2028"}`,
		`{"__proto__":{"a":1}}`, `{"constructor":{"prototype":{"a":1}}}`, `{"constructor":"ok"}`, `{ "type" : "start" }`)
}

// tidy is a session as our workers write it: turns of steps, calls with an
// outcome each, pauses for people, a good or a bad end.
func (d *dice) tidy() {
	for range 1 + d.IntN(3) {
		d.turn++
		d.run("execute", []chunk.InputMessage{{Content: "Hi"}})
		for d.goesOn() {
			d.pause()
		}
		switch d.IntN(6) {
		case 0:
			d.w.say(chunk.Error{Error: "it broke \"\n😀"}, chunk.StreamFailed{Error: "it broke"})
		case 1:
			d.w.say(chunk.StreamFailed{Error: "dead"})
		default:
			d.w.say(chunk.StreamEnd{StreamID: root.ID})
		}
	}
}

func (d *dice) run(mode string, input []chunk.InputMessage) {
	d.runs++
	d.w.say(chunk.RunStarted{RunID: fmt.Sprintf("r%d", d.runs), Mode: mode, Input: input})
}

// goesOn writes steps until the run ends, false, or waits for people, true.
func (d *dice) goesOn() bool {
	for range 1 + d.IntN(3) {
		d.w.say(chunk.StepStart{})
		for range d.IntN(6) {
			d.piece()
		}
		d.w.say(chunk.StepEnd{FinishReason: of(d, nil, new("stop"), new("tool-calls"), new("length"))})
		if len(d.open) > 0 {
			return true
		}
	}
	return false
}

func (d *dice) piece() {
	switch d.IntN(10) {
	case 0, 1, 2:
		for range 1 + d.IntN(4) {
			d.w.say(text(d.words()))
		}
	case 3:
		for range d.IntN(3) {
			d.w.say(thought(d.words(), false))
		}
		d.w.say(thought(d.words(), d.IntN(2) == 0))
	case 4, 5, 6:
		d.call()
	case 7:
		d.w.say(of[chunk.Body](d,
			chunk.Custom{EventName: of(d, "progress", "x y", "__proto__", ""), Data: chunk.Value(d.json())},
			chunk.SourceURL{SourceID: "1", URL: "https://u", Title: of(d, nil, new(d.words()))},
			chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: d.words(), Filename: of(d, nil, new("f"))},
			chunk.File{URL: "https://f", MediaType: "image/png", Filename: of(d, nil, new("f"))},
		))
	case 8:
		d.w.say(of[chunk.Body](d,
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(chunk.Value(d.json()))}}},
			chunk.CheckpointCreated{RunID: "r", CheckpointID: "cp", StepCount: d.w.step},
			chunk.Error{Error: "slow", Recoverable: true},
			chunk.Output{Output: chunk.Value(d.json())},
			chunk.StepCommitted{RunID: "r", StepID: "s", CheckpointID: "cp"},
			structuredAs(fmt.Sprintf("d%d", d.turn), of(d, `"kind":"set","path":"a","value":1`, `"kind":"final","data":{"f":[1]}`, `"kind":"text-delta","path":"t","delta":"x"`)),
		))
	case 9:
		d.child()
	}
}

// call is a call with its outcome, or one that waits.
func (d *dice) call() {
	d.calls++
	id, name := fmt.Sprintf("c%d", d.calls), of(d, "search", "page_where", "__finish__", "a b")
	if d.IntN(2) == 0 {
		d.w.say(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		for range d.IntN(3) {
			d.w.say(args(id, of(d, `{"q`, `":1`, `}`, "\xed\xa0\xbd", "x")))
		}
		if d.IntN(2) == 0 {
			d.w.say(chunk.ToolArgStreamEnd{ToolCallID: id})
		}
	}
	if d.IntN(8) == 0 {
		d.w.say(chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad", PartialInput: of(d, nil, new(chunk.Value(d.json())))})
		return
	}
	input := d.json()
	d.w.say(call(id, name, input))
	switch {
	case name == "__finish__":
	case name == "page_where":
		d.open = append(d.open, id)
	case d.IntN(4) == 0:
		d.w.say(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "run::" + id, Input: chunk.Value(of(d, input, d.json()))})
		d.open = append(d.open, id)
		d.asked[id] = true
	default:
		d.outcome(id, name)
	}
}

func (d *dice) outcome(id, name string) {
	switch d.IntN(4) {
	case 0:
		d.w.say(failed(id, name, "broken "+d.words()))
	case 1:
		d.w.say(chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: "broke"})
	default:
		d.w.say(done(id, name, of(d, d.json(), `null`, `"x"`, `[1]`)))
	}
}

func (d *dice) child() {
	d.calls++
	id := fmt.Sprintf("k%d", d.calls)
	d.w.say(call("c"+id, "subagent__x", `{}`), chunk.SubagentStart{SubAgentType: "x", SubSessionID: id, CallID: "c" + id})
	c := d.w.log.of(root.Child(id))
	c.say(chunk.RunStarted{RunID: "r" + id, Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c" + id}}, text("child"), thought("hm", false), call("c1", "search", `{}`))
	d.w.say(text("meanwhile"))
	c.say(done("c1", "search", `1`), text(" ends"), chunk.StreamEnd{StreamID: id})
	d.w.say(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: id, CallID: "c" + id, Result: chunk.Value(`1`)}, done("c"+id, "subagent__x", `1`))
}

// pause waits for people, whose answers open the next run of the turn.
func (d *dice) pause() {
	d.w.say(chunk.RunPaused{RunID: "r", Reason: "waits", PendingToolCallID: &d.open[0]}, chunk.StreamPaused{})
	d.run("continue", nil)
	for _, id := range d.open {
		if !d.asked[id] {
			d.w.say(chunk.ToolEnd{ToolCallID: id, ToolName: "page_where", Result: chunk.Value(`"here"`), ProviderExecuted: new(false)})
			continue
		}
		yes := d.IntN(2) == 0
		d.w.say(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "search", ApprovalID: "run::" + id, Approved: yes, Reason: of(d, nil, new("because"))})
		if yes {
			d.outcome(id, "search")
		} else {
			d.w.say(failed(id, "search", "client_tool_denied"))
		}
	}
	d.open = nil
}

// Random sessions of our workers, live, cut and replayed, give the message that
// the snapshot serves, in both majors.
func TestRandomLogs(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	bothMajors(t, func(t *testing.T, j *judge) {
		t.Helper()
		t.Logf("-seed %d", first)
		for n := range *logs {
			d := &dice{Rand: rand.New(rand.NewPCG(first, uint64(n))), asked: make(map[string]bool)}
			l := newLog(t)
			d.w = l.root()
			d.tidy()
			some := func(n int) []int { return []int{1 + d.IntN(n), n} }
			opt := dialect.Options{}
			if j.major == 7 && n%2 == 1 {
				opt.Major = 7
			}
			j.read(t, fmt.Sprintf("-seed %d, log %d", first, n), l, opt, some)
		}
	})
}

// Whatever is in a log, clients take what is made of it: chunks of every type in
// any order, with any text that the catalogue allows for names, ids and values.
func TestAnythingGoes(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	bothMajors(t, func(t *testing.T, j *judge) {
		t.Helper()
		t.Logf("-seed %d", first)
		for n := range *logs / 3 {
			d := &dice{Rand: rand.New(rand.NewPCG(first, uint64(n)))}
			l := newLog(t)
			d.w = l.root()
			d.run("execute", nil)
			for range 40 {
				d.anything()
			}
			d.w.say(chunk.StreamEnd{StreamID: root.ID})
			name := fmt.Sprintf("anything, -seed %d, log %d", first, n)
			for _, opt := range []dialect.Options{{}, {Major: j.major}, {Major: j.major, SubAgents: dialect.Inline}} {
				j.readAs(t, name, l, opt, func(n int) []int { return []int{1 + d.IntN(n), n} }, true)
			}
		}
	})
}

// anything writes one chunk of any type, some of whose calls belong together.
func (d *dice) anything() {
	typ := of(d, chunktest.Types()...)
	switch typ {
	case chunk.TypeTruncated, chunk.TypeRunStarted:
		return // their writers are bound by more than the catalogue
	case chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeError, chunk.TypeRunInterrupted:
		if d.IntN(4) > 0 {
			return
		}
	}
	c := chunktest.ChunksOf(typ).Example(d.Int())
	w := d.w
	if d.IntN(5) == 0 {
		w = w.log.of(root.Child("k"))
	}
	id := of(d, "c1", "c2", "__proto__")
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		b.ToolCallID = id
		w.say(b)
	case chunk.ToolArgStreamDelta:
		b.ToolCallID = id
		w.say(b)
	case chunk.ToolStart:
		b.ToolCallID = id
		w.say(b)
	case chunk.ToolEnd:
		b.ToolCallID = id
		w.say(b)
	case chunk.ToolApprovalRequest:
		b.ToolCallID = id
		w.say(b)
	case chunk.ToolApprovalResponse:
		b.ToolCallID = id
		w.say(b)
	default:
		w.say(b)
	}
}
