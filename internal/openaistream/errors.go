package openaistream

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The codes of model failures (docs/protocol/chat.md#helix-12.3). The first four may be temporary.
const (
	CodeRateLimited     = "provider_rate_limited"
	CodeOverloaded      = "provider_overloaded"
	CodeTimeout         = "provider_timeout"
	CodeUnavailable     = "provider_unavailable"
	CodeAuthFailed      = "provider_auth_failed"
	CodeInvalidRequest  = "provider_invalid_request"
	CodeContextExceeded = "provider_context_length_exceeded"
	CodeContentFiltered = "provider_content_filtered"
	CodeInvalidResponse = "provider_invalid_response"
	CodeUnknown         = "provider_unknown"
)

var userMessages = map[string]string{
	CodeRateLimited:     "the model's request limit is exceeded",
	CodeOverloaded:      "the model is overloaded",
	CodeTimeout:         "the model did not answer in time",
	CodeUnavailable:     "the model is not available",
	CodeAuthFailed:      "the model's provider rejected the credentials",
	CodeInvalidRequest:  "the model's provider rejected the request",
	CodeContextExceeded: "the conversation is too long for the model",
	CodeContentFiltered: "the answer was blocked by the provider's content filter",
	CodeInvalidResponse: "the model's answer is not valid",
	CodeUnknown:         "the model's provider reported an error",
}

// UserMessage returns the message for users of a code. The endpoint's own message may contain a part of the key, or the prompt.
func UserMessage(code string) string { return userMessages[code] }

// Temporary reports whether a failure with a code may pass.
func Temporary(code string) bool {
	switch code {
	case CodeRateLimited, CodeOverloaded, CodeTimeout, CodeUnavailable:
		return true
	}
	return false
}

// Error is the error of an endpoint. Its Message is not for users.
type Error struct {
	Message string
	Code    string
	Type    string
}

// Error returns the endpoint's message.
func (e *Error) Error() string { return e.Message }

// ParseError returns the error in the body of a response, the zero value if it has none: proxies answer with pages of HTML.
func ParseError(body []byte) Error {
	body = rawjson.TrimSpace(body)
	if _, ok := rawjson.Scan(body, rawjson.Limits{Levels: maxLevels}); !ok || body[0] != '{' {
		return Error{}
	}
	e, _ := errorIn(body)
	return e
}

// errorIn parses the error of an event: a string, or an object whose code may be a number. An empty one is ignored: some servers send null with every piece, and
// a stream that ends after it is reported as incomplete.
func errorIn(data []byte) (e Error, ok bool) {
	v := rawjson.Get(data, "error")
	switch string(v) {
	case "", "null", "false", `""`, "{}":
		return Error{}, false
	}
	if s, ok := dialect.Text(v); ok {
		return Error{Message: s}, true
	}
	return readError(v), true
}

// readError reads an error object. The message of another value is its JSON.
func readError(v []byte) Error {
	message := rawjson.Get(v, "message")
	if _, ok := dialect.Text(message); !ok && (message != nil || !isObject(v)) {
		return Error{Message: string(v)}
	}
	e := Error{Message: dialect.TextAt(v, "message"), Code: dialect.TextAt(v, "code"), Type: dialect.TextAt(v, "type")}
	if n, err := strconv.ParseFloat(string(rawjson.Get(v, "code")), 64); err == nil {
		e.Code = strconv.Itoa(int(n))
	}
	return e
}

// Classify returns the code of an error, and final if a retry cannot help. status is the one of the HTTP response, 0 for an error inside of a stream. Names take
// precedence over the status, because servers agree on them more often.
func (e *Error) Classify(status int) (code string, final bool) {
	if code, final, ok := e.named(); ok {
		return code, final
	}
	if status == 0 {
		status, _ = strconv.Atoi(e.Code) // some servers put the status there; otherwise it is 0
	}
	switch status {
	case 401, 402, 403:
		return CodeAuthFailed, false
	case 408, 504:
		return CodeTimeout, false
	case 429:
		return CodeRateLimited, false
	case 503, 529:
		return CodeOverloaded, false
	case 413:
		return CodeContextExceeded, false
	case 409, 425:
		return CodeUnavailable, false
	}
	switch {
	case status >= 500:
		return CodeUnavailable, false
	case status >= 400:
		return CodeInvalidRequest, false
	}
	return e.generic(), false
}

// named classifies by the names that the endpoint uses; ok is false if none is known.
func (e *Error) named() (code string, final, ok bool) {
	for _, name := range []string{e.Code, e.Type} {
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
	message := strings.ToLower(e.Message)
	for _, phrase := range []string{"maximum context length", "context window", "context length", "too many tokens"} {
		if strings.Contains(message, phrase) {
			return CodeContextExceeded, false, true
		}
	}
	return "", false, false
}

// generic classifies by names that are less specific than a status.
func (e *Error) generic() string {
	for _, name := range []string{e.Code, e.Type} {
		switch name {
		case "server_error", "internal_error", "internal_server_error", "api_error":
			return CodeUnavailable
		case "invalid_request_error":
			return CodeInvalidRequest
		}
	}
	return CodeUnknown
}
