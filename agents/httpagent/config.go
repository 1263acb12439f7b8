package httpagent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/outgoing"
)

// The dialects of endpoints.
const (
	AISDK  = "aisdk"  // a route that returns toUIMessageStreamResponse() of the AI SDK 6 or 7
	AGUI   = "agui"   // an agent of AG-UI
	Kortyx = "kortyx" // a chat route of Kortyx
	Mastra = "mastra" // /api/agents/{id}/stream of a Mastra server
	Native = "native" // chunks of the log, docs/guides/http-agent.md
)

// OnCrash selects what happens when a worker crashes in the middle of a response.
type OnCrash string

// The values of OnCrash.
const (
	Restart OnCrash = "restart" // the history is posted again, after the last committed step
	Fail    OnCrash = "fail"    // the run fails with CodeInterrupted
)

// Off switches off the limit of a field that supports it.
const Off = -1

// Config configures an Agent. URL is required. In every other field 0 means the default; Off (a negative number) switches off the fields that say so.
type Config struct {
	// URL gets the POST requests.
	URL string

	// Dialect is the dialect of the endpoint. Defaults to AISDK.
	Dialect string

	// Response is the dialect of the responses of an endpoint whose Dialect is Native, such as "anthropic". Defaults to Dialect.
	Response string

	// Model and Provider are the name of the endpoint's model and a value of gen_ai.provider.name of OpenTelemetry, for the records of steps of which the endpoint says
	// neither. Empty means unknown.
	Model, Provider string

	// Headers are sent with each request. They may contain secrets.
	Headers map[string]string

	// ForwardHeaders are the names of the headers that a run may set: the strings in the member "headers" of its parameters, which the agent server takes as
	// "state". Others are ignored.
	ForwardHeaders []string

	// OnCrash defaults to Restart.
	OnCrash OnCrash

	// ToolDeadline is how long a browser or a user may take for an answer; then the call fails. 0 or Off never expires.
	ToolDeadline time.Duration

	// ResponseTimeout is how long the endpoint may take for the header of its response. Defaults to 2 minutes; Off disables it.
	ResponseTimeout time.Duration

	// IdleTimeout ends a response after this long without data. Defaults to 5 minutes; Off disables it.
	IdleTimeout time.Duration

	// Timeout ends a response after this long. Defaults to 1 hour; Off disables it.
	Timeout time.Duration

	// MaxEventBytes is the maximum size of one event of a response. Defaults to 44 MiB: the largest value in base64. Of the responses of an Agent one at a time reads
	// an event over 1 MiB; the others wait with theirs.
	MaxEventBytes int

	// MaxResponseBytes is the maximum size of a response. Defaults to 256 MiB; Off disables it.
	MaxResponseBytes int64

	// Retry configures the retries of requests without a response.
	Retry Retry

	// Client sends the requests. Only its Transport is used. The default one connects to no link-local address.
	Client *http.Client

	// Log gets failed requests. Nil disables logging.
	Log *slog.Logger
}

// Retry configures the retries of one request. In every field 0 means the default.
type Retry = outgoing.Retry

func (c Config) withDefaults() Config {
	c.Dialect = cmp.Or(c.Dialect, AISDK)
	c.Response = cmp.Or(c.Response, c.Dialect)
	c.OnCrash = cmp.Or(c.OnCrash, Restart)
	c.ResponseTimeout = cmp.Or(c.ResponseTimeout, 2*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.Timeout = cmp.Or(c.Timeout, time.Hour)
	c.MaxEventBytes = cmp.Or(c.MaxEventBytes, 44<<20)
	c.MaxResponseBytes = cmp.Or(c.MaxResponseBytes, 256<<20)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Retry = c.Retry.WithDefaults()
	return c
}

func (c Config) validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("URL is invalid, want an http or https URL") // without the value, which may contain a password
	case u.User != nil:
		return errors.New("URL has a user, want the credentials in Headers")
	case !slices.Contains(dialectNames(), c.Dialect):
		text, _ := dialect.Unknown(c.Dialect, dialectNames())
		return errors.New("Dialect: " + text)
	case c.Response != c.Dialect && (c.Dialect != Native || !slices.Contains(dialect.Names(), c.Response)):
		return fmt.Errorf("Response is %q, want that of Dialect, or one of %q if that is %q", c.Response, dialect.Names(), Native)
	case c.OnCrash != Restart && c.OnCrash != Fail:
		return fmt.Errorf("OnCrash is %q, want %q or %q", c.OnCrash, Restart, Fail)
	case c.MaxEventBytes < 1:
		return fmt.Errorf("MaxEventBytes is %d, want at least 1", c.MaxEventBytes)
	}
	for name, value := range map[string]string{"Model": c.Model, "Provider": c.Provider} {
		if value != "" && chunk.LabelOf(value) == nil {
			return fmt.Errorf("%s is %.40q, want at most %d bytes of text without control characters", name, value, chunk.MaxLabel)
		}
	}
	for name, value := range c.Headers {
		if err := checkHeader("Headers", name); err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return fmt.Errorf("Headers: invalid value of %s", name)
		}
	}
	for _, name := range c.ForwardHeaders {
		if err := checkHeader("ForwardHeaders", name); err != nil {
			return err
		}
	}
	return nil
}

// ownHeaders are the headers that only the agent sets: those of the connection, and those that say what the body is.
var ownHeaders = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Idempotency-Key", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func checkHeader(field, name string) error {
	if !httpguts.ValidHeaderFieldName(name) || slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("%s: header %q cannot be set", field, name)
	}
	return nil
}
