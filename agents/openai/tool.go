package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/workers"
)

// finishTool carries the structured output. Nobody is shown it.
const finishTool = "__finish__"

// maxValue is the largest input or result of a tool in bytes: a chunk of the log
// holds it with room to spare.
const maxValue = 256 << 10

// Tool is something that the model may do. It has Run, or it is the browser's.
type Tool struct {
	// Name is a token of at most 64 letters, digits, "-" and "_".
	Name string

	// Description says what the tool is for, to the model.
	Description string

	// Schema is the JSON Schema of the input, an object. Calls that do not fit
	// it are told so, and are not run. Defaults to any object.
	Schema chunk.Value

	// Run does it. The result is any JSON. The model and people read the text of
	// an error. Run may be called again with the same Call.Key when a worker died
	// before the step was stored.
	Run func(ctx context.Context, c Call) (any, error)

	// Client says that the browser runs the tool, and answers; then there is no
	// Run.
	Client bool

	// Approve says whether a person must allow a call before Run. Nil: never.
	Approve func(input chunk.Value) bool

	// Deadline is how long a browser or a person may take. 0: for ever.
	Deadline time.Duration
}

// Always is an Approve that asks people every time.
func Always(chunk.Value) bool { return true }

// Call is a call that is to be run.
type Call struct {
	ID    string
	Key   string      // names the side effect: the same each time that this call is run
	Input chunk.Value // a JSON object that fits the schema

	// Turn and Step are there to read the history, and to say more on the way:
	// state, sources, files, custom events.
	Turn *workers.Turn
	Step *workers.Step
}

// Decode reads the input into v, as encoding/json does.
func (c Call) Decode(v any) error { return json.Unmarshal(c.Input, v) }

// tool is a Tool, a Subagent or __finish__, ready for use.
type tool struct {
	Tool

	kind   kind
	params map[string]any // the schema
	schema *jsonschema.Schema
}

type kind int

const (
	ours     kind = iota // the worker runs it
	browsers             // the browser does
	child                // a sub-agent does
	finish               // it is __finish__
)

var (
	anyObject = chunk.Value(`{"type":"object"}`)
	message   = chunk.Value(`{"type":"object","properties":{"message":{"type":"string","description":"What the agent is asked to do, with all that it must know."}},"required":["message"],"additionalProperties":false}`)
	toolName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// toolsOf makes the tools of a configuration, in the order the model sees them.
func toolsOf(c Config) ([]*tool, error) {
	var list []*tool
	for _, t := range c.Tools {
		made := &tool{Tool: t, kind: ours}
		if t.Client {
			made.kind = browsers
		}
		list = append(list, made)
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
			return nil, fmt.Errorf("tool %q is there twice", t.Name)
		}
		names[t.Name] = true
	}
	return list, nil
}

func (t *tool) prepare() error {
	switch {
	case !toolName.MatchString(t.Name):
		return fmt.Errorf("tool %q: the name is no token of at most 64 letters, digits, - and _", t.Name)
	case t.Name == finishTool && t.kind != finish:
		return fmt.Errorf("tool %q: the name is taken", t.Name)
	case t.kind == ours && t.Run == nil:
		return fmt.Errorf("tool %q has no Run, and is not the browser's", t.Name)
	case t.kind == browsers && (t.Run != nil || t.Approve != nil):
		return fmt.Errorf("tool %q is the browser's, want neither Run nor Approve", t.Name)
	case t.Deadline < 0:
		return fmt.Errorf("tool %q: Deadline is %s, want 0 or more", t.Name, t.Deadline)
	}
	if t.Schema == nil {
		t.Schema = anyObject
	}
	if err := json.Unmarshal(t.Schema, &t.params); err != nil || t.params == nil {
		return fmt.Errorf("tool %q: the schema is no JSON object", t.Name)
	}
	if kind, ok := t.params["type"]; ok && kind != "object" {
		return fmt.Errorf("tool %q: the schema is of type %v, want object", t.Name, kind)
	}
	var err error
	if t.schema, err = compile(t.Schema); err != nil {
		return fmt.Errorf("tool %q: the schema: %w", t.Name, err)
	}
	return nil
}

// compile reads a schema that stands by itself: nothing is loaded from anywhere.
func compile(text chunk.Value) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nowhere{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("want no references to other documents")
}

// read checks the arguments of a call. The reason why they are no good is for the
// model; partial is what could be read of them, nil for nothing.
func (t *tool) read(args string) (input chunk.Value, partial any, err error) {
	if len(args) > maxValue {
		return nil, nil, fmt.Errorf("the arguments have %d bytes, want at most %d", len(args), maxValue)
	}
	if len(bytes.TrimSpace([]byte(args))) == 0 {
		args = "{}" // some models say nothing when there is nothing to say
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(args)))
	if err != nil {
		return nil, nil, fmt.Errorf("the arguments are no JSON: %w", err)
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, doc, errors.New("the arguments are no JSON object")
	}
	input, err = chunk.ValueOf(json.RawMessage(args))
	if err != nil {
		return nil, nil, fmt.Errorf("the arguments cannot be used: %w", err)
	}
	if err := t.schema.Validate(doc); err != nil {
		return nil, input, fmt.Errorf("the arguments do not fit the schema: %w", err)
	}
	return input, input, nil
}

// run runs the tool, and turns what it did wrong into an error.
func (a *Agent) run(ctx context.Context, t *tool, c Call) (result chunk.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.cfg.Log.ErrorContext(ctx, "a tool panicked", "tool", t.Name, "call", c.ID, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("the tool broke down")
		}
	}()
	out, err := t.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	if result, err = chunk.ValueOf(out); err != nil {
		return nil, fmt.Errorf("the result is no JSON: %w", err)
	}
	if len(result) > maxValue {
		return nil, fmt.Errorf("the result has %d bytes, want at most %d", len(result), maxValue)
	}
	return result, nil
}
