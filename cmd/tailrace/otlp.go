package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tailrace/tailrace/internal/wait"
)

// otlpExporter sends spans by OTLP over HTTP with protobuf. The exporter of OpenTelemetry does the same with gRPC, reflection and templates in its dependencies,
// which would make the binary half as large again; the message is small and stable.
type otlpExporter struct {
	url    string
	header http.Header
	client *http.Client
}

const (
	otelHeaders       = "OTEL_EXPORTER_OTLP_HEADERS"
	otelTracesHeaders = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	otelTimeout       = "OTEL_EXPORTER_OTLP_TIMEOUT"
	otelTracesTimeout = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"
)

// firstEnv returns the first variable that is not empty: its name and value.
func firstEnv(names ...string) (name, value string) {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// newOTLPExporter returns the exporter of the environment.
func newOTLPExporter() (*otlpExporter, error) {
	e := &otlpExporter{url: "http://localhost:4318/v1/traces", header: http.Header{"Content-Type": {"application/x-protobuf"}}, client: &http.Client{Timeout: 10 * time.Second}}
	if name, value := firstEnv(otelTracesEndpoint, otelEndpoint); name != "" {
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, usageError{fmt.Errorf("%s is not an HTTP URL", name)} // it may have a password
		}
		if name == otelEndpoint {
			u = u.JoinPath("v1/traces")
		}
		e.url = u.String()
	}
	if name, value := firstEnv(otelTracesHeaders, otelHeaders); name != "" {
		for pair := range strings.SplitSeq(value, ",") {
			key, text, ok := strings.Cut(pair, "=")
			text, err := url.PathUnescape(strings.TrimSpace(text))
			if !ok || err != nil {
				return nil, usageError{fmt.Errorf("%s: want name=value, separated by commas", name)}
			}
			e.header.Set(strings.TrimSpace(key), text)
		}
	}
	if name, value := firstEnv(otelTracesTimeout, otelTimeout); name != "" {
		ms, err := strconv.Atoi(value)
		if err != nil || ms < 1 {
			return nil, usageError{fmt.Errorf("%s is %q, want milliseconds", name, value)}
		}
		e.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	return e, nil
}

// exportAttempts is how often a batch is sent to a receiver that is busy. Meanwhile spans wait in the queue of the SDK, which drops those beyond its size.
const exportAttempts = 4

var exportBackoff = wait.Backoff{First: 500 * time.Millisecond, Max: 5 * time.Second, Jitter: true}

// errBusyReceiver reports a response after which OTLP allows another attempt.
var errBusyReceiver = errors.New("receiver busy")

// ExportSpans implements sdktrace.SpanExporter.
func (e *otlpExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	body := appendExport(nil, spans)
	for attempt := 1; ; attempt++ {
		err := e.post(ctx, body)
		if !errors.Is(err, errBusyReceiver) || attempt == exportAttempts || wait.Sleep(ctx, exportBackoff.Delay(attempt)) != nil {
			return err
		}
	}
}

func (e *otlpExporter) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = e.header.Clone()
	resp, err := e.client.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // its text has the URL
		}
		return fmt.Errorf("export: %w", err)
	}
	defer resp.Body.Close()                                       //nolint:errcheck // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("export: status %d: %w", resp.StatusCode, errBusyReceiver)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("export: status %d", resp.StatusCode)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (e *otlpExporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}
