package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// WebhookConfig is a tool behind a URL. URL has no default; with it, the rest may
// be zero.
type WebhookConfig struct {
	// URL gets a POST with the input of each call as its JSON body.
	URL string

	// Headers go with each request. They may hold secrets.
	Headers map[string]string

	// Timeout is how long a call may take. Defaults to 1 minute.
	Timeout time.Duration

	// Client sends the requests. Defaults to http.DefaultClient.
	Client *http.Client
}

// Webhook is a Tool's Run that asks a URL. The header Idempotency-Key is the same
// each time that a call is run. The result is the JSON of an answer with a status
// of 200 to 299, or its text if it is no JSON; of any other the model reads
// the status and the text.
func Webhook(cfg WebhookConfig) (func(ctx context.Context, c Call) (any, error), error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the URL is no http or https URL") // it may hold a secret: it is not repeated
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	return cfg.run, nil
}

func (cfg WebhookConfig) run(ctx context.Context, c Call) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.URL, bytes.NewReader(c.Input))
	if err != nil {
		return nil, errors.New("the tool cannot be asked")
	}
	for name, value := range cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", c.Key)
	res, err := cfg.Client.Do(req)
	if err != nil {
		// The text names the URL, which people need not know.
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the tool did not answer within %s", cfg.Timeout)
		}
		return nil, errors.New("the tool cannot be reached")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxValue+1))
	if err != nil {
		return nil, errors.New("the tool's answer was cut off")
	}
	if len(text) > maxValue {
		return nil, fmt.Errorf("the tool's answer has more than %d bytes", maxValue)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, fmt.Errorf("the tool answered %d: %s", res.StatusCode, clip(strings.ToValidUTF8(string(text), "\uFFFD")))
	}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, nil //nolint:nilnil // it has done what it was asked, and says nothing: null
	case json.Valid(text):
		return json.RawMessage(text), nil
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// clip is as much of a text as an error holds.
func clip(text string) string {
	const most = 500
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
