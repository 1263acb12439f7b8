package httpagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/workers"
)

// The codes of failures of an endpoint.
const (
	CodeUnavailable    = "http_agent_unavailable"     // it was not reached, or has refused the request for now
	CodeTimeout        = "http_agent_timeout"         // it sent nothing, or did not end, in time
	CodeRateLimited    = "http_agent_rate_limited"    // 429
	CodeRejected       = "http_agent_rejected"        // any other status but 200
	CodeRedirected     = "http_agent_redirected"      // a redirect to another origin, or of another kind than 307 and 308
	CodeInvalid        = "http_agent_invalid"         // the response is not in the dialect
	CodeTooLarge       = "http_agent_too_large"       // an event or the response is over the limit
	CodeConnectionLost = "http_agent_connection_lost" // the response is incomplete
	CodeInterrupted    = "http_agent_interrupted"     // the worker died in the middle, see Fail
	CodeFailed         = "http_agent_failed"          // the response has an error, whose text users see
	CodeAborted        = "http_agent_aborted"         // the endpoint has aborted its answer
	CodeNoOutcome      = "http_agent_no_outcome"      // of a call: the endpoint did not report its outcome
)

// userMessages are the messages that users see.
var userMessages = map[string]string{
	CodeUnavailable:    "the agent is not available",
	CodeTimeout:        "the agent did not answer in time",
	CodeRateLimited:    "the agent's request limit is exceeded",
	CodeRejected:       "the agent rejected the request",
	CodeRedirected:     "the agent rejected the request",
	CodeInvalid:        "the agent's answer is invalid",
	CodeTooLarge:       "the agent's answer is too large",
	CodeConnectionLost: "the connection to the agent was lost",
	CodeInterrupted:    "the answer was interrupted",
	CodeAborted:        "the agent stopped its answer",
	CodeNoOutcome:      "the tool was not run",
}

// failure is an error of an exchange with the endpoint.
type failure struct {
	code  string
	retry bool          // another attempt may succeed, and the endpoint has not answered this one
	after time.Duration // the delay that the endpoint requests, 0 for none
	cause error         // for the log
}

func (f *failure) Error() string { return f.code + ": " + f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// asError returns the error that fails the run.
func (f *failure) asError() *workers.Error {
	switch f.code {
	case CodeUnavailable, CodeTimeout, CodeRateLimited, CodeConnectionLost:
		return &workers.Error{Message: userMessages[f.code], Code: f.code, Retryable: true, Cause: f.cause}
	}
	return &workers.Error{Message: userMessages[f.code], Code: f.code, Cause: f.cause}
}

func failuref(code, format string, args ...any) *failure {
	return &failure{code: code, cause: fmt.Errorf(format, args...)}
}

var (
	errResponseTimeout = errors.New("no response header in time")
	errIdle            = errors.New("no data in time")
	errTimeout         = errors.New("response not ended in time")
)

// isTimeout reports whether a context ended because of a timeout of this package.
func isTimeout(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errResponseTimeout) || errors.Is(cause, errIdle) || errors.Is(cause, errTimeout)
}

// requestFailure returns the failure of a request without a response, whose context is ctx. A request that did not reach the endpoint is retried; one that may have
// reached it is not, because the endpoint may be running tools for it.
func requestFailure(ctx context.Context, err error) *failure {
	if isTimeout(ctx) {
		return &failure{code: CodeTimeout, cause: context.Cause(ctx)}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which may contain a secret
	}
	f := &failure{code: CodeUnavailable, cause: err}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		f.retry = true
	}
	return f
}

// maxErrorBody is how much of the body of an error response is logged.
const maxErrorBody = 500

// statusFailure returns the failure of a response with another status than 200.
func statusFailure(res *http.Response) *failure {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read until the error is logged
	f := failuref(CodeRejected, "status %d: %s", res.StatusCode, strings.ToValidUTF8(string(text), "\uFFFD"))
	switch res.StatusCode {
	case http.StatusTooManyRequests:
		f.code, f.retry = CodeRateLimited, true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		f.code, f.retry = CodeUnavailable, true
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		f.code = CodeRedirected
	}
	if f.retry {
		f.after = outgoing.RetryAfter(res.Header, time.Now())
	}
	return f
}
