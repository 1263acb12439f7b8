package workers

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// SubagentTool returns the name of the tool that delegates to an agent type.
func SubagentTool(agentType string) string { return subagentPrefix + agentType }

const subagentPrefix = "subagent__"

// Call is one tool call. Args may stream its arguments; then one of these methods decides who completes it:
//
//	Start        the agent runs the tool and calls End or Fail
//	AskClient    the browser runs it; create the call with ClientTool if it uses Args
//	AskApproval  a user must approve it; then the agent runs it in a later step
//	Delegate     another agent runs it
//	Reject       the arguments are invalid
//
// EndUnknown and Deny are for agents that pass on what another program does.
//
// An agent that learns only later who completes a call, because another program runs its tools, calls Start and then
// AwaitClient or AwaitApproval instead of End or Fail.
//
// A step with a call that is not decided, or with a Start without End or Fail, cannot be committed.
type Call struct {
	step     *Step
	id, name string
	input    chunk.Value
	extra    []chunk.Member
	client   bool   // the browser runs it
	approval string // id of the approval, "" if none was needed
	approved bool   // approved call of an earlier step

	callState callState  // guarded by the step's lock
	span      trace.Span // while the agent runs it, otherwise nil; guarded by the step's lock
}

// callState is the state of a call in its step.
type callState int

const (
	created      callState = iota // nothing is written
	streaming                     // arguments are being streamed
	pendingOwn                    // the agent writes the outcome
	pendingOther                  // a browser, a user or another agent answers
	done
)

// Tool creates a call with the id that the model gave it. If the session has a call with that id, a number is
// appended; ID returns the result.
func (s *Step) Tool(id, name string) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Call{step: s, id: id, name: name}
	if !s.closed { // otherwise nothing of the call can be written
		c.id = s.unique(id)
		s.calls = append(s.calls, c)
	}
	return c
}

// ClientTool creates a call that the browser runs, or may run. It is needed only with Args, because browsers decide
// by the first piece of the arguments whether they run the call, and with AwaitClient.
func (s *Step) ClientTool(id, name string) *Call {
	c := s.Tool(id, name)
	c.client = true
	return c
}

// unique returns id, with the smallest number that makes it unique if it is in use.
func (s *Step) unique(id string) string {
	for n, try := 1, id; ; n++ {
		if !s.turn.ids[try] && !s.has(try) {
			return try
		}
		try = fmt.Sprintf("%s_%d", id, n)
	}
}

func (s *Step) has(id string) bool {
	return slices.ContainsFunc(s.calls, func(c *Call) bool { return c.id == id })
}

// ApprovedCalls returns calls of earlier steps that have been approved since. Run each of them and call End
// or Fail; the step cannot be committed before. If these outcomes are written first, readers see them at the
// original call.
func (s *Step) ApprovedCalls() []*Call {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var approved []*Call
	for _, c := range s.calls {
		if c.approved && c.callState == pendingOwn {
			approved = append(approved, c)
		}
	}
	return approved
}

// ID returns the id of the call, which is unique in the session.
func (c *Call) ID() string { return c.id }

// Name returns the name of the tool.
func (c *Call) Name() string { return c.name }

// Input returns the arguments, nil before they are complete.
func (c *Call) Input() chunk.Value {
	c.step.mu.RLock()
	defer c.step.mu.RUnlock()
	return c.input
}

// IdempotencyKey returns the key of the side effect of the call. It is unique to the call and the same in every
// worker and every attempt. Pass it to operations that must happen once, such as a payment.
func (c *Call) IdempotencyKey() string {
	c.step.mu.RLock()
	defer c.step.mu.RUnlock()
	cmd := c.step.turn.cmd
	return idempotencyKey(cmd.Session, approvalRun(c.approval, cmd.RunID), c.id)
}

// SetExtra sets members that the chunk schema does not have, of the chunks that begin the call or end it from now on. The names must not be those of the
// schema, and not deadline. chunk.RunBy is such a member.
func (c *Call) SetExtra(extra ...chunk.Member) {
	c.step.mu.Lock()
	defer c.step.mu.Unlock()
	c.extra = extra
}

// Args writes a piece of the JSON text of the arguments.
func (c *Call) Args(ctx context.Context, piece string) error {
	return c.transition(created, streaming, func(from callState) error {
		if from == created {
			if err := c.step.queue(ctx, chunk.ToolArgStreamStart{ToolCallID: c.id, ToolName: c.name}, c.startMembers()...); err != nil {
				return err
			}
		}
		return c.step.queue(ctx, chunk.ToolArgStreamDelta{ToolCallID: c.id, Delta: piece})
	})
}

// startMembers returns the additional members of the chunks that begin the call: one of them marks a call of the browser.
func (c *Call) startMembers() []chunk.Member {
	said := slices.ContainsFunc(c.extra, func(m chunk.Member) bool { return m.Name == chunk.RunBy(false).Name })
	if !c.client || said {
		return c.extra
	}
	return append([]chunk.Member{chunk.RunBy(false)}, c.extra...)
}

// Start writes the arguments, which must encode as a JSON object, of a call that the agent runs.
func (c *Call) Start(ctx context.Context, input any) error {
	return c.submit(ctx, input, pendingOwn, func(v chunk.Value) error {
		c.startTrace(ctx)
		err := c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v}, c.startMembers()...)
		if err != nil {
			c.endTrace("not_written")
		}
		return err
	})
}

// AwaitClient hands a call of ClientTool that was started to the browser, as AskClient does.
func (c *Call) AwaitClient(ctx context.Context, deadline time.Time) error {
	if !c.client {
		return fmt.Errorf("call %q: %w: want a call of ClientTool", c.id, chunk.ErrInvalid)
	}
	return c.transition(pendingOwn, pendingOther, func(callState) error {
		c.handedOver("client")
		return c.step.queue(ctx, suspensionMarker(suspendedClient, []string{c.id}, deadline, nil))
	})
}

// AwaitApproval requests a user's approval of a call that was started, as AskApproval does.
func (c *Call) AwaitApproval(ctx context.Context, deadline time.Time) error {
	return c.transition(pendingOwn, pendingOther, func(callState) error {
		return c.requestApproval(ctx, c.input, deadline)
	})
}

// AskClient writes the arguments, which must encode as a JSON object, of a call that the browser runs. The
// run is suspended at the end of the step until the browser's answer or the deadline; a zero deadline never
// expires.
func (c *Call) AskClient(ctx context.Context, input any, deadline time.Time) error {
	return c.submit(ctx, input, pendingOther, func(v chunk.Value) error {
		c.client = true
		c.handedOver("client")
		if err := c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v}, c.startMembers()...); err != nil {
			return err
		}
		// The marker is part of the step: a worker that takes the run over finds the pending calls and their
		// deadlines there.
		return c.step.queue(ctx, suspensionMarker(suspendedClient, []string{c.id}, deadline, nil))
	})
}

// AskApproval requests a user's approval of the call. The run is suspended at the end of the step until the
// decision or the deadline; a zero deadline never expires. Step.ApprovedCalls of the next step returns
// approved calls; denied calls have their outcome in the history.
func (c *Call) AskApproval(ctx context.Context, input any, deadline time.Time) error {
	return c.submit(ctx, input, pendingOther, func(v chunk.Value) error { return c.requestApproval(ctx, v, deadline) })
}

func (c *Call) requestApproval(ctx context.Context, input chunk.Value, deadline time.Time) error {
	c.handedOver("approval")
	extra := slices.Clone(c.extra)
	if !deadline.IsZero() {
		extra = append(extra, chunk.Member{Name: "deadline", Value: strconv.AppendInt(nil, deadline.UnixMilli(), 10)})
	}
	return c.step.queue(ctx, chunk.ToolApprovalRequest{
		ToolCallID: c.id, ToolName: c.name, ApprovalID: approvalID(c.step.turn.cmd.RunID, c.id), Input: input,
	}, extra...)
}

// Delegate calls the agent of the type in the tool's name (SubagentTool). The sub-agent runs in a session of
// its own under the same root, in any worker, with input, a JSON object, as its Params. Its input message is
// the text member "message" of input, or all of input if there is none. The run is suspended at the end of
// the step until the sub-agent has ended. The outcome of the call is the output of the sub-agent, or its last
// text if it has no output.
func (c *Call) Delegate(ctx context.Context, input any) error {
	agentType, ok := strings.CutPrefix(c.name, subagentPrefix)
	if !ok || agentType == "" {
		return fmt.Errorf("tool %q: %w: want %s<agent type>", c.name, chunk.ErrInvalid, subagentPrefix)
	}
	t := c.step.turn
	return c.submit(ctx, input, pendingOther, func(v chunk.Value) error {
		// After the pause it is too late: no worker could request the sub-agent, and the run would wait indefinitely.
		parent := control.Parent{Session: t.cmd.Session.ID, AgentType: t.cmd.AgentType, RunID: t.cmd.RunID, CallID: c.id, ToolName: c.name}
		checked := v
		if len(v) > control.MaxParams { // the record, and so the command, will have a reference
			checked = chunk.Value("{}")
		}
		if err := childCommand(t.cmd.Session, parent, agentType, checked).Validate(); err != nil {
			return err
		}
		c.handedOver("agent")
		if err := c.step.queue(ctx, chunk.ToolStart{ToolCallID: c.id, ToolName: c.name, Arguments: v}, c.extra...); err != nil {
			return err
		}
		return c.step.queue(ctx, chunk.SubagentStart{
			SubAgentType: agentType, SubSessionID: control.SubagentSession(t.cmd.Session, t.cmd.RunID, c.id).ID, CallID: c.id,
		})
	})
}

// Reject reports invalid arguments. partial is the part of them that could be parsed; it may be nil.
func (c *Call) Reject(ctx context.Context, reason string, partial any) error {
	b := chunk.ToolInputError{ToolCallID: c.id, ToolName: c.name, Error: reason}
	if partial != nil {
		v, err := chunk.ValueOf(partial)
		if err != nil {
			return err
		}
		b.PartialInput = &v
	}
	return c.transition(created, done, func(callState) error { return c.step.queue(ctx, b, c.extra...) })
}

// End writes the result, any JSON value, of a call that was started or approved.
func (c *Call) End(ctx context.Context, result any) error {
	v, err := chunk.ValueOf(result)
	if err != nil {
		return err
	}
	return c.complete(ctx, chunk.ToolEnd{ToolCallID: c.id, ToolName: c.name, Result: v, ProviderExecuted: new(true)})
}

// errToolFailed is the text of a failed call for users.
const errToolFailed = "the tool failed"

// Fail writes the error of a call that was started or approved. The message and the code of an *Error are shown to
// users and to the model. The text of another error may contain addresses, paths, and responses of other systems: users
// see that the tool failed, with CodeToolFailed. Turn.Messages has the text, for the model, as long as this worker has
// the run. The worker logs it.
func (c *Call) Fail(ctx context.Context, err error) error {
	text, code := errToolFailed, CodeToolFailed
	if d := detail(err, ""); d.Message != "" {
		text, code = d.Message, *d.Code
	} else {
		c.step.turn.rememberToolError(c.id, validText(err.Error()))
	}
	c.step.turn.log.WarnContext(ctx, "tool failed", "tool", c.name, "call", c.id, "error", err)
	return c.complete(ctx, chunk.ToolEnd{ToolCallID: c.id, ToolName: c.name, Error: &text, ErrorCode: &code, ProviderExecuted: new(true)})
}

// Deny writes that a rule of the agent has denied a call that was started, as the decision of a user would be written. id is that of the question, "" for none.
func (c *Call) Deny(ctx context.Context, id string, reason *string) error {
	return c.transition(pendingOwn, done, func(callState) error {
		c.endTrace(CodeDenied)
		return c.step.queue(ctx, chunk.ToolApprovalResponse{ToolCallID: c.id, ToolName: c.name, ApprovalID: id, Reason: reason, IsAutomatic: new(true)})
	})
}

// EndUnknown ends a call that was started, and whose outcome is not known: the provider of the model has run it. Nothing is written.
func (c *Call) EndUnknown() error {
	return c.transition(pendingOwn, done, func(callState) error {
		c.endTrace("")
		return nil
	})
}

// complete writes the outcome. The outcome of an approved call belongs to an earlier step: it is written
// before step_start if it is the first chunk.
func (c *Call) complete(ctx context.Context, end chunk.ToolEnd) error {
	return c.transition(pendingOwn, done, func(callState) error {
		s := c.step
		if end.ErrorCode != nil {
			c.endTrace(*end.ErrorCode)
		} else {
			c.endTrace("")
		}
		if c.approved && !s.started && !s.closed && s.writeErr == nil {
			return s.emit(ctx, end, c.extra...)
		}
		return s.queue(ctx, end, c.extra...)
	})
}

// submit writes the complete arguments with write and changes the state to to.
func (c *Call) submit(ctx context.Context, input any, to callState, write func(chunk.Value) error) error {
	v, err := chunk.ValueOf(input)
	if err != nil {
		return err
	}
	return c.transition(created, to, func(from callState) error {
		if from == streaming {
			if err := c.step.queue(ctx, chunk.ToolArgStreamEnd{ToolCallID: c.id}); err != nil {
				return err
			}
		}
		if err := write(v); err != nil {
			return err
		}
		c.input = v
		return nil
	})
}

// transition changes the state of the call if write returns nil. From created includes streaming.
func (c *Call) transition(from, to callState, write func(callState) error) error {
	c.step.mu.Lock()
	defer c.step.mu.Unlock()
	if c.callState != from && (from != created || c.callState != streaming) {
		return fmt.Errorf("call %q: %w: state is %s, want %s", c.id, chunk.ErrInvalid, c.callState, from)
	}
	if err := write(c.callState); err != nil {
		return err
	}
	c.callState = to
	return nil
}

func (s callState) String() string {
	return [...]string{"created", "streaming", "running", "waiting for an answer", "completed"}[s]
}
