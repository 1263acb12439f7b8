package openai

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/workers"
)

// API is a dialect of the endpoint.
type API string

// The dialects.
const (
	Chat      API = "chat"      // POST chat/completions; what compatible servers speak
	Responses API = "responses" // POST responses
)

// Config shapes an Agent. Model has no default; with it, the rest may be zero.
type Config struct {
	// BaseURL is what the paths of the API are below, with its version, such as
	// http://127.0.0.1:8000/v1. Defaults to OpenAI's.
	BaseURL string

	// Key is sent as a bearer token. Empty sends none.
	Key Secret

	// Model is the model's name.
	Model string

	// API is the dialect. Defaults to Chat.
	API API

	// System is what the model is told before everything else.
	System string

	// Tools are what the model may call, Subagents the agents that it may call
	// as if they were tools.
	Tools     []Tool
	Subagents []Subagent

	// Output is the JSON Schema of the run's structured output, an object. Nil
	// for none: then the model's text is the answer.
	Output chunk.Value

	// Body are further members of the request, such as temperature. They win
	// over ours.
	Body map[string]any

	// MaxSteps is how many steps a turn may have. Defaults to the workers'.
	MaxSteps int

	// Parallel is how many tools of one answer run at once. Defaults to 8.
	Parallel int

	// Silence is how long the endpoint may send nothing before an attempt is
	// given up. Defaults to 5 minutes: some models think for long.
	Silence time.Duration

	// Retry shapes what is done when the endpoint fails.
	Retry Retry

	// Client sends the requests. Defaults to http.DefaultClient.
	Client *http.Client

	// Log hears of attempts that failed. Defaults to no log.
	Log *slog.Logger
}

// Retry says how often and when a failed attempt is made again. The zero Retry
// is ready for production.
type Retry struct {
	// Attempts is how many are made in all for one step. Defaults to 5.
	Attempts int

	// First is the pause before the second attempt; each further one is twice as
	// long, up to Most, less a random part of up to a half. They default to
	// 500 ms and 20 s.
	First, Most time.Duration

	// Asked is the longest pause that the endpoint may ask for (Retry-After);
	// when it asks for more the attempt was the last. Defaults to 1 minute.
	Asked time.Duration
}

// Subagent is an agent that the model may call.
type Subagent struct {
	// Type is the name that the agent is served under, by any worker.
	Type string

	// Description says what it is good at, for the model.
	Description string

	// Schema is the JSON Schema of what it is called with, an object. Defaults to
	// one text, "message".
	Schema chunk.Value
}

// Secret is a text that prints as "[secret]", so that it is in no log by mistake.
type Secret string

const hidden = "[secret]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return s.String() }

// LogValue is what slog writes.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what JSON gets.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (c Config) withDefaults() Config {
	if c.API == "" {
		c.API = Chat
	}
	if c.Parallel == 0 {
		c.Parallel = 8
	}
	if c.Silence == 0 {
		c.Silence = 5 * time.Minute
	}
	if c.Client == nil {
		c.Client = http.DefaultClient
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Retry = c.Retry.withDefaults()
	return c
}

func (r Retry) withDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 5
	}
	if r.First == 0 {
		r.First = 500 * time.Millisecond
	}
	if r.Most == 0 {
		r.Most = 20 * time.Second
	}
	if r.Asked == 0 {
		r.Asked = time.Minute
	}
	return r
}

func (c Config) validate() error {
	switch {
	case c.Model == "":
		return errors.New("Model is empty, want the name of a model")
	case c.API != Chat && c.API != Responses:
		return fmt.Errorf("API is %q, want %q or %q", c.API, Chat, Responses)
	case c.MaxSteps < 0:
		return fmt.Errorf("MaxSteps is %d, want 0 or more", c.MaxSteps)
	case c.Parallel < 1:
		return fmt.Errorf("Parallel is %d, want at least 1", c.Parallel)
	case c.Silence < 0:
		return fmt.Errorf("Silence is %s, want 0 or more", c.Silence)
	case c.Retry.Attempts < 1:
		return fmt.Errorf("Retry.Attempts is %d, want at least 1", c.Retry.Attempts)
	case c.Retry.First < 0 || c.Retry.Most < 0 || c.Retry.Asked < 0:
		return errors.New("Retry has a pause below 0, want 0 or more")
	}
	if c.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("BaseURL is no http or https URL") // it may hold a password: it is not repeated
	}
	if u.User != nil || u.RawQuery != "" {
		return errors.New("BaseURL has a user or a query, want the key in Key")
	}
	return nil
}

// stepLimit is the error of a turn that does not come to an end.
func stepLimit(n int) error {
	return &workers.Error{Message: fmt.Sprintf("the agent has made %d steps and not come to an end", n), Code: workers.CodeStepLimit}
}
