package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/workers"
)

// finishTool is the tool for the structured output. Its calls are not stored.
const finishTool = "__finish__"

// maxValue is the maximum size in bytes of the input or result of a tool. It leaves space for the other
// members of the chunk.
const maxValue = openaistream.MaxArguments

// Tool is a tool of the model. Either Run or RunsInBrowser is set.
type Tool struct {
	// Name is a token of at most 64 letters, digits, "-" and "_".
	Name string

	// Description tells the model what the tool does.
	Description string

	// Schema is the JSON Schema, an object, of the input. Other input is rejected with a message for the
	// model. Defaults to any object.
	Schema chunk.Value

	// Run executes a call. The result is any JSON value of at most 256 KiB. The text of an error is for the
	// model and the worker's log; users see the message of a *workers.Error only. After a crash of the worker Run may be called again with the same
	// Call.IdempotencyKey.
	Run func(ctx context.Context, c Call) (any, error)

	// RunsInBrowser marks a tool that the browser executes.
	RunsInBrowser bool

	// NeedsApproval reports whether a user must approve a call before Run. Nil approves every call.
	NeedsApproval func(input chunk.Value) bool

	// Deadline is how long a browser or a user may take; then the call fails. 0 or Off never expires.
	Deadline time.Duration
}

// AlwaysApprove is a NeedsApproval that requires the approval of every call.
func AlwaysApprove(chunk.Value) bool { return true }

// Call is a call to run.
type Call struct {
	ID             string
	IdempotencyKey string      // the same in every attempt of this call
	Input          chunk.Value // a JSON object that fits the schema

	// Turn and Step give access to the history and let a tool write state, sources, files and custom events.
	Turn *workers.Turn
	Step *workers.Step
}

// Decode decodes the input into v, as encoding/json does.
func (c Call) Decode(v any) error { return json.Unmarshal(c.Input, v) }

// tool is a prepared Tool, Subagent or __finish__.
type tool struct {
	Tool

	kind   kind
	params map[string]any // the schema
	schema *jsonschema.Schema
}

type kind int

const (
	local   kind = iota // runs in the worker
	browser             // runs in the browser
	child               // runs as a sub-agent
	finish              // __finish__
)

var (
	anyObject = chunk.Value(`{"type":"object"}`)
	message   = chunk.Value(`{"type":"object","properties":{"message":{"type":"string","description":"What the agent is asked to do, with all that it must know."}},"required":["message"],"additionalProperties":false}`)
	toolName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// toolsOf returns the tools of a configuration, in the order of the request.
func toolsOf(c Config) ([]*tool, error) {
	var list []*tool
	for _, t := range c.Tools {
		prepared := &tool{Tool: t, kind: local}
		if t.RunsInBrowser {
			prepared.kind = browser
		}
		list = append(list, prepared)
	}
	for _, s := range c.Subagents {
		if s.Schema == nil {
			s.Schema = message
		}
		list = append(list, &tool{kind: child, Tool: Tool{Name: workers.SubagentTool(s.Type), Description: s.Description, Schema: s.Schema}})
	}
	if c.Output != nil {
		list = append(list, &tool{kind: finish, Tool: Tool{
			Name: finishTool, Schema: c.Output,
			Description: "Ends your work. Call it once, alone, with the final answer as its arguments.",
		}})
	}
	names := map[string]bool{}
	for _, t := range list {
		if err := t.prepare(); err != nil {
			return nil, err
		}
		if names[t.Name] {
			return nil, fmt.Errorf("tool %q: duplicate name", t.Name)
		}
		names[t.Name] = true
	}
	return list, nil
}

func (t *tool) prepare() error {
	switch {
	case !toolName.MatchString(t.Name):
		return fmt.Errorf("tool %q: invalid name, want at most 64 letters, digits, - and _", t.Name)
	case t.Name == finishTool && t.kind != finish:
		return fmt.Errorf("tool %q: reserved name", t.Name)
	case t.kind == local && t.Run == nil:
		return fmt.Errorf("tool %q: want Run or RunsInBrowser", t.Name)
	case t.kind == browser && (t.Run != nil || t.NeedsApproval != nil):
		return fmt.Errorf("tool %q: RunsInBrowser is set, want neither Run nor NeedsApproval", t.Name)
	}
	if t.Schema == nil {
		t.Schema = anyObject
	}
	if err := json.Unmarshal(t.Schema, &t.params); err != nil || t.params == nil {
		return fmt.Errorf("tool %q: invalid schema, want a JSON object", t.Name)
	}
	if kind, ok := t.params["type"]; ok && kind != "object" {
		return fmt.Errorf("tool %q: schema of type %v, want object", t.Name, kind)
	}
	var err error
	if t.schema, err = compile(t.Schema); err != nil {
		return fmt.Errorf("tool %q: schema: %w", t.Name, err)
	}
	return nil
}

// schemaURL is the name of every schema in errors. A relative name would be completed with the working directory
// of the process, which users and models must not see.
const schemaURL = "schema:///arguments"

// mismatch returns the text of a failed validation: what does not match, without the name of the schema.
func mismatch(err error) error {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	var causes []string
	for _, cause := range invalid.Causes {
		causes = append(causes, cause.Error())
	}
	return errors.New(strings.Join(causes, "; "))
}

// compile compiles a schema without loading any other document.
func compile(text chunk.Value) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noRefs{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

type noRefs struct{}

func (noRefs) Load(string) (any, error) {
	return nil, errors.New("reference to another document, want none")
}

// read validates the arguments of a call. The error is for the model; partial is the part that could be
// parsed, nil if none.
func (t *tool) read(args string) (input chunk.Value, partial any, err error) {
	if len(args) > maxValue {
		return nil, nil, fmt.Errorf("arguments of %d bytes, want at most %d", len(args), maxValue)
	}
	if len(bytes.TrimSpace([]byte(args))) == 0 {
		args = "{}" // some models omit empty arguments
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(args)))
	if err != nil {
		return nil, nil, fmt.Errorf("arguments are not valid JSON: %w", err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, doc, errors.New("arguments are not a JSON object")
	}
	input, err = chunk.ValueOf(json.RawMessage(args))
	if err != nil {
		return nil, nil, fmt.Errorf("invalid arguments: %w", err)
	}
	if err := t.schema.Validate(doc); err != nil {
		return nil, input, fmt.Errorf("arguments do not match the schema: %w", mismatch(err))
	}
	return input, input, nil
}

// run runs the tool and converts a panic or an invalid result into an error.
func (a *Agent) run(ctx context.Context, t *tool, c Call) (result chunk.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.cfg.Log.ErrorContext(ctx, "tool panicked", "tool", t.Name, "call", c.ID, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("tool failed")
		}
	}()
	out, err := t.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	if result, err = chunk.ValueOf(out); err != nil {
		return nil, fmt.Errorf("result is not valid JSON: %w", err)
	}
	if len(result) > maxValue {
		return nil, fmt.Errorf("result of %d bytes, want at most %d", len(result), maxValue)
	}
	return result, nil
}
