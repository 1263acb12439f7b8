package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

type asks = openaitest.Call

var byID = chunk.Value(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`)

func made(name string, run func(ctx context.Context, c Call) (any, error)) Tool {
	return Tool{Name: name, Description: "Does " + name + ".", Schema: byID, Run: run}
}

func with(tools ...Tool) func(*Config) {
	return func(c *Config) { c.Tools = append(c.Tools, tools...) }
}

// stop interrupts the latest run.
func (w *world) stop(s chunk.Session) {
	w.t.Helper()
	if err := w.inbox.Stop(w.t.Context(), inbox.Stop{Session: s, RunID: "r1", Kind: inbox.Interrupt}); err != nil {
		w.t.Fatal(err)
	}
}

// answer gives what a browser or a person says, waits for the one sub-agent, and
// asks for the run to go on.
func (w *world) answer(s chunk.Session, agent string, answers ...inbox.Answer) {
	w.t.Helper()
	for _, a := range answers {
		a.Session, a.RunID = s, "r1"
		if err := w.inbox.Answer(w.t.Context(), a); err != nil {
			w.t.Fatal(err)
		}
	}
	// Whoever stores the last answer wakes the run; a sub-agent's worker may be it.
	natstest.Await(w.t, "all answers", func(ctx context.Context) error {
		stored, err := w.inbox.Answers(ctx, s, "r1")
		if err != nil || len(stored) <= len(answers) {
			return fmt.Errorf("%d answers: %w", len(stored), err)
		}
		return nil
	})
	w.post(commands.Command{Kind: commands.Resume, Session: s, AgentType: agent, RunID: commands.ResumeRunID("r1"), Resumes: "r1"})
}

// Calls of one answer run side by side, their arguments are streamed in pieces and
// in turns, and the model hears of each what came of it.
func TestParallelTools(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { parallelTools(newWorld(t), api) })
	}
}

func parallelTools(w *world, api API) {
	var together sync.WaitGroup
	together.Add(3)
	meet := func(_ context.Context, c Call) (any, error) {
		together.Done()
		together.Wait() // all three are at it at once, or nobody ends
		var in struct{ ID string }
		if err := c.Decode(&in); err != nil {
			return nil, err
		}
		if in.ID == "bad" {
			return nil, errors.New("no such order")
		}
		return map[string]string{"order": in.ID}, nil
	}
	end := openaitest.Start(w.t, func(r openaitest.Request) openaitest.Reply {
		if r.N > 1 {
			return openaitest.Say(text("Done."))
		}
		return openaitest.Say(text("Let me see. "), openaitest.Calls{
			asks{ID: "call_a", Name: "look_up", Args: `{"id":"älpha"}`, Pieces: 4}, asks{ID: "call_b", Name: "look_up", Args: `{"id":"b"}`, Pieces: 7},
			asks{ID: "call_c", Name: "look_up", Args: `{"id":"bad"}`},
		})
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(made("look_up", meet)))})
	s := w.ask("clerk", "Two orders?")
	snap := w.ended(s)
	w.want(answered(snap), "Let me see. Done.", "text")
	req := end.Requests()[1]
	w.want(req.Outcome("call_a"), `{"order":"älpha"}`, "a")
	w.want(req.Outcome("call_b"), `{"order":"b"}`, "b")
	w.want(req.Outcome("call_c"), `error: no such order`, "c")
	w.want(fmt.Sprint(req.Messages[1].Calls), `[{call_a look_up {"id":"älpha"} 0} {call_b look_up {"id":"b"} 0} {call_c look_up {"id":"bad"} 0}]`, "calls")
	args := map[string]string{}
	for _, b := range w.bodies(s) {
		if b, ok := b.(chunk.ToolArgStreamDelta); ok {
			args[b.ToolCallID] += b.Delta
		}
	}
	w.want(args["call_a"]+args["call_b"], `{"id":"älpha"}{"id":"b"}`, "streamed arguments")
}

// Calls that are no good are answered without being run, and the model may try
// otherwise.
func TestBadCalls(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N > 1 {
					return openaitest.Say(text("I give up."))
				}
				return openaitest.Say(
					asks{ID: "c1", Name: "look_up", Args: `{"id":`}, asks{ID: "c2", Name: "look_up", Args: `{"id":7}`}, asks{ID: "c3", Name: "look_up", Args: `[1]`},
					asks{ID: "c4", Name: "fly", Args: `{}`}, asks{ID: "c5", Name: "look_up", Args: ``}, asks{ID: "c6", Name: "panic", Args: `{"id":"1"}`},
					asks{ID: "c7", Name: "large", Args: `{"id":"1"}`}, asks{ID: "c8", Name: "odd", Args: `{"id":"1"}`}, asks{ID: "c9", Name: finishTool, Args: `{}`},
				)
			})
			never := func(context.Context, Call) (any, error) {
				t.Error("it was run")
				return nil, nil
			}
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(
				made("look_up", never), made("panic", func(context.Context, Call) (any, error) { panic("secret") }),
				made("large", func(context.Context, Call) (any, error) { return strings.Repeat("x", maxValue+1), nil }),
				made("odd", func(context.Context, Call) (any, error) { return func() {}, nil }),
			))})
			snap := w.ended(w.ask("clerk", "Go on."))
			w.want(answered(snap), "I give up.", "text")
			req := end.Requests()[1]
			for id, want := range map[string]string{
				"c1": "no JSON", "c2": "do not fit", "c3": "no JSON object", "c4": `there is no tool "fly"`, "c5": "do not fit",
				"c6": "the tool broke down", "c7": "bytes, want at most", "c8": "the result is no JSON",
			} {
				if got := req.Outcome(id); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
					t.Errorf("%s: %q, want %q", id, got, want)
				}
			}
			if strings.Contains(told(snap), "secret") {
				t.Error("what a tool panicked with is shown")
			}
		})
	}
}

// The browser's tools, people's approvals and sub-agents of one answer suspend the
// run together; a granted call is run, once, and before the model is asked.
func TestAskingOthers(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { askingOthers(newWorld(t), api) })
	}
}

func askingOthers(w *world, api API) {
	var mu sync.Mutex
	var keys []string
	remove := made("remove", func(_ context.Context, c Call) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, c.Key)
		return "removed " + c.Input.String(), nil
	})
	remove.Approve = Always
	end := openaitest.Start(w.t, func(r openaitest.Request) openaitest.Reply {
		switch {
		case r.System == "You count." && len(r.Messages) == 1:
			return openaitest.Say(text("I count."), asks{ID: "f", Name: finishTool, Args: `{"n":3}`, Pieces: 2})
		case len(r.Messages) == 1:
			return openaitest.Say(
				asks{ID: "where", Name: "location", Args: `{}`}, asks{ID: "yes", Name: "remove", Args: `{"id":"1"}`, Pieces: 3},
				asks{ID: "no", Name: "remove", Args: `{"id":"2"}`}, asks{ID: "kid", Name: "subagent__counter", Args: `{"message":"Count to three."}`},
			)
		case r.N == 3:
			return openaitest.Say(text("wrong"), openaitest.Cut{})
		}
		return openaitest.Say(text("All done."))
	})
	clerk := w.agent(end, api, with(remove, Tool{Name: "location", Client: true, Deadline: time.Hour}), func(c *Config) {
		c.Subagents = []Subagent{{Type: "counter", Description: "Counts."}}
	})
	counter := w.agent(end, api, func(c *Config) {
		c.System, c.Output = "You count.", chunk.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	})
	w.serve(map[string]workers.Agent{"clerk": clerk, "counter": counter})
	s := w.ask("clerk", "Do it all.")
	snap := w.await(s, "questions", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunSuspended })
	approvals := map[string]string{}
	for _, p := range snap.Pending {
		approvals[p.CallID] = p.ApprovalID
	}
	w.answer(s, "clerk",
		inbox.Answer{CallID: "where", ToolName: "location", Kind: inbox.ClientResult, Result: chunk.Value(`{"city":"Ulm"}`)},
		inbox.Answer{CallID: "yes", ToolName: "remove", Kind: inbox.Approval, ApprovalID: approvals["yes"], Approved: true},
		inbox.Answer{CallID: "no", ToolName: "remove", Kind: inbox.Approval, ApprovalID: approvals["no"], Reason: "keep it"},
	)
	snap = w.ended(s)
	w.want(answered(snap), "All done.", "text")
	requests := end.Requests()
	req := requests[len(requests)-1]
	w.want(req.Outcome("where"), `{"city":"Ulm"}`, "client tool")
	browsers := 0 // records that tell a page to run a call: where its arguments begin, and where they are whole
	for rec := range w.records(s) {
		if bytes.Contains(rec.Data, []byte(`"providerExecuted":false`)) && bytes.Contains(rec.Data, []byte(`"location"`)) &&
			(rec.Type == chunk.TypeToolArgStreamStart || rec.Type == chunk.TypeToolStart) {
			browsers++
		}
	}
	if browsers != 2 {
		w.t.Errorf("%d records say that the browser runs the call, want 2", browsers)
	}
	w.want(req.Outcome("yes"), `removed {"id":"1"}`, "granted call")
	w.want(req.Outcome("no"), `error: the call was not allowed: keep it`, "denied call")
	w.want(req.Outcome("kid"), `{"n":3}`, "sub-agent")
	if len(keys) != 1 || keys[0] == "" {
		w.t.Errorf("the granted call was run with the keys %q, want once: the attempt of the model after it failed", keys)
	}
	if strings.Contains(told(snap), finishTool) {
		w.t.Errorf("%s is shown", finishTool)
	}
}

// The output is the arguments of __finish__, which nobody is shown: not as a call,
// nor in any record. What does not fit the schema is tried again, and so is an
// answer without it.
func TestOutput(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				switch r.N {
				case 1:
					return openaitest.Say(text("Five. "))
				case 2:
					return openaitest.Say(asks{ID: "f1", Name: finishTool, Args: `{"n":"five"}`})
				}
				if r.ToolChoice != "required" || !slices.Contains(r.Tools, finishTool) {
					t.Errorf("asked with %q, %q", r.ToolChoice, r.Tools)
				}
				if got := r.Outcome("f1"); !strings.Contains(got, "do not fit the schema") {
					t.Errorf("the model heard %q", got)
				}
				return openaitest.Say(text("So be it."), asks{ID: "t", Name: "look_up", Args: `{"id":"1"}`}, asks{ID: "f2", Name: finishTool, Args: `{"n":5}`, Pieces: 3})
			})
			never := func(context.Context, Call) (any, error) {
				t.Error("a call beside __finish__ was run")
				return nil, nil
			}
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(made("look_up", never)), func(c *Config) {
				c.Output = chunk.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
			})})
			s := w.ask("clerk", "How many?")
			snap := w.ended(s)
			w.want(snap.Run.Output.String(), `{"n":5}`, "output")
			w.want(answered(snap), "Five. So be it.", "text")
			if want := (fold.Usage{Input: 30, Output: 15}); snap.Usage != want {
				t.Errorf("usage %+v, want that of three answers", snap.Usage)
			}
			for rec := range w.records(s) {
				if strings.Contains(string(rec.Data), finishTool) {
					t.Errorf("the log has %s", rec.Data)
				}
			}
			if !strings.Contains(told(snap), "not run: the answer was finished") {
				t.Errorf("nothing is said of the call beside it: %s", told(snap))
			}
		})
	}
}

// A model that never gives its output fails the run.
func TestNoOutput(t *testing.T) {
	w := newWorld(t)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.Say(text("Well. ")) })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, func(c *Config) { c.Output = anyObject })})
	snap := w.awaitStatus(w.ask("clerk", "How many?"), fold.Failed)
	w.want(*snap.Failure.Detail.Code, workers.CodeInvalidTool, "code")
	if got := len(end.Requests()); got != maxReminders+1 {
		t.Errorf("%d requests, want %d", got, maxReminders+1)
	}
}

// A turn that comes to no end is ended.
func TestStepLimit(t *testing.T) {
	w := newWorld(t)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		return openaitest.Say(asks{ID: "c", Name: "look_up", Args: `{"id":"1"}`})
	})
	again := made("look_up", func(context.Context, Call) (any, error) { return "again", nil })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(again), func(c *Config) { c.MaxSteps = 3 })})
	snap := w.awaitStatus(w.ask("clerk", "Go on."), fold.Failed)
	w.want(*snap.Failure.Detail.Code, workers.CodeStepLimit, "code")
	if got := len(end.Requests()); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}
}

// How an answer ended is in the log, and a refusal is its text.
func TestFinishes(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.Last().Text == "refuse" {
					return openaitest.Say(openaitest.Refusal("I cannot "), openaitest.Refusal("do that."))
				}
				return openaitest.Reply{Words: []openaitest.Word{text("Once upon")}, Finish: r.Last().Text}
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for asked, want := range map[string]string{"length": "Once upon length", "content_filter": "Once upon content-filter", "stop": "Once upon stop", "refuse": "I cannot do that. stop"} {
				s := w.ask("clerk", asked)
				got := answered(w.ended(s))
				for _, b := range w.bodies(s) {
					if b, ok := b.(chunk.StepEnd); ok {
						got += " " + *b.FinishReason
					}
				}
				w.want(got, want, asked)
			}
		})
	}
}

// Servers have habits: no ids, one place for all calls, reasoning under another
// name, all in one piece, lines that end otherwise, comments.
func TestHabitsOfServers(t *testing.T) {
	w := newWorld(t)
	delta := func(d string) openaitest.Word {
		return openaitest.Raw(": ping\r\ndata: {\"choices\":[{\"index\":0,\"delta\":" + d + "}]}\r\n\r\n")
	}
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		if r.N > 1 {
			return openaitest.Say(text("Done."))
		}
		reply := openaitest.Say(
			delta(`{"reasoning":"Hm.","content":""}`), delta(`{"content":null,"tool_calls":[{"index":0,"id":"x1","function":{"name":"look_up","arguments":"{\"id\":\"1\"}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"x2","function":{"name":"look_up","arguments":"{\"id\":\"2\"}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"name":"look_up","arguments":"{\"id\":"}},{"index":2,"id":"","function":{"arguments":"{\"i"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"\"3\"}"}},{"index":2,"function":{"name":"look_up","arguments":"d\":\"4\"}"}}]}`),
			delta(`{"tool_calls":[{"index":9,"id":"an id with spaces","function":{"name":"look_up","arguments":"{\"id\":\"5\"}"}}],"new":[1]}`),
		)
		reply.CRLF = true
		return reply
	})
	var mu sync.Mutex
	var ids []string
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(made("look_up", func(_ context.Context, c Call) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, c.Input.String())
		return nil, nil
	})))})
	snap := w.ended(w.ask("clerk", "Go on."))
	w.want(answered(snap), "Done.", "text")
	w.want(partsText(snap, "reasoning"), "Hm.", "reasoning")
	slices.Sort(ids)
	w.want(strings.Join(ids, ""), `{"id":"1"}{"id":"2"}{"id":"3"}{"id":"4"}{"id":"5"}`, "calls that were run")
	w.want(end.Requests()[1].Outcome("x2"), "null", "a result of nothing")
}

// What people send with their words goes to the model: it sees images, and reads
// files.
func TestFiles(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.Say(text("A cat.")) })
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			s := chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
			w.request(s, "clerk", "r1", chunk.InputMessage{Content: "What is this?", Files: []chunk.InputFile{
				{URL: "data:image/png;base64,AAAA", MediaType: "image/png"}, {URL: "data:application/pdf;base64,AAAA", MediaType: "application/pdf", Filename: new("a.pdf")},
				{URL: "https://files.example/b.pdf", MediaType: "application/pdf"},
			}})
			w.want(answered(w.ended(s)), "A cat.", "text")
			last := end.Requests()[0].Last()
			if !strings.HasPrefix(last.Text, "What is this?") || last.Files < 2 {
				t.Errorf("the model got %+v", last)
			}
		})
	}
}
