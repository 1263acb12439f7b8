package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/wait"
)

// The variables of OpenTelemetry that this process reads or checks itself. The SDK and the exporter read the others: OTEL_BSP_*, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_SPAN_*, OTEL_EXPORTER_OTLP_*.
const (
	otelDisabled       = "OTEL_SDK_DISABLED"
	otelExporter       = "OTEL_TRACES_EXPORTER"
	otelProtocol       = otelPrefix + "PROTOCOL"
	otelTracesProtocol = otelPrefix + "TRACES_PROTOCOL"
	otelEndpoint       = otelPrefix + "ENDPOINT"
	otelTracesEndpoint = otelPrefix + "TRACES_ENDPOINT"
	otelSampler        = "OTEL_TRACES_SAMPLER"
	otelSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
)

// tracesWanted reports whether the environment switches traces on: it names an exporter or an endpoint.
func tracesWanted() (bool, error) {
	if disabled, _ := strconv.ParseBool(os.Getenv(otelDisabled)); disabled {
		return false, nil
	}
	exporter := os.Getenv(otelExporter)
	switch exporter {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, usageError{fmt.Errorf("%s is %q, want otlp or none", otelExporter, exporter)}
	}
	if exporter == "" && os.Getenv(otelEndpoint) == "" && os.Getenv(otelTracesEndpoint) == "" {
		return false, nil
	}
	if p := cmp.Or(os.Getenv(otelTracesProtocol), os.Getenv(otelProtocol)); p != "" && p != "http/protobuf" {
		return false, usageError{fmt.Errorf("%s is %q, want http/protobuf", otelProtocol, p)}
	}
	return true, nil
}

// startTracing makes the process export its spans if the environment enables that. The function exports the last ones and stops.
func (b *app) startTracing(ctx context.Context) (stop func(), err error) {
	on, err := tracesWanted()
	if err != nil || !on {
		return func() {}, err
	}
	sampler, err := samplerFromEnv()
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", b.defaultService()), attribute.String("service.version", programVersion()), attribute.String("service.instance.id", roles.Instance()),
	), resource.WithFromEnv()) // the later ones win
	if err != nil {
		return nil, usageError{fmt.Errorf("traces: %w", err)}
	}
	exporter, err := newSpanExporter(ctx)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&traceErrors{log: b.log})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(sampler), sdktrace.WithResource(about))
	b.Tracer = provider
	b.log.Info("traces started", "service", serviceName(about))
	return func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTracingTimeout)
		defer cancel()
		if err := provider.Shutdown(ending); err != nil {
			b.log.Warn("last spans not exported", "error", err)
		}
	}, nil
}

// stopTracingTimeout bounds the export of the last spans, which is added to the time that the process takes to end.
const stopTracingTimeout = 2 * time.Second

// defaultService returns the name of the service without OTEL_SERVICE_NAME. `up` has all roles.
func (b *app) defaultService() string {
	if b.role == natsauth.Operator {
		return "tailrace"
	}
	return "tailrace-" + string(b.role)
}

func serviceName(r *resource.Resource) string {
	name, _ := r.Set().Value("service.name")
	return name.AsString()
}

// traceErrors logs errors of the export, such as a collector that is not there, at most one a second.
type traceErrors struct {
	log   *slog.Logger
	limit wait.Throttle
}

// Handle implements otel.ErrorHandler.
func (h *traceErrors) Handle(err error) {
	if more, ok := h.limit.Allow(); ok {
		h.log.Warn("spans not exported", "error", err, "notLogged", more)
	}
}

// samplerFromEnv returns the sampler of OTEL_TRACES_SAMPLER. The SDK reads it too, but does not return it to wrap it, and ignores an invalid one.
func samplerFromEnv() (sdktrace.Sampler, error) {
	name := cmp.Or(strings.ToLower(os.Getenv(otelSampler)), "parentbased_always_on")
	kind, parentBased := strings.CutPrefix(name, "parentbased_")
	var root sdktrace.Sampler
	switch kind {
	case "always_on":
		root = sdktrace.AlwaysSample()
	case "always_off":
		root = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(os.Getenv(otelSamplerArg), "1"), 64)
		if err != nil || ratio < 0 || ratio > 1 {
			return nil, usageError{fmt.Errorf("%s is %q, want 0 to 1", otelSamplerArg, os.Getenv(otelSamplerArg))}
		}
		root = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, usageError{fmt.Errorf("%s is %q, want always_on, always_off or traceidratio, or one of them behind parentbased_", otelSampler, name)}
	}
	if parentBased {
		root = sdktrace.ParentBased(root)
	}
	return linkSampler{root}, nil
}

// linkSampler samples a span without a parent that is linked to sampled ones: the fold and the delivery of a run are recorded exactly if the run is. With the root
// sampler alone and a ratio of 1 %, one in a hundred of the recorded runs would have them.
type linkSampler struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s linkSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if parent := trace.SpanContextFromContext(p.ParentContext); !parent.IsValid() {
		for _, link := range p.Links {
			if link.SpanContext.IsSampled() {
				return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
			}
		}
	}
	return s.Sampler.ShouldSample(p)
}
