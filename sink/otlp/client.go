package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tailrace/tailrace/internal/outgoing"
	"github.com/tailrace/tailrace/sink/export"
)

const (
	// MaxSpans is the largest number of spans of a request.
	MaxSpans = 512

	// MaxDelay is the longest time that a span waits for others.
	MaxDelay = time.Second

	requestTimeout  = 10 * time.Second
	maxResponseBody = 64 << 10
	tracesPath      = "v1/traces"
)

// Client sends spans to a receiver of OTLP over HTTP.
type Client struct {
	endpoint string
	header   http.Header
	http     *http.Client
	rejected prometheus.Counter // spans that a response with a success rejects
	log      *slog.Logger
}

// New returns a Client for a URL such as otlp+http://host:4318 or otlp+https://host/api/public/otel, to whose path /v1/traces is added. The headers have the form
// of OTEL_EXPORTER_OTLP_HEADERS: "name=value,name=value" with values in percent encoding. No error has a part of the URL or of the headers.
func New(to *url.URL, headers string, reg prometheus.Registerer, log *slog.Logger) (*Client, error) {
	at := *to
	at.Scheme = strings.TrimPrefix(at.Scheme, "otlp+")
	if at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.RawQuery != "" || at.User != nil {
		return nil, errors.New("want a URL such as otlp+http://host:4318, without user and query; OTEL_EXPORTER_OTLP_HEADERS has the credentials")
	}
	if !strings.HasSuffix(at.Path, "/"+tracesPath) {
		at = *at.JoinPath(tracesPath)
	}
	c := &Client{endpoint: at.String(), header: http.Header{}, http: outgoing.Client(nil), log: log}
	for pair := range strings.SplitSeq(headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: want name=value,name=value with values in percent encoding")
		}
		c.header.Set(strings.TrimSpace(name), value)
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	c.header.Set("Content-Encoding", "gzip")
	c.header.Set("User-Agent", "tailrace-sink")
	c.rejected = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tailrace_sink_rejected_spans_total", Help: "Spans that the receiver has rejected in a request that it accepted otherwise.",
	})
	return c, reg.Register(c.rejected)
}

// Deliver sends the spans of rows in one request, see export.Config.
func (c *Client) Deliver(ctx context.Context, rows []export.Row) error {
	spans := make([]*trace.Span, len(rows))
	for i, r := range rows {
		spans[i] = spanOf(r)
	}
	body, err := encode(spans)
	if err != nil {
		return &export.RefusedError{Cause: err}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.header.Clone()
	res, err := c.http.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL
		}
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponseBody))
	if res.StatusCode/100 != 2 {
		// These are faults of the settings, and not of the spans.
		return export.StatusError(res, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed)
	}
	if err != nil {
		return err
	}
	c.countRejected(answer)
	return nil
}

// countRejected counts the spans that a response with a success rejects. OTLP forbids to send them again.
func (c *Client) countRejected(answer []byte) {
	const partialSuccess, rejectedSpans, errorMessage = 1, 1, 2
	partial := field(answer, partialSuccess)
	n, _ := protowire.ConsumeVarint(field(partial, rejectedSpans))
	if n == 0 {
		return
	}
	reason := fmt.Sprintf("%.200s", field(partial, errorMessage))
	c.rejected.Add(float64(n))
	c.log.Warn("spans rejected", slog.Uint64("spans", n), slog.String("reason", reason))
}

// field returns a field of a message, nil if it is not there or the message is not valid: some receivers answer with a text. The package of this message would link
// gRPC and its gateway.
func field(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		got, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(got, typ, message)
		if size < 0 {
			return nil
		}
		value := message[:size]
		message = message[size:]
		if got != number {
			continue
		}
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		return value
	}
	return nil
}

// encode returns a request in gzip.
func encode(spans []*trace.Span) ([]byte, error) {
	// The message of storage has the same bytes as that of the request, whose package links gRPC.
	request := &trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: []*common.KeyValue{{Key: keyService, Value: text(serviceName)}}},
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: scopeName}, SchemaUrl: schemaURL, Spans: spans}},
	}}}
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(data)
	err = errors.Join(err, w.Close()) // before the bytes are complete
	return out.Bytes(), err
}
