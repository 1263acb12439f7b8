package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// retryExport is how a batch is sent again to a receiver that is busy. Meanwhile spans wait in the queue of the SDK, which drops those beyond its size.
var retryExport = otlptracehttp.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 5 * time.Second, MaxElapsedTime: 20 * time.Second}

// newSpanExporter returns the exporter that the environment configures.
func newSpanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	for _, check := range exporterChecks {
		for _, name := range []string{otelPrefix + check.name, otelPrefix + "TRACES_" + check.name} {
			if value := strings.TrimSpace(os.Getenv(name)); value != "" && !check.valid(value) {
				return nil, usageError{fmt.Errorf("%s: want %s", name, check.want)}
			}
		}
	}
	return otlptracehttp.New(ctx, otlptracehttp.WithRetry(retryExport), otlptracehttp.WithProxy(withoutRedirect))
}

// withoutRedirect is http.ProxyFromEnvironment for a request that is not the consequence of a redirect, which would take the headers, with their credentials, to
// another host. The exporter has no other place for the rule: with another client it would ignore its variables for certificates and timeouts.
func withoutRedirect(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the receiver of traces redirects, which is not followed")
	}
	return http.ProxyFromEnvironment(r)
}

const otelPrefix = "OTEL_EXPORTER_OTLP_"

// exporterChecks has the variables of which the exporter ignores an invalid value or a part of it, and writes that, which may be a secret, to its log.
var exporterChecks = []struct {
	name  string
	valid func(value string) bool
	want  string
}{
	{"ENDPOINT", isEndpoint, "an HTTP URL without a user and a query; credentials are headers"},
	{"HEADERS", areHeaders, "name=value, separated by commas"},
	{"TIMEOUT", isTimeout, "milliseconds"},
}

func isEndpoint(value string) bool {
	u, err := url.Parse(value)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == ""
}

func areHeaders(value string) bool {
	for pair := range strings.SplitSeq(value, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(text); !ok || err != nil || strings.TrimSpace(name) == "" {
			return false
		}
	}
	return true
}

func isTimeout(value string) bool {
	ms, err := strconv.Atoi(value)
	return err == nil && ms > 0
}
