package httpagent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/workers"
)

// errStepReset reports that the endpoint has discarded what it sent of the step, and sends it again.
var errStepReset = errors.New("step reset by the endpoint")

// resetStep is the custom event of the part with which the AI SDK 7 does so.
const resetStep = dialect.AISDK + ".reset-step"

// subagentPrefix is that of workers.SubagentTool.
var subagentPrefix = workers.SubagentTool("")

// stepWriter writes one step of a response.
type stepWriter struct {
	step     *workers.Step
	session  string
	dialect  string
	model    chunk.Model // of the step: that of the configuration, until the endpoint names one
	deadline time.Duration
	log      *slog.Logger

	calls    map[string]*call // of this step, by the endpoint's id
	order    []*call
	approved map[string]*workers.Call // calls of earlier steps that the endpoint may run now

	begun   bool         // the endpoint has begun a step
	written bool         // something was written
	problem *chunk.Error // a fatal error; the end of the response tells whether it was
	aborted bool         // the endpoint has aborted its answer
}

// call is a tool call of the step.
type call struct {
	*workers.Call

	name     string
	provider bool        // the provider of the endpoint's model runs it
	input    chunk.Value // of a sub-agent's call, which is not written before its end
	started  bool        // its input is written; it has no outcome
	done     bool        // it has an outcome, or waits for the answer of a user
}

func newStepWriter(s *workers.Step, session string, cfg Config) *stepWriter {
	w := &stepWriter{
		step: s, session: session, dialect: cfg.Response, model: chunk.Model{Name: cfg.Model, Provider: cfg.Provider}, deadline: cfg.ToolDeadline, log: cfg.Log,
		calls: make(map[string]*call), approved: make(map[string]*workers.Call),
	}
	for _, c := range s.ApprovedCalls() {
		w.approved[c.ID()] = c
	}
	return w
}

// write writes the chunks up to the end of the step. over reports that it is the end of the response too. The caller must commit the step if the error is nil.
func (w *stepWriter) write(ctx context.Context, in *answer) (over bool, err error) {
	if err := w.step.Model(w.model); err != nil {
		return false, err
	}
	for {
		c, err := in.next(ctx)
		if err != nil {
			return false, err // the response ends with one of the chunks below
		}
		switch b := c.Body.(type) {
		case chunk.StepStart:
			if w.isComplete() {
				in.unread(c)
				return false, w.failApproved(ctx)
			}
			w.begun = true
		case chunk.StreamEnd:
			return true, w.end(ctx, w.dialect != AISDK) // the AI SDK leaves only calls open here that its server runs
		case chunk.StreamPaused:
			return true, w.end(ctx, true)
		case chunk.StreamFailed:
			return true, w.failed(in.fail, b)
		default:
			err = w.writeChunk(ctx, c)
			if errors.Is(err, chunk.ErrInvalid) {
				// The translation is valid, so the SDK does not accept it: a second outcome of a call, a patch that does not apply.
				w.log.WarnContext(ctx, "chunk of the agent skipped", "type", string(c.Type()), "error", err)
				err = nil
			}
			if err != nil {
				return false, err
			}
		}
	}
}

// isComplete reports whether a step that begins is another one. The outcomes of approved calls, which precede the first step of a response, are a step of their own:
// they are committed before the model is called, and the tools are not run again if the worker dies meanwhile. A call of the model's provider may get its outcome in a
// later step; these steps are one.
func (w *stepWriter) isComplete() bool {
	for _, c := range w.order {
		if !c.done {
			return false
		}
	}
	return w.begun || w.written
}

// end handles the end of the response: each open call is another agent's, or the browser's if waits is set.
func (w *stepWriter) end(ctx context.Context, waits bool) error {
	if w.aborted {
		return failuref(CodeAborted, "the endpoint sent an abort")
	}
	if w.problem != nil { // the agent has recovered from it
		w.problem.Recoverable = true
		if err := w.step.Emit(ctx, *w.problem); err != nil {
			return err
		}
	}
	if err := w.failApproved(ctx); err != nil {
		return err
	}
	for _, c := range w.order {
		var err error
		switch {
		case c.done:
		case c.input != nil:
			err = c.Delegate(ctx, c.input)
		case c.started && (c.provider || !waits):
			err = c.EndUnknown()
		case c.started:
			err = c.AwaitClient(ctx, w.until())
		default: // its arguments are incomplete
			err = c.Reject(ctx, "the arguments of the call are incomplete", nil)
		}
		if err != nil {
			return err
		}
	}
	w.step.MarkFinal() // it has no effect on a step that waits
	return nil
}

// until returns the deadline of an answer.
func (w *stepWriter) until() time.Time {
	if w.deadline <= 0 {
		return time.Time{}
	}
	return time.Now().Add(w.deadline)
}

// failed returns the error of a response that has failed. f is the reason why it could not be read to its end, nil if the endpoint has ended it.
func (w *stepWriter) failed(f *failure, b chunk.StreamFailed) error {
	switch {
	case w.problem != nil: // what was sent after it does not matter
		return &workers.Error{Message: w.problem.Error, Code: codeOf(w.problem.Code), Cause: errors.New("the endpoint sent an error")}
	case f != nil:
		return f
	}
	var code *string
	if b.ErrorDetail != nil {
		code = b.ErrorDetail.Code
	}
	if code != nil && *code == aisdk.CodeConnectionLost {
		return &failure{code: CodeConnectionLost, cause: io.ErrUnexpectedEOF}
	}
	return &workers.Error{Message: b.Error, Code: codeOf(code), Cause: errors.New("the endpoint ended its answer with a failure")}
}

var codePattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// codeOf returns the code of a failure that the endpoint has reported, CodeFailed if it has none.
func codeOf(code *string) string {
	if code == nil || *code == aisdk.CodeAgentFailed || !codePattern.MatchString(*code) {
		return CodeFailed
	}
	return *code
}
