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

// The codes of what goes wrong with a model (helix.md 12.3). The first four may
// pass, and are tried again.
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

// sentences are what people are told.
var sentences = map[string]string{
	CodeRateLimited:     "the model has too many requests at the moment",
	CodeOverloaded:      "the model is overloaded",
	CodeTimeout:         "the model did not answer in time",
	CodeUnavailable:     "the model cannot be reached",
	CodeAuthFailed:      "the model's provider did not let us in",
	CodeInvalidRequest:  "the model's provider did not accept the request",
	CodeContextExceeded: "the conversation is too long for the model",
	CodeContentFiltered: "the answer was held back by the provider's content filter",
	CodeUnknown:         "the model's provider reported an error",
}

// failure is an attempt that came to nothing.
type failure struct {
	code  string
	final bool          // trying again is no use, whatever the code
	after time.Duration // the pause that the endpoint asks for, 0 for none
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

// told is the failure as the run's error.
func (f *failure) told() error {
	return &workers.Error{Message: sentences[f.code], Code: f.code, Retryable: f.retryable(), Cause: f.cause}
}

var (
	errSilence = errors.New("the endpoint sent nothing for too long")

	// errCut reports a stream that ended before the answer did.
	errCut = errors.New("the stream ended before the answer did")
)

// classify says what an error of the endpoint is, for someone who has it from a
// request whose context is ctx.
func (a *Agent) classify(ctx context.Context, err error) *failure {
	f := &failure{cause: a.clean(err)}
	var (
		api  *oai.Error
		told *reported
		wire net.Error
	)
	switch {
	case errors.Is(context.Cause(ctx), errSilence):
		f.code, f.cause = CodeTimeout, errSilence
	case errors.As(err, &api):
		p := problem{Message: api.Message, Code: api.Code, Type: api.Type}
		f.code, f.final = p.judge(api.StatusCode)
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
	case errors.As(err, &told):
		f.code, f.final = told.judge(0)
		f.cause = a.clean(told.error(0, f.code))
	case errors.As(err, &wire) && wire.Timeout():
		f.code = CodeTimeout
	default:
		// The connection was refused or cut, or what came over it was no JSON.
		f.code = CodeUnavailable
	}
	return f
}

// clean is err for the log: without the key, the URL and the length that an
// endpoint may give it.
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

// problem is what an endpoint says of an error.
type problem struct {
	Message string
	Code    string
	Type    string
}

// reported is a problem that came inside of a stream.
type reported struct{ problem }

func (r *reported) Error() string { return r.Message }

// problemIn reads the error of an event. Servers write a text, or an object whose
// code may be a number. One that says nothing is none: servers write null into
// every piece, and a stream that does end there has ended too early.
func problemIn(data []byte) (p problem, ok bool) {
	var event struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &event) != nil {
		return problem{}, false
	}
	switch string(event.Error) {
	case "", "null", "false", `""`, "{}":
		return problem{}, false
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
		return problem{Message: string(event.Error)}, true
	}
	p = problem{Message: body.Message, Type: body.Type}
	switch code := body.Code.(type) {
	case string:
		p.Code = code
	case float64:
		p.Code = strconv.Itoa(int(code))
	}
	return p, true
}

// error is the problem for the log. What is said of a key that is no good may
// hold parts of it.
func (p problem) error(status int, code string) error {
	text := "the endpoint said " + strconv.Quote(p.Message)
	if code == CodeAuthFailed {
		text = "the endpoint refused the key"
	}
	if p.Code != "" || p.Type != "" {
		text += " (" + strings.TrimSpace(p.Type+" "+p.Code) + ")"
	}
	if status != 0 {
		text += ", status " + strconv.Itoa(status)
	}
	return errors.New(text)
}

// judge finds the code of a problem, and whether trying again is no use. Status
// is 0 for a problem inside of a stream. What the endpoint names goes before the
// status: servers agree on the names more than on the numbers.
func (p problem) judge(status int) (code string, final bool) {
	if code, final, ok := p.named(); ok {
		return code, final
	}
	if status == 0 {
		status, _ = strconv.Atoi(p.Code) // some write the status there; otherwise it is 0
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
	return p.vague(), false
}

// named judges by the names that the endpoint gives; ok is false when they say
// nothing.
func (p problem) named() (code string, final, ok bool) {
	for _, name := range []string{p.Code, p.Type} {
		switch name {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active":
			// A 429 which no pause helps against.
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
	for _, words := range []string{"maximum context length", "context window", "context length", "too many tokens"} {
		if strings.Contains(text, words) {
			return CodeContextExceeded, false, true
		}
	}
	return "", false, false
}

// vague judges by the names that say less than a status would.
func (p problem) vague() string {
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

// retryAfter is the pause that a response asks for, 0 for none.
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

// duration is n units, at most a day: more than anybody waits for.
func duration(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(24*time.Hour)))
}
