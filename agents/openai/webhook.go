package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/workers"
)

// WebhookConfig configures a tool behind a URL. URL is required.
type WebhookConfig struct {
	// URL gets a POST request with the input of each call as its JSON body.
	URL string

	// Headers are sent with each request. They may contain secrets.
	Headers map[string]string

	// Timeout is the timeout of a call. Defaults to 1 minute; Off disables it.
	Timeout time.Duration

	// Client sends the requests. Only its Transport is used. The default one connects to no link-local address.
	Client *http.Client
}

// Webhook returns a Tool's Run that sends the call to a URL. The header Idempotency-Key is the same in every
// attempt of a call. The result is the JSON of a response with a status of 200 to 299, or its text if it is
// not JSON; any other status is an error with the text of the response, which only the model gets.
func Webhook(cfg WebhookConfig) (func(ctx context.Context, c Call) (any, error), error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("URL is invalid, want an http or https URL") // without the value, which may contain a secret
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.Client = outgoing.Client(cfg.Client)
	return cfg.run, nil
}

func (cfg WebhookConfig) run(ctx context.Context, c Call) (any, error) {
	if cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.URL, bytes.NewReader(c.Input))
	if err != nil {
		return nil, errors.New("invalid tool request")
	}
	for name, value := range cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.IdempotencyKey)
	res, err := cfg.Client.Do(req)
	if err != nil {
		// The text of the error contains the URL, which users must not see.
		if ctx.Err() != nil {
			return nil, webhookError(fmt.Sprintf("the tool did not respond within %s", cfg.Timeout), nil)
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, webhookError("the tool is unreachable", err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxValue+1))
	if err != nil {
		return nil, webhookError("the tool's response is incomplete", err)
	}
	if len(text) > maxValue {
		return nil, fmt.Errorf("tool response exceeds %d bytes", maxValue)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, fmt.Errorf("tool returned status %d: %.500s", res.StatusCode, strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, nil //nolint:nilnil // an empty response is the result null
	case json.Valid(text):
		return json.RawMessage(text), nil
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// webhookError returns an error that users see without its cause.
func webhookError(text string, cause error) error {
	return &workers.Error{Message: text, Code: workers.CodeToolFailed, Cause: cause}
}
