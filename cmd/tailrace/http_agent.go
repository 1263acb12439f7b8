package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/agents/openai"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/workers"
)

// httpEntry is an agent that is an HTTP endpoint.
type httpEntry struct {
	URL            string            `json:"url"`
	Dialect        string            `json:"dialect"`
	Response       string            `json:"response"` // dialect of the responses to native requests
	Headers        map[string]string `json:"headers"`  // values may contain environment variables: ${TOKEN}
	ForwardHeaders []string          `json:"forwardHeaders"`
	OnCrash        string            `json:"onCrash"`

	ToolDeadline    limit `json:"toolDeadline"`
	ResponseTimeout limit `json:"responseTimeout"`
	IdleTimeout     limit `json:"idleTimeout"`
	Timeout         limit `json:"timeout"`

	MaxEventBytes    int   `json:"maxEventBytes"`
	MaxResponseBytes int64 `json:"maxResponseBytes"`
	Attempts         int   `json:"attempts"`
}

// agent returns the agent of an entry.
func (e agentEntry) agent(c config, log *slog.Logger) (workers.Agent, error) {
	if e.HTTP != nil && e.HTTP.Dialect != dialect.OpenAI {
		if e.hasModelMembers() {
			return nil, errors.New(`"http" is set, want no other member but model and provider, which the records of steps have: the endpoint has its own model and tools`)
		}
		cfg, err := e.HTTP.config(log)
		if err != nil {
			return nil, err
		}
		cfg.Model, cfg.Provider = e.Model, e.Provider
		return httpagent.New(cfg)
	}
	cfg, err := e.config(c)
	if err != nil {
		return nil, err
	}
	cfg.Log = log
	return openai.New(cfg)
}

func (e agentEntry) hasModelMembers() bool {
	return e.API != "" || e.Idle != 0 || e.System != "" || e.MaxSteps != 0 || e.Output != nil || len(e.Body)+len(e.Tools)+len(e.Subagents) > 0 || e.Reasoning
}

func (e httpEntry) config(log *slog.Logger) (httpagent.Config, error) {
	cfg := httpagent.Config{
		URL: e.URL, Dialect: e.Dialect, Response: e.Response, ForwardHeaders: e.ForwardHeaders, OnCrash: httpagent.OnCrash(e.OnCrash),
		ToolDeadline: time.Duration(e.ToolDeadline), ResponseTimeout: time.Duration(e.ResponseTimeout), IdleTimeout: time.Duration(e.IdleTimeout), Timeout: time.Duration(e.Timeout),
		MaxEventBytes: e.MaxEventBytes, MaxResponseBytes: e.MaxResponseBytes, Retry: httpagent.Retry{Attempts: e.Attempts}, Log: log,
	}
	var err error
	cfg.Headers, err = expandHeaders(e.Headers)
	return cfg, err
}

// limit is a duration in a file, such as "30s", or "off". 0 is the default.
type limit time.Duration

func parseLimit(text string) (limit, error) {
	switch text {
	case "":
		return 0, nil
	case "off":
		return httpagent.Off, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%s, want more than 0, or off", text)
	}
	return limit(d), err
}

// modelEndpoint changes cfg to the model behind the URL of an agent: that of chat completions, or of responses.
func (e httpEntry) modelEndpoint(cfg *openai.Config) error {
	if len(e.Headers)+len(e.ForwardHeaders) > 0 || e.OnCrash+e.Response != "" || cmp.Or(e.ToolDeadline, e.ResponseTimeout, e.Timeout) != 0 || e.MaxEventBytes != 0 || e.MaxResponseBytes != 0 {
		return errors.New(`dialect "openai" has "url", "idleTimeout" and "attempts" only: TAILRACE_MODEL_KEY is its key`)
	}
	url := strings.TrimSuffix(e.URL, "/")
	for _, api := range []struct {
		path string
		api  openai.API
	}{{"/chat/completions", openai.Chat}, {"/responses", openai.Responses}} {
		if base, ok := strings.CutSuffix(url, api.path); ok {
			cfg.BaseURL, cfg.API = base, api.api
		}
	}
	if !slices.Contains([]string{cfg.BaseURL + "/chat/completions", cfg.BaseURL + "/responses"}, url) {
		return errors.New(`dialect "openai": want a url that ends with /chat/completions or /responses`)
	}
	cfg.Retry.Attempts, cfg.IdleTimeout = e.Attempts, cmp.Or(time.Duration(e.IdleTimeout), cfg.IdleTimeout)
	return nil
}
