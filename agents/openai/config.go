package openai

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/outgoing"
)

// API is the protocol of the endpoint.
type API string

// The supported protocols.
const (
	Chat      API = "chat"      // POST chat/completions, supported by most compatible servers
	Responses API = "responses" // POST responses
)

// Off switches off the limit or the delay of a field that supports it.
const Off = -1

// Config configures an Agent. Model is required. In every other field 0 means the default; Off (a negative
// number) switches off the fields that say so.
type Config struct {
	// BaseURL is the URL of the API with its version, such as http://127.0.0.1:8000/v1. Defaults to OpenAI's.
	BaseURL string

	// Key is sent as a bearer token unless it is empty.
	Key Secret

	// Model is the name of the model.
	Model string

	// Provider is the name of the endpoint's provider in the records of steps, a value of gen_ai.provider.name of OpenTelemetry. Defaults to "openai".
	Provider string

	// API is the protocol. Defaults to Chat.
	API API

	// System is the system prompt. Empty sends none.
	System string

	// Tools are the tools of the model; Subagents are the agents that it may call like tools.
	Tools     []Tool
	Subagents []Subagent

	// SendReasoning sends the reasoning of earlier steps back as reasoning_content. With tools, some endpoints
	// reject requests without it (DeepSeek, Kimi), others requests with it (Groq). Only for Chat.
	SendReasoning bool

	// Output is the JSON Schema, an object, of the run's structured output. If it is nil, the model's text is
	// the answer.
	Output chunk.Value

	// ExtraBody are additional members of each request, such as temperature. They replace members of the same
	// name.
	ExtraBody map[string]any

	// MaxSteps is the maximum number of steps of a turn; one more fails the run with workers.CodeStepLimit.
	// Defaults to the limit of the workers; Off adds none to it.
	MaxSteps int

	// Parallel is the maximum number of tools that run concurrently in one step. Defaults to 8; Off is
	// unlimited.
	Parallel int

	// IdleTimeout ends an attempt after this long without data from the endpoint. Defaults to 5 minutes; Off
	// disables it.
	IdleTimeout time.Duration

	// Retry configures the retries of failed attempts.
	Retry Retry

	// Client sends the requests. Only its Transport is used. The default one connects to no link-local address.
	Client *http.Client

	// Log gets failed attempts. Nil disables logging.
	Log *slog.Logger
}

// Retry configures the retries of failed attempts of one step. In every field 0 means the default.
type Retry = outgoing.Retry

// Subagent is an agent that the model may call.
type Subagent struct {
	// Type is the agent type, which any worker may serve.
	Type string

	// Description tells the model what the agent can do.
	Description string

	// Schema is the JSON Schema, an object, of the input. Defaults to one required string, "message".
	Schema chunk.Value
}

// Secret is a string that prints as "[secret]", so that it is not logged by mistake.
type Secret string

const hidden = "[secret]"

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString is used by %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is used by slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is used by encoding/json.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (c Config) withDefaults() Config {
	c.API = cmp.Or(c.API, Chat)
	c.Provider = cmp.Or(c.Provider, "openai")
	c.Parallel = cmp.Or(c.Parallel, 8)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.Client = outgoing.Client(c.Client)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Retry = c.Retry.WithDefaults()
	return c
}

func (c Config) validate() error {
	switch {
	case c.Model == "":
		return errors.New("Model is empty, want the name of a model")
	case chunk.LabelOf(c.Provider) == nil:
		return fmt.Errorf("Provider is %.40q, want at most %d bytes of text without control characters", c.Provider, chunk.MaxLabel)
	case c.API != Chat && c.API != Responses:
		return fmt.Errorf("API is %q, want %q or %q", c.API, Chat, Responses)
	}
	if c.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("BaseURL is invalid, want an http or https URL") // without the value, which may contain a password
	}
	if u.User != nil || u.RawQuery != "" {
		return errors.New("BaseURL has a user or a query, want the credentials in Key")
	}
	return nil
}
