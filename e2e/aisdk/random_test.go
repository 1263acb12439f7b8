//go:build e2e

package aisdk

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

var logs = flag.Int("logs", 40, "number of random sessions; a third as many logs of arbitrary chunks")

// generator writes random logs.
type generator struct {
	*rand.Rand

	w     *writer
	turn  int
	runs  int
	calls int
	open  []string        // calls that await an answer of the user
	asked map[string]bool // those of them that await an approval
}

// newGenerator returns the generator of the n-th log of a seed, which is empty.
func newGenerator(t *testing.T, seed, n uint64) *generator {
	t.Helper()
	return &generator{Rand: rand.New(rand.NewPCG(seed, n)), w: newLog(t).root(), asked: make(map[string]bool)}
}

func of[T any](d *generator, list ...T) T { return list[d.IntN(len(list))] }

func (d *generator) words() string {
	return of(d, "a", "Hello ", "é\"\n", "\xed\xa0\xbd", "\xed\xb8\x80", "\u2028", "</script>", "data: [DONE]\n\n", "__proto__", "\\ud83d", "\x00", "😀", "")
}

func (d *generator) json() string {
	return of(d, `{}`, `{"q":1}`, `{"a":[1,{"b":null}]}`, `{"n":9007199254740993,"x":-0,"y":1e400,"z":0.10}`, `{"half":"\ud83d","é":"\u2028"}`,
		`{"__proto__":{"a":1}}`, `{"constructor":{"prototype":{"a":1}}}`, `{"constructor":"ok"}`, `{ "type" : "start" }`)
}

// wellFormed writes a session as the workers package does: turns of steps, calls with one outcome each, pauses for
// answers, a successful or failed end.
func (d *generator) wellFormed() {
	for range 1 + d.IntN(3) {
		d.turn++
		d.run("execute", []chunk.InputMessage{{Content: "Hi"}})
		for d.steps() {
			d.pause()
		}
		switch d.IntN(6) {
		case 0:
			d.w.emit(chunk.Error{Error: "it broke \"\n😀"}, chunk.StreamFailed{Error: "it broke"})
		case 1:
			d.w.emit(chunk.StreamFailed{Error: "dead"})
		default:
			d.w.emit(chunk.StreamEnd{StreamID: root.ID})
		}
	}
}

func (d *generator) run(mode string, input []chunk.InputMessage) {
	d.runs++
	d.w.emit(chunk.RunStarted{RunID: fmt.Sprintf("r%d", d.runs), Mode: mode, Input: input})
}

// steps writes steps until the run ends (false) or awaits an answer (true).
func (d *generator) steps() bool {
	for range 1 + d.IntN(3) {
		d.w.emit(chunk.StepStart{})
		for range d.IntN(6) {
			d.piece()
		}
		d.w.emit(chunk.StepEnd{FinishReason: of(d, nil, new("stop"), new("tool-calls"), new("length"))})
		if len(d.open) > 0 {
			return true
		}
	}
	return false
}

func (d *generator) piece() {
	switch d.IntN(10) {
	case 0, 1, 2:
		for range 1 + d.IntN(4) {
			d.w.emit(text(d.words()))
		}
	case 3:
		for range d.IntN(3) {
			d.w.emit(thought(d.words(), false))
		}
		d.w.emit(thought(d.words(), d.IntN(2) == 0))
	case 4, 5, 6:
		d.call()
	case 7:
		d.w.emit(of[chunk.Body](d,
			chunk.Custom{EventName: of(d, "progress", "x y", "__proto__", ""), Data: chunk.Value(d.json())},
			chunk.SourceURL{SourceID: "1", URL: "https://u", Title: of(d, nil, new(d.words()))},
			chunk.SourceDocument{SourceID: "2", MediaType: "text/plain", Title: d.words(), Filename: of(d, nil, new("f"))},
			chunk.File{URL: "https://f", MediaType: "image/png", Filename: of(d, nil, new("f"))},
		))
	case 8:
		d.w.emit(of[chunk.Body](d,
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

// call writes a call with its outcome, or one that awaits an answer.
func (d *generator) call() {
	d.calls++
	id, name := fmt.Sprintf("c%d", d.calls), of(d, "search", "page_where", "__finish__", "a b")
	if d.IntN(2) == 0 {
		d.w.emit(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
		for range d.IntN(3) {
			d.w.emit(args(id, of(d, `{"q`, `":1`, `}`, "\xed\xa0\xbd", "x")))
		}
		if d.IntN(2) == 0 {
			d.w.emit(chunk.ToolArgStreamEnd{ToolCallID: id})
		}
	}
	if d.IntN(8) == 0 {
		d.w.emit(chunk.ToolInputError{ToolCallID: id, ToolName: name, Error: "bad", PartialInput: of(d, nil, new(chunk.Value(d.json())))})
		return
	}
	input := d.json()
	d.w.emit(call(id, name, input))
	switch {
	case name == "__finish__":
	case name == "page_where":
		d.open = append(d.open, id)
	case d.IntN(4) == 0:
		d.w.emit(chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "run::" + id, Input: chunk.Value(of(d, input, d.json()))})
		d.open = append(d.open, id)
		d.asked[id] = true
	default:
		d.outcome(id, name)
	}
}

func (d *generator) outcome(id, name string) {
	switch d.IntN(4) {
	case 0:
		d.w.emit(failed(id, name, "broken "+d.words()))
	case 1:
		d.w.emit(chunk.ToolOutputError{ToolCallID: id, ToolName: name, Error: "broke"})
	default:
		d.w.emit(done(id, name, of(d, d.json(), `null`, `"x"`, `[1]`)))
	}
}

func (d *generator) child() {
	d.calls++
	id := fmt.Sprintf("k%d", d.calls)
	d.w.emit(call("c"+id, "subagent__x", `{}`), chunk.SubagentStart{SubAgentType: "x", SubSessionID: id, CallID: "c" + id})
	c := d.w.log.of(root.Child(id))
	c.emit(chunk.RunStarted{RunID: "r" + id, Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c" + id}}, text("child"), thought("hm", false), call("c1", "search", `{}`))
	d.w.emit(text("meanwhile"))
	c.emit(done("c1", "search", `1`), text(" ends"), chunk.StreamEnd{StreamID: id})
	d.w.emit(chunk.SubagentEnd{SubAgentType: "x", SubSessionID: id, CallID: "c" + id, Result: chunk.Value(`1`)}, done("c"+id, "subagent__x", `1`))
}

// pause writes a pause and the answers that start the next run of the turn.
func (d *generator) pause() {
	d.w.emit(chunk.RunPaused{RunID: "r", Reason: "waits", PendingToolCallID: &d.open[0]}, chunk.StreamPaused{})
	d.run("continue", nil)
	for _, id := range d.open {
		if !d.asked[id] {
			d.w.emit(chunk.ToolEnd{ToolCallID: id, ToolName: "page_where", Result: chunk.Value(`"here"`), ProviderExecuted: new(false)})
			continue
		}
		yes := d.IntN(2) == 0
		d.w.emit(chunk.ToolApprovalResponse{ToolCallID: id, ToolName: "search", ApprovalID: "run::" + id, Approved: yes, Reason: of(d, nil, new("because"))})
		if yes {
			d.outcome(id, "search")
		} else {
			d.w.emit(failed(id, "search", "client_tool_denied"))
		}
	}
	d.open = nil
}

// Random sessions of workers, live, cut and replayed, give the message of the snapshot in both majors.
func TestGeneratedLogs(t *testing.T) {
	seed := seedtest.Seed(t)
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for n := range *logs {
			d := newGenerator(t, seed, uint64(n))
			d.wellFormed()
			some := func(n int) []int { return []int{1 + d.IntN(n), n} }
			opt := dialect.Options{}
			if j.major == 7 && n%2 == 1 {
				opt.Major = 7
			}
			j.read(t, fmt.Sprintf("-seed %d, log %d", seed, n), d.w.log, opt, some)
		}
	})
}

// Clients accept the stream of any log: chunks of every type in any order, with any text that the chunk schema allows
// for names, ids and values.
func TestClientsAcceptAnyLog(t *testing.T) {
	seed := seedtest.Seed(t)
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for n := range *logs / 3 {
			d := newGenerator(t, seed, uint64(n))
			d.run("execute", nil)
			for range 40 {
				d.anything()
			}
			d.w.emit(chunk.StreamEnd{StreamID: root.ID})
			name := fmt.Sprintf("anything, -seed %d, log %d", seed, n)
			for _, opt := range []dialect.Options{{}, {Major: j.major}, {Major: j.major, SubAgents: dialect.Inline}} {
				j.readAs(t, name, d.w.log, opt, func(n int) []int { return []int{1 + d.IntN(n), n} }, true)
			}
		}
	})
}

// anything writes one chunk of any type; some calls share ids.
func (d *generator) anything() {
	typ := of(d, chunktest.Types()...)
	switch typ {
	case chunk.TypeTruncated, chunk.TypeRunStarted:
		return // producers restrict them more than the schema
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
		w.emit(b)
	case chunk.ToolArgStreamDelta:
		b.ToolCallID = id
		w.emit(b)
	case chunk.ToolStart:
		b.ToolCallID = id
		w.emit(b)
	case chunk.ToolEnd:
		b.ToolCallID = id
		w.emit(b)
	case chunk.ToolApprovalRequest:
		b.ToolCallID = id
		w.emit(b)
	case chunk.ToolApprovalResponse:
		b.ToolCallID = id
		w.emit(b)
	default:
		w.emit(b)
	}
}
