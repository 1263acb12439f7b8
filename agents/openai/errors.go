package openai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/workers"
)

// The codes of model failures (docs/protocol/chat.md#helix-12.3). The first four may be temporary and are retried.
const (
	CodeRateLimited     = openaistream.CodeRateLimited     // provider_rate_limited
	CodeOverloaded      = openaistream.CodeOverloaded      // provider_overloaded
	CodeTimeout         = openaistream.CodeTimeout         // provider_timeout
	CodeUnavailable     = openaistream.CodeUnavailable     // provider_unavailable
	CodeAuthFailed      = openaistream.CodeAuthFailed      // provider_auth_failed
	CodeInvalidRequest  = openaistream.CodeInvalidRequest  // provider_invalid_request
	CodeContextExceeded = openaistream.CodeContextExceeded // provider_context_length_exceeded
	CodeContentFiltered = openaistream.CodeContentFiltered // provider_content_filtered
	CodeInvalidResponse = openaistream.CodeInvalidResponse // provider_invalid_response
	CodeUnknown         = openaistream.CodeUnknown         // provider_unknown
)

// failure is the error of an attempt.
type failure struct {
	code  string
	final bool          // not retryable, whatever the code
	again bool          // retryable, although the code is not
	after time.Duration // the delay that the endpoint requests, 0 for none
	cause error         // for the log; without secrets
}

func (f *failure) Error() string { return f.code + ": " + f.cause.Error() }

func (f *failure) retryable() bool {
	return (openaistream.Temporary(f.code) || f.again) && !f.final
}

// asError returns the error that fails the run.
func (f *failure) asError() error {
	return &workers.Error{Message: openaistream.UserMessage(f.code), Code: f.code, Retryable: f.retryable(), Cause: f.cause}
}

var (
	errIdle = errors.New("endpoint idle timeout")

	// errStreamCut reports an incomplete response stream.
	errStreamCut = errors.New("response stream incomplete")

	// Responses that the endpoint has ended, and that are not valid.
	errNothing  = errors.New("response without an event")
	errNoFinish = errors.New("response without a finish reason")
	errCutWhole = errors.New("response ended before its finish reason")
)

// classify converts an error of a request with context ctx.
func (a *Agent) classify(ctx context.Context, err error) *failure {
	f := &failure{cause: a.clean(err)}
	api, isAPI := errors.AsType[*statusError](err)
	event, isEvent := errors.AsType[*openaistream.Error](err)
	wire, isWire := errors.AsType[net.Error](err)
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		f.code, f.cause = CodeTimeout, errIdle
	case isAPI:
		f.code, f.final = api.body.Classify(api.status)
		f.after = outgoing.RetryAfter(api.header, time.Now())
		switch api.header.Get("X-Should-Retry") {
		case "false":
			f.final = true
		case "true":
			if !f.retryable() {
				f.code, f.final = CodeUnavailable, false
			}
		}
		f.cause = a.clean(errorForLog(&api.body, api.status, f.code))
	case isEvent:
		f.code, f.final = event.Classify(0)
		f.cause = a.clean(errorForLog(event, 0, f.code))
	case errors.Is(err, errNothing), errors.Is(err, errNoFinish), errors.Is(err, errMediaType), errors.Is(err, ingestion.ErrLineTooLarge):
		f.code = CodeInvalidResponse
	case errors.Is(err, errCutWhole), errors.Is(err, openaistream.ErrMalformed): // perhaps what is between has cut it
		f.code, f.again = CodeInvalidResponse, true
	case isWire && wire.Timeout():
		f.code = CodeTimeout
	default:
		// The connection was refused or closed.
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
	return fmt.Errorf("%.500s", text)
}

// errorForLog returns the error for the log. The message about an invalid key is dropped, because it may contain
// parts of the key.
func errorForLog(p *openaistream.Error, status int, code string) error {
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
