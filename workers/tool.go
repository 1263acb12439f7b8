package workers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// SubagentTool is the name of the tool that is the agent of a type.
func SubagentTool(agentType string) string { return subagentPrefix + agentType }

const subagentPrefix = "subagent__"

// Call is one call of a tool. Its arguments may be told while they stream, with
// Args; then one of these says what it is:
//
//	Start        the agent runs the tool, and says End or Fail
//	AskClient    the browser runs it; begin it with ClientTool if it has Args
//	AskApproval  a person must allow it; then the agent runs it in a later step
//	Delegate     another agent does it
//	Reject       the arguments are no good
//
// The step must not end before that, nor with a Start that has no End or Fail.
type Call struct {
	step     *Step
	id, name string
	input    chunk.Value
	client   bool   // the browser runs it
	approval string // id of the approval that was given, "" for none
	granted  bool   // it is of an earlier step

	stage stage // guarded by the step's lock
}

// stage is how far a call is.
type stage int

const (
	named     stage = iota // nothing was said of it
	streaming              // its arguments are on their way
	running                // we owe its outcome
	asked                  // somebody else does
	settled
)

// Tool begins a call that the model makes. The id is the model's; one that the
// session has had before gets a number behind it, see ID.
func (s *Step) Tool(id, name string) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Call{step: s, id: id, name: name}
	if !s.closed { // then nothing of the call will be said
		c.id = s.unique(id)
		s.calls = append(s.calls, c)
	}
	return c
}

// ClientTool begins a call that the browser runs. A page takes a call whose
// arguments stream for one of the agent's, and keeps to that; so Args must know.
// Without Args, Tool does as well.
func (s *Step) ClientTool(id, name string) *Call {
	c := s.Tool(id, name)
	c.client = true
	return c
}

// unique is id with the smallest number that makes it new.
func (s *Step) unique(id string) string {
	for n, try := 1, id; ; n++ {
		if !s.turn.ids[try] && !s.has(try) {
			return try
		}
		try = fmt.Sprintf("%s_%d", id, n)
	}
}

func (s *Step) has(id string) bool {
	for _, c := range s.calls {
		if c.id == id {
			return true
		}
	}
	return false
}

// Granted are calls of earlier steps that people have allowed since. Run each,
// and say End or Fail: the step must not end before. Say it before anything
// else, and readers see the outcome where the call is.
func (s *Step) Granted() []*Call {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var granted []*Call
	for _, c := range s.calls {
		if c.granted && c.stage == running {
			granted = append(granted, c)
		}
	}
	return granted
}

// ID names the call in the session.
func (c *Call) ID() string { return c.id }

// Name is the name of the tool.
func (c *Call) Name() string { return c.name }

// Input is what the tool is called with, nil before that is known.
func (c *Call) Input() chunk.Value {
	c.step.mu.RLock()
	defer c.step.mu.RUnlock()
	return c.input
}

// IdempotencyKey is Step.IdempotencyKey of the call.
func (c *Call) IdempotencyKey() string { return c.step.IdempotencyKey(c.id) }

// Args tells a piece of the arguments' JSON text.
func (c *Call) Args(ctx context.Context, piece string) error {
	return c.move(named, streaming, func(from stage) error {
		if from == named {
			if err := c.step.queue(ctx, chunk.ToolArgStreamStart{ToolCallID: c.id, ToolName: c.name}, c.runner()...); err != nil {
				return err
			}
		}
		return c.step.queue(ctx, chunk.ToolArgStreamDelta{ToolCallID: c.id, Delta: piece})
	})
}

// runner is the member that says that the browser runs the call.
func (c *Call) runner() []chunk.Member {
	if !c.client {
		return nil
	}
	return []chunk.Member{{Name: "providerExecuted", Value: chunk.Value("false")}}
}

// Start says that the agent runs the tool with input, a JSON object.
func (c *Call) Start(ctx context.Context, input any) error {
	return c.begin(ctx, input, running, func(v chunk.Value) error {
		return c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v})
	})
}

// AskClient says that the browser runs the tool with input, a JSON object. The
// run is suspended at the end of the step until it has answered, or until the
// deadline; the zero time is none.
func (c *Call) AskClient(ctx context.Context, input any, deadline time.Time) error {
	return c.begin(ctx, input, asked, func(v chunk.Value) error {
		c.client = true
		if err := c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v}, c.runner()...); err != nil {
			return err
		}
		// The call is listed as one that waits, in the step, so that whoever
		// takes the run over knows what it waits for and how long.
		return c.step.queue(ctx, marker(suspendedClient, []string{c.id}, deadline, nil))
	})
}

// AskApproval says that a person must allow the call before the agent runs it.
// The run is suspended at the end of the step until it is decided, or until the
// deadline; the zero time is none. What is allowed is in Step.Granted of the
// next step, what is not has its outcome in the history.
func (c *Call) AskApproval(ctx context.Context, input any, deadline time.Time) error {
	return c.begin(ctx, input, asked, func(v chunk.Value) error {
		var extra []chunk.Member
		if !deadline.IsZero() {
			extra = []chunk.Member{{Name: "deadline", Value: strconv.AppendInt(nil, deadline.UnixMilli(), 10)}}
		}
		return c.step.queue(ctx, chunk.ToolApprovalRequest{
			ToolCallID: c.id, ToolName: c.name, ApprovalID: approvalID(c.step.turn.cmd.RunID, c.id), Input: v,
		}, extra...)
	})
}

// Delegate says that the agent of the type in the tool's name (SubagentTool) does
// the call. It gets a session of its own under the same root, in which any worker
// may run it, and input, a JSON object, as its Params; the member "message" of
// input, if that is a text, is its input message, else all of input is. The run
// is suspended at the end of the step until it has ended; its output, or the last
// text if it has none, is the outcome of the call.
func (c *Call) Delegate(ctx context.Context, input any) error {
	agentType, ok := strings.CutPrefix(c.name, subagentPrefix)
	if !ok || agentType == "" {
		return fmt.Errorf("tool %q: %w: want the name of a sub-agent, %s<type>", c.name, chunk.ErrInvalid, subagentPrefix)
	}
	t := c.step.turn
	return c.begin(ctx, input, asked, func(v chunk.Value) error {
		if err := c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v}); err != nil {
			return err
		}
		return c.step.queue(ctx, chunk.SubagentStart{
			SubAgentType: agentType, SubSessionID: childSession(t.cmd.Session, t.cmd.RunID, c.id).ID, CallID: c.id,
		})
	})
}

// Reject says that the arguments cannot be used, and why. Partial is what could
// be read of them, nil for nothing.
func (c *Call) Reject(ctx context.Context, reason string, partial any) error {
	b := chunk.ToolInputError{ToolCallID: c.id, ToolName: c.name, Error: reason}
	if partial != nil {
		v, err := chunk.ValueOf(partial)
		if err != nil {
			return err
		}
		b.PartialInput = &v
	}
	return c.move(named, settled, func(stage) error { return c.step.queue(ctx, b) })
}

// End says what came of a call that was started or granted: any JSON.
func (c *Call) End(ctx context.Context, result any) error {
	v, err := chunk.ValueOf(result)
	if err != nil {
		return err
	}
	return c.settle(ctx, chunk.ToolEnd{ToolCallID: c.id, ToolName: c.name, Result: v, ProviderExecuted: new(true)})
}

// Fail says that a call that was started or granted came to nothing. The model
// and people read the text of err, so that it may be tried otherwise; the code
// is that of an *Error, else CodeToolFailed.
func (c *Call) Fail(ctx context.Context, err error) error {
	text, code := err.Error(), CodeToolFailed
	if d := detail(err, ""); d.Message != "" {
		text, code = d.Message, *d.Code
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return c.settle(ctx, chunk.ToolEnd{ToolCallID: c.id, ToolName: c.name, Error: &text, ErrorCode: &code, ProviderExecuted: new(true)})
}

// settle says the outcome. That of a granted call belongs to a step before: it
// is said before this one's beginning, if nothing else was.
func (c *Call) settle(ctx context.Context, end chunk.ToolEnd) error {
	return c.move(running, settled, func(stage) error {
		s := c.step
		if c.granted && !s.started && !s.closed && s.spoilt == nil {
			return s.emit(ctx, end)
		}
		return s.queue(ctx, end)
	})
}

// begin says with say what becomes of the call.
func (c *Call) begin(ctx context.Context, input any, to stage, say func(chunk.Value) error) error {
	v, err := chunk.ValueOf(input)
	if err != nil {
		return err
	}
	return c.move(named, to, func(from stage) error {
		if from == streaming {
			if err := c.step.queue(ctx, chunk.ToolArgStreamEnd{ToolCallID: c.id}); err != nil {
				return err
			}
		}
		if err := say(v); err != nil {
			return err
		}
		c.input = v
		return nil
	})
}

// move changes the stage of the call if what it says on the way is said. From
// named means: or streaming.
func (c *Call) move(from, to stage, say func(stage) error) error {
	c.step.mu.Lock()
	defer c.step.mu.Unlock()
	if c.stage != from && (from != named || c.stage != streaming) {
		return fmt.Errorf("call %q: %w: its outcome is %s", c.id, chunk.ErrInvalid, c.stage)
	}
	if err := say(c.stage); err != nil {
		return err
	}
	c.stage = to
	return nil
}

func (s stage) String() string {
	return [...]string{"not known", "not known", "the agent's to say", "somebody else's to say", "said"}[s]
}
