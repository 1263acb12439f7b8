package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	oai "github.com/openai/openai-go/v3"

	"github.com/tailrace/tailrace/workers"
)

// The codes of model failures (helix.md 12.3). The first four may be temporary and are retried.
const (
	CodeRateLimited     = "provider_rate_limited"
	CodeOverloaded      = "provider_overloaded"
	CodeTimeout         = "provider_timeout"
	CodeUnavailable     = "provider_unavailable"
	CodeAuthFailed      = "provider_auth_failed"
	CodeInvalidRequest  = "provider_invalid_request"
	CodeContextExceeded = "provider_context_length_exceeded"
	CodeContentFiltered = "provider_content_filtered"
	CodeUnknown         = "provider_unknown"
)

// userMessages are the messages that users see.
var userMessages = map[string]string{
	CodeRateLimited:     "the model's request limit is exceeded",
	CodeOverloaded:      "the model is overloaded",
	CodeTimeout:         "the model did not answer in time",
	CodeUnavailable:     "the model is unreachable",
	CodeAuthFailed:      "the model's provider rejected the credentials",
	CodeInvalidRequest:  "the model's provider rejected the request",
	CodeContextExceeded: "the conversation is too long for the model",
	CodeContentFiltered: "the answer was blocked by the provider's content filter",
	CodeUnknown:         "the model's provider reported an error",
}

// failure is the error of an attempt.
type failure struct {
	code  string
	final bool          // not retryable, whatever the code
	after time.Duration // the delay that the endpoint requests, 0 for none
	cause error         // for the log; without secrets
}

func (f *failure) Error() string { return f.code + ": " + f.cause.Error() }

func (f *failure) retryable() bool {
	switch f.code {
	case CodeRateLimited, CodeOverloaded, CodeTimeout, CodeUnavailable:
		return !f.final
	}
	return false
}

// asError returns the error that fails the run.
func (f *failure) asError() error {
	return &workers.Error{Message: userMessages[f.code], Code: f.code, Retryable: f.retryable(), Cause: f.cause}
}

var (
	errIdle = errors.New("endpoint idle timeout")

	// errStreamCut reports an incomplete response stream.
	errStreamCut = errors.New("response stream incomplete")
)

// classify converts an error of a request with context ctx.
func (a *Agent) classify(ctx context.Context, err error) *failure {
	f := &failure{cause: a.clean(err)}
	var (
		api   *oai.Error
		event *eventError
		wire  net.Error
	)
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		f.code, f.cause = CodeTimeout, errIdle
	case errors.As(err, &api):
		p := endpointError{Message: api.Message, Code: api.Code, Type: api.Type}
		f.code, f.final = p.classify(api.StatusCode)
		if api.Response != nil {
			f.after = retryAfter(api.Response.Header, time.Now())
			switch api.Response.Header.Get("X-Should-Retry") {
			case "false":
				f.final = true
			case "true":
				if !f.retryable() {
					f.code, f.final = CodeUnavailable, false
				}
			}
		}
		f.cause = a.clean(p.error(api.StatusCode, f.code))
	case errors.As(err, &event):
		f.code, f.final = event.classify(0)
		f.cause = a.clean(event.error(0, f.code))
	case errors.As(err, &wire) && wire.Timeout():
		f.code = CodeTimeout
	default:
		// The connection was refused or closed, or the response is malformed.
		f.code = CodeUnavailable
	}
	return f
}

// clean returns err for the log: without the key and the URL, and truncated.
func (a *Agent) clean(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if a.cfg.Key != "" {
		text = strings.ReplaceAll(text, string(a.cfg.Key), hidden)
	}
	return errors.New(clip(text))
}

// endpointError is the error of an endpoint.
type endpointError struct {
	Message string
	Code    string
	Type    string
}

// eventError is the error of an endpoint inside a stream.
type eventError struct{ endpointError }

func (r *eventError) Error() string { return r.Message }

// endpointErrorIn parses the error of an event: a string, or an object whose code may be a number. An empty one is
// ignored: some servers send null with every piece, and a stream that ends after it is reported as
// incomplete.
func endpointErrorIn(data []byte) (p endpointError, ok bool) {
	var event struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &event) != nil {
		return endpointError{}, false
	}
	switch string(event.Error) {
	case "", "null", "false", `""`, "{}":
		return endpointError{}, false
	}
	if json.Unmarshal(event.Error, &p.Message) == nil {
		return p, true
	}
	var body struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	if json.Unmarshal(event.Error, &body) != nil {
		return endpointError{Message: string(event.Error)}, true
	}
	p = endpointError{Message: body.Message, Type: body.Type}
	switch code := body.Code.(type) {
	case string:
		p.Code = code
	case float64:
		p.Code = strconv.Itoa(int(code))
	}
	return p, true
}

// error returns the error for the log. The message about an invalid key is dropped, because it may contain
// parts of the key.
func (p endpointError) error(status int, code string) error {
	text := "endpoint error " + strconv.Quote(p.Message)
	if code == CodeAuthFailed {
		text = "endpoint rejected the key"
	}
	if p.Code != "" || p.Type != "" {
		text += " (" + strings.TrimSpace(p.Type+" "+p.Code) + ")"
	}
	if status != 0 {
		text += ", status " + strconv.Itoa(status)
	}
	return errors.New(text)
}

// classify returns the code of an error, and final if a retry cannot help. status is 0 for an error inside
// of a stream. Names take precedence over the status, because servers agree on them more often.
func (p endpointError) classify(status int) (code string, final bool) {
	if code, final, ok := p.named(); ok {
		return code, final
	}
	if status == 0 {
		status, _ = strconv.Atoi(p.Code) // some servers put the status there; otherwise it is 0
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		return CodeAuthFailed, false
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return CodeTimeout, false
	case http.StatusTooManyRequests:
		return CodeRateLimited, false
	case http.StatusServiceUnavailable, 529:
		return CodeOverloaded, false
	case http.StatusRequestEntityTooLarge:
		return CodeContextExceeded, false
	case http.StatusConflict, http.StatusTooEarly:
		return CodeUnavailable, false
	}
	switch {
	case status >= http.StatusInternalServerError:
		return CodeUnavailable, false
	case status >= http.StatusBadRequest:
		return CodeInvalidRequest, false
	}
	return p.isGeneric(), false
}

// named classifies by the names that the endpoint uses; ok is false if none is known.
func (p endpointError) named() (code string, final, ok bool) {
	for _, name := range []string{p.Code, p.Type} {
		switch name {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active":
			// A 429 that does not pass.
			return CodeAuthFailed, true, true
		case "context_length_exceeded", "string_above_max_length":
			return CodeContextExceeded, false, true
		case "content_filter", "content_policy_violation", "bio_policy", "image_content_policy_violation":
			return CodeContentFiltered, false, true
		case "rate_limit_exceeded", "rate_limit_error", "tokens", "requests":
			return CodeRateLimited, false, true
		case "invalid_api_key", "authentication_error", "permission_error":
			return CodeAuthFailed, false, true
		case "overloaded", "overloaded_error", "server_overloaded", "engine_overloaded", "slow_down":
			return CodeOverloaded, false, true
		case "timeout", "timeout_error", "vector_store_timeout":
			return CodeTimeout, false, true
		case "model_not_found", "invalid_prompt":
			return CodeInvalidRequest, false, true
		}
	}
	text := strings.ToLower(p.Message)
	for _, phrase := range []string{"maximum context length", "context window", "context length", "too many tokens"} {
		if strings.Contains(text, phrase) {
			return CodeContextExceeded, false, true
		}
	}
	return "", false, false
}

// isGeneric classifies by names that are less specific than a status.
func (p endpointError) isGeneric() string {
	for _, name := range []string{p.Code, p.Type} {
		switch name {
		case "server_error", "internal_error", "internal_server_error", "api_error":
			return CodeUnavailable
		case "invalid_request_error":
			return CodeInvalidRequest
		}
	}
	return CodeUnknown
}

// retryAfter returns the delay that a response requests, 0 for none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return duration(ms, time.Millisecond)
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 {
		return duration(s, time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// duration returns n units, at most a day.
func duration(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(24*time.Hour)))
}
