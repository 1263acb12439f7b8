package httpkit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// A client that was identified has its request in its trace. Others add no span to any trace.
func TestTracesOfIdentifiedClients(t *testing.T) {
	const client = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tt := range []struct {
		name, credential string
		method           string
		status           int
		want             []string // spans, with their trace and status
	}{
		{"identified", "ann", http.MethodPost, 200, []string{"POST post " + client + " 200"}},
		{"a client that may not", "bob", http.MethodPost, 404, nil},
		{"a read", "ann", http.MethodGet, 200, nil},
		{"without a credential", "", http.MethodPost, 401, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spans := tracetest.NewInMemoryExporter()
			rr := newRouter(t, httpkit.Options{
				Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
				Authenticator: authenticator(func(r *http.Request) (*auth.Grant, error) {
					switch r.Header.Get("Authorization") {
					case "ann":
						return &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeChat}, nil
					case "":
						return nil, auth.ErrNoCredential
					}
					return &auth.Grant{Tenant: "acme", Subject: "ann"}, nil
				}),
			})
			r, w := httptest.NewRequest(tt.method, "/x/a", nil), httptest.NewRecorder()
			r.Header.Set("Authorization", tt.credential)
			r.Header.Set("Traceparent", "00-"+client+"-00f067aa0ba902b7-01")
			rr.ServeHTTP(w, r)
			var got []string
			for _, s := range spans.GetSpans() {
				line := s.Name + " " + s.SpanContext.TraceID().String()
				for _, a := range s.Attributes {
					if a.Key == "http.response.status_code" {
						line += " " + a.Value.String()
					}
				}
				got = append(got, line)
			}
			if w.Code != tt.status || len(got) != len(tt.want) || len(got) > 0 && got[0] != tt.want[0] {
				t.Errorf("status %d with the spans %q, want %d with %q", w.Code, got, tt.status, tt.want)
			}
		})
	}
}
