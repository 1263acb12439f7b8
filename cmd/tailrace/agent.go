package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tailrace/tailrace/agents/openai"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// hasModel reports whether agents with a model are to be run, rather than the demo.
func (c config) hasModel() bool { return c.ModelURL != "" || c.ModelKey != "" }

// withoutDemo is the configuration where a model takes the demo's place: chats are
// with it, unless the setting says otherwise.
func (c config) withoutDemo() config {
	if c.hasModel() && slices.Equal(c.ChatAgents, words{"demo"}) {
		c.ChatAgents = words{c.Agent}
	}
	return c
}

// secret is a setting that is not printed.
type secret string

func (s secret) String() string { return openai.Secret(s).String() }

// GoString is what %#v prints.
func (s secret) GoString() string { return s.String() }

// LogValue is what slog writes.
func (s secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// UnmarshalText takes the text as it is.
func (s *secret) UnmarshalText(text []byte) error { //nolint:unparam // as encoding.TextUnmarshaler has it
	*s = secret(text)
	return nil
}

// agentFile is the JSON file that says which agents there are.
type agentFile struct {
	Agents map[string]agentEntry `json:"agents"`
}

// agentEntry is one agent. What it leaves out is as the settings have it.
type agentEntry struct {
	Model     string            `json:"model"`
	System    string            `json:"system"`
	MaxSteps  int               `json:"maxSteps"`
	Output    chunk.Value       `json:"output"`
	Body      map[string]any    `json:"body"`
	Tools     []toolEntry       `json:"tools"`
	Subagents map[string]string `json:"subagents"` // type to description
}

// toolEntry is a tool: one that the browser runs, or one behind a URL.
type toolEntry struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Parameters  chunk.Value       `json:"parameters"`
	Execute     string            `json:"execute"` // "client", or "" with url
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"` // values may name variables: ${TOKEN}
	Approval    bool              `json:"approval"`
	Timeout     string            `json:"timeout"` // of the person, the browser or the URL
}

// models are the agents of the configuration, by type.
func (b *backbone) models() (map[string]workers.Agent, error) {
	file, err := readAgents(b.cfg)
	if err != nil {
		return nil, err
	}
	made := make(map[string]workers.Agent, len(file.Agents))
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		cfg, err := file.Agents[name].config(b.cfg)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", name, err)
		}
		cfg.Log = b.log
		agent, err := openai.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", name, err)
		}
		made[name] = agent
	}
	return made, nil
}

// readAgents reads the file of agents. Without one there is one agent, which has
// no tools.
func readAgents(c config) (agentFile, error) {
	if c.Agents == "" {
		return agentFile{Agents: map[string]agentEntry{c.Agent: {}}}, nil
	}
	in, err := os.Open(c.Agents)
	if err != nil {
		return agentFile{}, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	return decodeAgents(in)
}

func decodeAgents(in io.Reader) (agentFile, error) {
	var file agentFile
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return file, fmt.Errorf("file of agents: %w", err)
	}
	if _, more := dec.Token(); !errors.Is(more, io.EOF) {
		return file, errors.New("file of agents: want one JSON object")
	}
	if len(file.Agents) == 0 {
		return file, errors.New("file of agents: want at least one under \"agents\"")
	}
	for name := range file.Agents {
		if err := subjects.CheckToken("agent type", name); err != nil {
			return file, fmt.Errorf("file of agents: %w", err)
		}
	}
	return file, nil
}

func (e agentEntry) config(c config) (openai.Config, error) {
	cfg := openai.Config{
		BaseURL: c.ModelURL, Key: openai.Secret(c.ModelKey), Model: c.Model, API: openai.API(c.ModelAPI), System: c.ModelSystem, Silence: c.ModelSilence,
		Output: e.Output, Body: e.Body, MaxSteps: e.MaxSteps,
	}
	if e.Model != "" {
		cfg.Model = e.Model
	}
	if cfg.Model == "" {
		return cfg, errors.New("want TAILRACE_MODEL, the name of a model")
	}
	if e.System != "" {
		cfg.System = e.System
	}
	for _, entry := range e.Tools {
		tool, err := entry.tool()
		if err != nil {
			return cfg, fmt.Errorf("tool %q: %w", entry.Name, err)
		}
		cfg.Tools = append(cfg.Tools, tool)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Subagents)) {
		cfg.Subagents = append(cfg.Subagents, openai.Subagent{Type: name, Description: e.Subagents[name]})
	}
	return cfg, nil
}

func (e toolEntry) tool() (openai.Tool, error) {
	t := openai.Tool{Name: e.Name, Description: e.Description, Schema: e.Parameters}
	if e.Timeout != "" {
		d, err := time.ParseDuration(e.Timeout)
		if err != nil {
			return t, fmt.Errorf("timeout: %w", err)
		}
		t.Deadline = d
	}
	if e.Approval {
		t.Approve = openai.Always
	}
	switch {
	case e.Execute == "client" && e.URL == "":
		t.Client = true
	case e.Execute == "" && e.URL != "":
		headers := make(map[string]string, len(e.Headers))
		for name, value := range e.Headers {
			headers[name] = os.Expand(value, os.Getenv)
		}
		run, err := openai.Webhook(openai.WebhookConfig{URL: e.URL, Headers: headers, Timeout: t.Deadline})
		if err != nil {
			return t, err
		}
		t.Run = run
	default:
		return t, errors.New(`want "execute": "client" or a "url"`)
	}
	return t, nil
}

// modelAgents serves the agents that have a model.
type modelAgents struct{ served *workers.Workers }

func (b *backbone) newModelAgents() (*modelAgents, error) {
	agents, err := b.models()
	if err != nil {
		return nil, err
	}
	served, err := workers.New(b.js, workers.Config{
		Agents: agents, Layout: b.cfg.layout(), Producer: b.cfg.writing(), Log: b.log,
	})
	if err != nil {
		return nil, err
	}
	return &modelAgents{served: served}, nil
}

// run works until ctx ends.
func (m *modelAgents) run(ctx context.Context) error { return m.served.Run(ctx) }
