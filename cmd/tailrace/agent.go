package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/agents/openai"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// modelAgent is the agent type of a model without a file of agents, and the default of chats with agents.
const modelAgent = "assistant"

// hasAgents reports whether configured agents are served instead of the demo.
func (c config) hasAgents() bool { return c.ModelURL != "" || c.ModelKey != "" || c.Agents != "" }

// withoutDemo returns the configuration in which chats use the configured agent, or the only one of the file, instead of the demo, unless the setting is explicit.
func (c config) withoutDemo() config {
	if c.hasAgents() && slices.Equal(c.ChatAgents, stringList{"demo"}) {
		c.ChatAgents = stringList{modelAgent}
		if file, err := readAgents(c); err == nil && len(file.Agents) == 1 { // the workers return the error
			c.ChatAgents = slices.Collect(maps.Keys(file.Agents))
		}
	}
	return c
}

// agentFile is the JSON file that defines the agents.
type agentFile struct {
	Agents map[string]agentEntry `json:"agents"`
}

// agentEntry is one agent. A model that is missing is the one of the settings.
type agentEntry struct {
	Model     string            `json:"model"`
	Provider  string            `json:"provider"` // of the model, in the records of steps
	API       openai.API        `json:"api"`      // chat if it is missing
	Idle      limit             `json:"idleTimeout"`
	System    string            `json:"system"`
	MaxSteps  int               `json:"maxSteps"`
	Output    chunk.Value       `json:"output"`
	Body      map[string]any    `json:"body"`
	Reasoning bool              `json:"sendReasoning"`
	Tools     []toolEntry       `json:"tools"`
	Subagents map[string]string `json:"subagents"` // type to description
	HTTP      *httpEntry        `json:"http"`      // nil for an agent with a model
}

// toolEntry is a tool of the browser or behind a URL.
type toolEntry struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Parameters  chunk.Value       `json:"parameters"`
	Execute     string            `json:"execute"` // "client", or "" with url
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"` // values may contain environment variables: ${TOKEN}
	Approval    bool              `json:"approval"`
	Timeout     time.Duration     `json:"timeout"` // of the user, the browser or the URL
}

// agents returns the agents of the configuration by type.
func (b *app) agents() (map[string]workers.Agent, error) {
	file, err := readAgents(b.cfg)
	if err != nil {
		return nil, err
	}
	made := make(map[string]workers.Agent, len(file.Agents))
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		agent, err := file.Agents[name].agent(b.cfg, b.log)
		if err != nil {
			return nil, fmt.Errorf("agent %q: %w", name, err)
		}
		made[name] = agent
	}
	return made, nil
}

// readAgents reads the file of agents. Without a file there is one agent without tools.
func readAgents(c config) (agentFile, error) {
	if c.Agents == "" {
		return agentFile{Agents: map[string]agentEntry{modelAgent: {}}}, nil
	}
	var file agentFile
	err := readSettings(c.Agents, &file)
	if err == nil && len(file.Agents) == 0 {
		err = errors.New("\"agents\" is empty, want at least one")
	}
	for name := range file.Agents {
		err = cmp.Or(err, subjects.CheckToken("agent type", name))
	}
	if err != nil {
		return file, fmt.Errorf("agents %s: %w", c.Agents, err)
	}
	return file, nil
}

func (e agentEntry) config(c config) (openai.Config, error) {
	cfg := openai.Config{
		BaseURL: string(c.ModelURL), Key: c.ModelKey, Model: c.Model, API: e.API, System: e.System,
		Provider: e.Provider, Output: e.Output, ExtraBody: e.Body, MaxSteps: e.MaxSteps, SendReasoning: e.Reasoning, IdleTimeout: time.Duration(e.Idle),
	}
	if e.HTTP != nil {
		if e.API != "" || e.Idle != 0 {
			return cfg, errors.New(`"http" is set, want no api and the idleTimeout in it`)
		}
		if err := e.HTTP.modelEndpoint(&cfg); err != nil {
			return cfg, err
		}
	}
	if e.Model != "" {
		cfg.Model = e.Model
	}
	if cfg.Model == "" {
		return cfg, errors.New("model is missing, want TAILRACE_MODEL")
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
	t := openai.Tool{Name: e.Name, Description: e.Description, Schema: e.Parameters, Deadline: e.Timeout}
	if e.Approval {
		t.NeedsApproval = openai.AlwaysApprove
	}
	switch {
	case e.Execute == "client" && e.URL == "":
		t.RunsInBrowser = true
	case e.Execute == "" && e.URL != "":
		headers, err := expandHeaders(e.Headers)
		if err != nil {
			return t, err
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

// serving returns the configuration of workers. An unset Pace means the default there and "off" in the settings.
func (c config) serving(agents map[string]workers.Agent) workers.Config {
	w := c.producerConfig()
	return workers.Config{
		Agents: agents, Pace: w.Pace, Format: w.Format,
		ShutdownTimeout: cmp.Or(c.Drain, workers.Off), MaxSessionChunks: w.MaxSessionChunks, MaxSessionBytes: w.MaxSessionBytes, TokensPerDay: c.limits.tokensPerDay,
	}
}

// newWorkers returns workers with their metrics.
func (b *app) newWorkers(cfg workers.Config) (*workers.Workers, error) {
	b.served = slices.Sorted(maps.Keys(cfg.Agents))
	return b.NewWorkers(cfg, b.served...)
}

// expandHeaders replaces the environment variables in the values of headers.
func expandHeaders(headers map[string]string) (map[string]string, error) {
	expanded := make(map[string]string, len(headers))
	for name, value := range headers {
		var err error
		if expanded[name], err = expandEnv(value); err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
	}
	return expanded, nil
}

// expandEnv replaces environment variables. A missing or empty one is an error: with it, requests would go out without their credentials and fail only when a model calls the tool.
func expandEnv(value string) (string, error) {
	var missing []string
	expanded := os.Expand(value, func(name string) string {
		found := os.Getenv(name)
		if found == "" {
			missing = append(missing, name)
		}
		return found
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("environment variable %s is missing or empty", strings.Join(missing, ", "))
	}
	return expanded, nil
}

// newAgents returns the workers of the configured agents.
func (b *app) newAgents() (*workers.Workers, error) {
	agents, err := b.agents()
	if err != nil {
		return nil, usageError{err}
	}
	return b.newWorkers(b.cfg.serving(agents))
}
