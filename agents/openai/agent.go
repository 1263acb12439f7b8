package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/tracing"
	"github.com/tailrace/tailrace/workers"
)

// Agent answers turns with a model. It may be used by any number of runs concurrently, and keeps no state
// between steps.
type Agent struct {
	cfg   Config
	path  string                         // of the requests, relative to the base URL
	body  func(q request) map[string]any // returns the members of a request
	tools []*tool

	endpoint string // see endpointOf
}

var _ workers.Agent = (*Agent)(nil)

// New returns an Agent. It sends no request to the endpoint. The error names the field of cfg that is
// invalid.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	tools, err := toolsOf(cfg)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	a := &Agent{cfg: cfg, tools: tools, endpoint: endpointOf(cfg)}
	if cfg.API == Responses {
		a.path, a.body = "responses", responsesWire{model: cfg.Model}.body
	} else {
		a.path, a.body = "chat/completions", chatWire{model: cfg.Model, sendReasoning: cfg.SendReasoning}.body
	}
	return a, nil
}

// Answer runs steps until the model has completed its answer.
func (a *Agent) Answer(ctx context.Context, t *workers.Turn) error {
	for {
		if err := t.CheckMessages(ctx); err != nil {
			return err
		}
		if a.cfg.MaxSteps > 0 && t.Steps() >= a.cfg.MaxSteps {
			return &workers.Error{Message: fmt.Sprintf("step limit of %d exceeded", a.cfg.MaxSteps), Code: workers.CodeStepLimit}
		}
		if over, err := a.step(ctx, t); err != nil || over {
			return err
		}
	}
}

// step runs one step, in several attempts if necessary. over reports that it was the last one.
func (a *Agent) step(ctx context.Context, t *workers.Turn) (over bool, err error) {
	attempts := &attempts{retry: a.cfg.Retry}
	for {
		err = t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if granted := s.ApprovedCalls(); len(granted) > 0 {
				over = false
				if err := s.SetFinishReason(openaistream.FinishCalls); err != nil {
					return err
				}
				return a.runAll(ctx, t, s, granted)
			}
			var err error
			over, err = a.runModel(ctx, t, s, attempts)
			return err
		})
		if !errors.Is(err, errPartialOutput) {
			return over, err
		}
	}
}

// runModel sends the history to the model and executes the response. over reports that it was the last step.
func (a *Agent) runModel(ctx context.Context, t *workers.Turn, s *workers.Step, attempts *attempts) (over bool, err error) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() { // that of the step
		span.SetName(tracing.Chat + " " + a.cfg.Model)
		span.SetAttributes(tracing.Provider.String(a.cfg.Provider), tracing.RequestModel.String(a.cfg.Model))
	}
	q := request{system: a.cfg.System, history: entriesOf(t.Messages(), a.endpoint), tools: a.tools, requireTool: a.cfg.Output != nil}
	model := chunk.Model{Requested: a.cfg.Model, Provider: a.cfg.Provider}
	if err := s.Model(model); err != nil {
		return false, err
	}
	var used openaistream.Usage
	for reminders := 0; ; reminders++ {
		p, end, err := a.ask(ctx, s, q, attempts)
		if err != nil {
			return false, err
		}
		if end.usage != nil {
			used.Add(end.usage)
			err = s.Usage(*used.Chunk())
		}
		model.Name = end.model
		if err := errors.Join(err, s.Model(model), s.SetFinishReason(end.finish)); err != nil {
			return false, err
		}
		reminder, over, err := a.handleAnswer(ctx, t, s, p, end)
		if err != nil || reminder == nil {
			return over, err
		}
		if reminders == maxOutputReminders {
			return false, &workers.Error{Message: "model returned no structured output", Code: workers.CodeInvalidTool}
		}
		q.history = append(slices.Clip(q.history), reminder...)
	}
}

// maxOutputReminders is how often a model is reminded of the structured output in one step.
const maxOutputReminders = 2

// handleAnswer executes the calls of a response. If the structured output is missing or invalid, reminder is
// what to add to the history before the model is called again.
func (a *Agent) handleAnswer(ctx context.Context, t *workers.Turn, s *workers.Step, p *stepWriter, end result) (reminder []entry, over bool, err error) {
	if i := slices.IndexFunc(p.calls, func(c *call) bool { return c.Name == finishTool && a.find(finishTool) != nil }); i >= 0 {
		return a.finish(ctx, s, p, p.calls[i])
	}
	if len(p.calls) > 0 {
		return nil, false, a.dispatch(ctx, t, s, p.calls, p)
	}
	switch {
	case a.cfg.Output != nil && end.finish != openaistream.FinishFiltered:
		return []entry{{role: modelRole, text: p.answer.String(), reasoning: p.reasoning.String()}, {role: userRole, text: "Give your final answer by calling " + finishTool + "."}}, false, nil
	case !p.emitted && end.finish == openaistream.FinishFiltered, a.cfg.Output != nil:
		return nil, false, (&failure{code: CodeContentFiltered, cause: errFiltered}).asError()
	}
	s.MarkFinal()
	return nil, true, nil
}

// finish completes the run with the arguments of a __finish__ call. Other calls of the response are not run
// (RL-15).
func (a *Agent) finish(ctx context.Context, s *workers.Step, p *stepWriter, last *call) (reminder []entry, over bool, err error) {
	output, _, invalid := a.find(finishTool).read(last.Arguments())
	for i, c := range p.calls {
		if c.Name == finishTool {
			continue
		}
		text := "not run: the same response contains the final output"
		if invalid != nil {
			text = "not run: " + finishTool + " must be the only call"
		}
		if err := p.record(p.toStepCall(p.calls[i]).Reject(ctx, text, nil)); err != nil {
			return nil, false, err
		}
	}
	if invalid != nil {
		e := entry{role: modelRole, text: p.answer.String(), reasoning: p.reasoning.String(), calls: []historyCall{{id: p.idOf(last), name: finishTool, args: last.Arguments()}}}
		return []entry{e, {role: outcomeRole, call: p.idOf(last), text: "error: " + invalid.Error()}}, false, nil //nolint:nilerr // reported to the model
	}
	return nil, true, errors.Join(s.SetFinishReason(openaistream.FinishStop), s.Output(ctx, output))
}

// dispatch decides who runs each call, and runs the local ones.
func (a *Agent) dispatch(ctx context.Context, t *workers.Turn, s *workers.Step, calls []*call, p *stepWriter) error {
	var run []*workers.Call
	for _, c := range calls {
		runHere, err := a.decide(ctx, c, p)
		if err != nil {
			return err
		}
		if runHere {
			run = append(run, p.toStepCall(c))
		}
	}
	return a.runAll(ctx, t, s, run)
}

// decide rejects a call or assigns it to the browser, a sub-agent, a user or this worker; run reports the
// last.
func (a *Agent) decide(ctx context.Context, c *call, p *stepWriter) (run bool, err error) {
	stepCall := p.toStepCall(c)
	t := a.find(c.Name)
	if t == nil {
		return false, p.record(stepCall.Reject(ctx, fmt.Sprintf("unknown tool %.80q", c.Name), nil))
	}
	input, partial, invalid := t.read(c.Arguments())
	if invalid != nil {
		return false, p.record(stepCall.Reject(ctx, invalid.Error(), partial))
	}
	var deadline time.Time
	if t.Deadline > 0 {
		deadline = time.Now().Add(t.Deadline)
	}
	switch {
	case t.kind == browser:
		return false, p.record(stepCall.AskClient(ctx, input, deadline))
	case t.kind == child:
		return false, p.record(stepCall.Delegate(ctx, input))
	case t.NeedsApproval != nil && t.NeedsApproval(input):
		return false, p.record(stepCall.AskApproval(ctx, input, deadline))
	}
	err = stepCall.Start(ctx, input)
	stepCall.SetExtra() // the outcome is not of the model
	return true, p.record(err)
}

// runAll runs calls concurrently and writes their outcomes.
func (a *Agent) runAll(ctx context.Context, t *workers.Turn, s *workers.Step, calls []*workers.Call) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.cfg.Parallel)
	for _, c := range calls {
		group.Go(func() error {
			tool := a.find(c.Name())
			if tool == nil || tool.kind != local {
				// The configuration has changed since the call was made.
				return c.Fail(ctx, fmt.Errorf("tool %.80q no longer exists", c.Name()))
			}
			result, err := a.run(ctx, tool, Call{ID: c.ID(), IdempotencyKey: c.IdempotencyKey(), Input: c.Input(), Turn: t, Step: s})
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx) // the run is stopped, whether or not the tool has failed
			case err != nil:
				return c.Fail(ctx, err)
			}
			return c.End(ctx, result)
		})
	}
	return group.Wait()
}

// runsInBrowser reports whether the browser runs a tool.
func (a *Agent) runsInBrowser(name string) bool {
	t := a.find(name)
	return t != nil && t.kind == browser
}

func (a *Agent) find(name string) *tool {
	for _, t := range a.tools {
		if t.Name == name {
			return t
		}
	}
	return nil
}
