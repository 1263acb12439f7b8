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
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

type toolCall = openaitest.Call

var byID = chunk.Value(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`)

func newTool(name string, run func(ctx context.Context, c Call) (any, error)) Tool {
	return Tool{Name: name, Description: "Does " + name + ".", Schema: byID, Run: run}
}

func with(tools ...Tool) func(*Config) {
	return func(c *Config) { c.Tools = append(c.Tools, tools...) }
}

// stop interrupts the latest run.
func (w *env) stop(s chunk.Session) {
	w.t.Helper()
	if err := w.Inbox.Stop(w.t.Context(), control.Stop{Session: s, RunID: "r1", Kind: control.StopInterrupt}); err != nil {
		w.t.Fatal(err)
	}
}

// answer stores answers, waits for the answer of the sub-agent, and requests a Resume.
func (w *env) answer(s chunk.Session, agent string, answers ...control.Answer) {
	w.t.Helper()
	for _, a := range answers {
		a.Session, a.RunID = s, "r1"
		if err := w.Inbox.Answer(w.t.Context(), a); err != nil {
			w.t.Fatal(err)
		}
	}
	// The sub-agent's worker resumes the run if it stores the last answer.
	natstest.Eventually(w.t, "all answers", func(ctx context.Context) error {
		stored, err := w.Inbox.Answers(ctx, s, "r1")
		if err != nil || len(stored) <= len(answers) {
			return fmt.Errorf("%d answers: %w", len(stored), err)
		}
		return nil
	})
	w.post(control.Command{Kind: control.Resume, Session: s, AgentType: agent, RunID: control.ResumeRunID("r1"), Resumes: "r1"})
}

// Calls of one response run concurrently, their arguments are streamed alternately, and the model gets the
// outcome of each.
func TestParallelTools(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { checkParallelTools(newEnv(t), api) })
	}
}

func checkParallelTools(w *env, api API) {
	var together sync.WaitGroup
	together.Add(3)
	meet := func(_ context.Context, c Call) (any, error) {
		together.Done()
		together.Wait() // returns only if all three run concurrently
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
			return openaitest.StreamReply(text("Done."))
		}
		return openaitest.StreamReply(text("Let me see. "), openaitest.Calls{
			toolCall{ID: "call_a", Name: "look_up", Args: `{"id":"älpha"}`, Pieces: 4}, toolCall{ID: "call_b", Name: "look_up", Args: `{"id":"b"}`, Pieces: 7},
			toolCall{ID: "call_c", Name: "look_up", Args: `{"id":"bad"}`},
		})
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(newTool("look_up", meet)))})
	s := w.ask("clerk", "Two orders?")
	snap := w.ended(s)
	w.want(answered(snap), "Let me see. Done.", "text")
	req := end.Requests()[1]
	w.want(req.Outcome("call_a"), `{"order":"älpha"}`, "a")
	w.want(req.Outcome("call_b"), `{"order":"b"}`, "b")
	w.want(req.Outcome("call_c"), `error: no such order`, "c")
	w.want(fmt.Sprint(req.Messages[1].Calls), `[{call_a look_up {"id":"älpha"} 0} {call_b look_up {"id":"b"} 0} {call_c look_up {"id":"bad"} 0}]`, "calls")
	args := map[string]string{}
	for _, b := range w.Bodies(s) {
		if b, ok := b.(chunk.ToolArgStreamDelta); ok {
			args[b.ToolCallID] += b.Delta
		}
	}
	w.want(args["call_a"]+args["call_b"], `{"id":"älpha"}{"id":"b"}`, "streamed arguments")
}

// A message that steers arrives while a tool runs: the model gets it after the outcome of the tool, with its next request.
func TestMessageBetweenRequests(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N > 1 {
					return openaitest.StreamReply(text("Two letters."))
				}
				return openaitest.StreamReply(text("Let me see. "), toolCall{ID: "c1", Name: "look_up", Args: `{"id":"1"}`})
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(newTool("look_up", func(ctx context.Context, c Call) (any, error) {
				next := control.Command{
					Kind: control.Execute, Mode: control.ModeQueued, Session: c.Turn.Session(), AgentType: "clerk", RunID: "r2",
					Input: []chunk.InputMessage{{Content: "And my letters?"}}, Issued: time.Now(),
				}
				return "one parcel", w.Inbox.Enqueue(ctx, control.Queued{Command: next, Steers: true, State: control.QueuedWaiting})
			})))})
			s := w.ask("clerk", "My parcels?")
			snap := w.Await(s, "the second answer", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
			w.want(answered(snap), "Let me see. Two letters.", "text")
			all := end.Requests()
			if len(all) != 2 {
				t.Fatalf("%d requests, want 2", len(all))
			}
			w.want(all[1].Outcome("c1"), "one parcel", "outcome")
			w.want(all[1].Last().Text, "And my letters?", "last message")
		})
	}
}

// Invalid calls are rejected without being run, and the model may call again.
func TestInvalidCalls(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N > 1 {
					return openaitest.StreamReply(text("I give up."))
				}
				return openaitest.StreamReply(
					toolCall{ID: "c1", Name: "look_up", Args: `{"id":`}, toolCall{ID: "c2", Name: "look_up", Args: `{"id":7}`}, toolCall{ID: "c3", Name: "look_up", Args: `[1]`},
					toolCall{ID: "c4", Name: "fly", Args: `{}`}, toolCall{ID: "c5", Name: "look_up", Args: ``}, toolCall{ID: "c6", Name: "panic", Args: `{"id":"1"}`},
					toolCall{ID: "c7", Name: "large", Args: `{"id":"1"}`}, toolCall{ID: "c8", Name: "odd", Args: `{"id":"1"}`}, toolCall{ID: "c9", Name: finishTool, Args: `{}`},
				)
			})
			never := func(context.Context, Call) (any, error) {
				t.Error("invalid call was run")
				return nil, nil
			}
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(
				newTool("look_up", never), newTool("panic", func(context.Context, Call) (any, error) { panic("secret") }),
				newTool("large", func(context.Context, Call) (any, error) { return strings.Repeat("x", maxValue+1), nil }),
				newTool("odd", func(context.Context, Call) (any, error) { return func() {}, nil }),
			))})
			snap := w.ended(w.ask("clerk", "Continue."))
			w.want(answered(snap), "I give up.", "text")
			req := end.Requests()[1]
			for id, want := range map[string]string{
				"c1": "not valid JSON", "c2": "do not match", "c3": "not a JSON object", "c4": `unknown tool "fly"`, "c5": "do not match",
				"c6": "tool failed", "c7": "bytes, want at most", "c8": "result is not valid JSON",
			} {
				if got := req.Outcome(id); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
					t.Errorf("%s: %q, want %q", id, got, want)
				}
			}
			if strings.Contains(stack.Conversation(snap), "secret") {
				t.Error("panic value is shown")
			}
		})
	}
}

// Browser tools, approvals and sub-agents of one response suspend the run together; an approved call runs
// once, before the next model call.
func TestPendingCalls(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { checkPendingCalls(newEnv(t), api) })
	}
}

func checkPendingCalls(w *env, api API) {
	var mu sync.Mutex
	var keys []string
	remove := newTool("remove", func(_ context.Context, c Call) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, c.IdempotencyKey)
		return "removed " + c.Input.String(), nil
	})
	remove.NeedsApproval = AlwaysApprove
	end := openaitest.Start(w.t, func(r openaitest.Request) openaitest.Reply {
		switch {
		case r.System == "You count." && len(r.Messages) == 1:
			return openaitest.StreamReply(text("I count."), toolCall{ID: "f", Name: finishTool, Args: `{"n":3}`, Pieces: 2})
		case len(r.Messages) == 1:
			return openaitest.StreamReply(
				toolCall{ID: "where", Name: "location", Args: `{}`}, toolCall{ID: "yes", Name: "remove", Args: `{"id":"1"}`, Pieces: 3},
				toolCall{ID: "no", Name: "remove", Args: `{"id":"2"}`}, toolCall{ID: "kid", Name: "subagent__counter", Args: `{"message":"Count to three."}`},
			)
		case r.N == 3:
			return openaitest.StreamReply(text("wrong"), openaitest.CloseConnection{})
		}
		return openaitest.StreamReply(text("All done."))
	})
	clerk := w.agent(end, api, with(remove, Tool{Name: "location", RunsInBrowser: true, Deadline: time.Hour}), func(c *Config) {
		c.Subagents = []Subagent{{Type: "counter", Description: "Counts."}}
	})
	counter := w.agent(end, api, func(c *Config) {
		c.System, c.Output = "You count.", chunk.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	})
	w.serve(map[string]workers.Agent{"clerk": clerk, "counter": counter})
	s := w.ask("clerk", "Do it all.")
	snap := w.Await(s, "questions", func(snap fold.Snapshot) bool { return snap.Run.Status == fold.RunSuspended })
	approvals := map[string]string{}
	for _, p := range snap.Pending {
		approvals[p.CallID] = p.ApprovalID
	}
	w.answer(s, "clerk",
		control.Answer{CallID: "where", ToolName: "location", Kind: control.ClientResult, Result: chunk.Value(`{"city":"Ulm"}`)},
		control.Answer{CallID: "yes", ToolName: "remove", Kind: control.Approval, ApprovalID: approvals["yes"], Approved: true},
		control.Answer{CallID: "no", ToolName: "remove", Kind: control.Approval, ApprovalID: approvals["no"], Reason: "keep it"},
	)
	snap = w.ended(s)
	w.want(answered(snap), "All done.", "text")
	requests := end.Requests()
	req := requests[len(requests)-1]
	w.want(req.Outcome("where"), `{"city":"Ulm"}`, "client tool")
	browsers := 0 // records that mark a call of the browser: at the start and at the end of its arguments
	for _, rec := range w.Records(s) {
		if bytes.Contains(rec.Data, []byte(`"providerExecuted":false`)) && bytes.Contains(rec.Data, []byte(`"location"`)) &&
			(rec.Type == chunk.TypeToolArgStreamStart || rec.Type == chunk.TypeToolStart) {
			browsers++
		}
	}
	if browsers != 2 {
		w.t.Errorf("%d records mark the call of the browser, want 2", browsers)
	}
	w.want(req.Outcome("yes"), `removed {"id":"1"}`, "granted call")
	w.want(req.Outcome("no"), `error: call denied: keep it`, "denied call")
	w.want(req.Outcome("kid"), `{"n":3}`, "sub-agent")
	if len(keys) != 1 || keys[0] == "" {
		w.t.Errorf("approved call run with the keys %q, want once: the model call after it failed", keys)
	}
	if strings.Contains(stack.Conversation(snap), finishTool) {
		w.t.Errorf("%s is shown", finishTool)
	}
}

// The output is the arguments of __finish__; its call is in no record. Invalid output is retried, and so is a
// response without it.
func TestOutput(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				switch r.N {
				case 1:
					return openaitest.StreamReply(text("Five. "))
				case 2:
					return openaitest.StreamReply(toolCall{ID: "f1", Name: finishTool, Args: `{"n":"five"}`})
				}
				if r.ToolChoice != "required" || !slices.Contains(r.Tools, finishTool) {
					t.Errorf("request with %q, %q", r.ToolChoice, r.Tools)
				}
				if got := r.Outcome("f1"); !strings.Contains(got, "do not match the schema") {
					t.Errorf("the model got %q", got)
				}
				return openaitest.StreamReply(text("So be it."), toolCall{ID: "t", Name: "look_up", Args: `{"id":"1"}`}, toolCall{ID: "f2", Name: finishTool, Args: `{"n":5}`, Pieces: 3})
			})
			never := func(context.Context, Call) (any, error) {
				t.Error("call in the response of __finish__ was run")
				return nil, nil
			}
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api, with(newTool("look_up", never)), func(c *Config) {
				c.Output = chunk.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
			})})
			s := w.ask("clerk", "How many?")
			snap := w.ended(s)
			w.want(snap.Run.Output.String(), `{"n":5}`, "output")
			w.want(answered(snap), "Five. So be it.", "text")
			if want := (fold.Usage{Input: 30, Output: 15}); snap.Usage != want {
				t.Errorf("usage %+v, want the sum of three responses", snap.Usage)
			}
			for _, rec := range w.Records(s) {
				if strings.Contains(string(rec.Data), finishTool) {
					t.Errorf("record %s", rec.Data)
				}
			}
			if !strings.Contains(stack.Conversation(snap), "not run: the same response contains the final output") {
				t.Errorf("no outcome of the other call: %s", stack.Conversation(snap))
			}
		})
	}
}

// A model that never returns its output fails the run.
func TestMissingOutput(t *testing.T) {
	w := newEnv(t)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(text("Well. ")) })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, func(c *Config) { c.Output = anyObject })})
	snap := w.AwaitStatus(w.ask("clerk", "How many?"), fold.Failed)
	w.want(*snap.Failure.Detail.Code, workers.CodeInvalidTool, "code")
	if got := len(end.Requests()); got != maxOutputReminders+1 {
		t.Errorf("%d requests, want %d", got, maxOutputReminders+1)
	}
}

// A turn without an end is stopped.
func TestStepLimit(t *testing.T) {
	w := newEnv(t)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		return openaitest.StreamReply(toolCall{ID: "c", Name: "look_up", Args: `{"id":"1"}`})
	})
	again := newTool("look_up", func(context.Context, Call) (any, error) { return "again", nil })
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(again), func(c *Config) { c.MaxSteps = 3 })})
	snap := w.AwaitStatus(w.ask("clerk", "Continue."), fold.Failed)
	w.want(*snap.Failure.Detail.Code, workers.CodeStepLimit, "code")
	if got := len(end.Requests()); got != 3 {
		t.Errorf("%d requests, want 3", got)
	}
}

// The finish reason is stored, and a refusal is stored as text.
func TestFinishReasons(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.Last().Text == "refuse" {
					return openaitest.StreamReply(openaitest.Refusal("I cannot "), openaitest.Refusal("do that."))
				}
				return openaitest.Reply{Events: []openaitest.Event{text("Once upon")}, Finish: r.Last().Text}
			})
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for reason, want := range map[string]string{"length": "Once upon length", "content_filter": "Once upon content-filter", "stop": "Once upon stop", "refuse": "I cannot do that. stop"} {
				s := w.ask("clerk", reason)
				got := answered(w.ended(s))
				for _, b := range w.Bodies(s) {
					if b, ok := b.(chunk.StepEnd); ok {
						got += " " + *b.FinishReason
					}
				}
				w.want(got, want, reason)
			}
		})
	}
}

// Servers differ: missing ids, one index for all calls, other names for reasoning, whole responses in one
// piece, other line ends, comments.
func TestServerVariants(t *testing.T) {
	w := newEnv(t)
	delta := func(d string) openaitest.Event {
		return openaitest.Raw(": ping\r\ndata: {\"choices\":[{\"index\":0,\"delta\":" + d + "}]}\r\n\r\n")
	}
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		if r.N > 1 {
			return openaitest.StreamReply(text("Done."))
		}
		reply := openaitest.StreamReply(
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
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(newTool("look_up", func(_ context.Context, c Call) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, c.Input.String())
		return nil, nil
	})))})
	snap := w.ended(w.ask("clerk", "Continue."))
	w.want(answered(snap), "Done.", "text")
	w.want(partsText(snap, "reasoning"), "Hm.", "reasoning")
	slices.Sort(ids)
	w.want(strings.Join(ids, ""), `{"id":"1"}{"id":"2"}{"id":"3"}{"id":"4"}{"id":"5"}`, "calls that were run")
	w.want(end.Requests()[1].Outcome("x2"), "null", "a result of nothing")
}

// Files of user messages are sent to the model: images as images, others as files.
func TestFiles(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(text("A cat.")) })
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

// Data parts of user messages are lines of JSON for the model. A message may have nothing else: without them the request would have no message of the user.
func TestDataOfUsers(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return openaitest.StreamReply(text("Bern.")) })
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
			for content, want := range map[string]string{"": `{"type":"data-place","data":{"lat":46.9}}`, "Where?": "Where?\n" + `{"type":"data-place","data":{"lat":46.9}}`} {
				s := chunk.RootSession("acme", fmt.Sprintf("s-%d", names.Add(1)))
				w.request(s, "clerk", "r1", chunk.InputMessage{Content: content, Data: []chunk.InputData{{Name: "place", Data: chunk.Value(`{"lat":46.9}`)}}})
				w.want(answered(w.ended(s)), "Bern.", "text")
				requests := end.Requests()
				w.want(requests[len(requests)-1].Last().Text, want, "message of the user")
			}
		})
	}
}
