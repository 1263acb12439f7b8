package httpedge_test

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openapitest"
)

// Every route is in the document, and every operation of the document is a route. Tests in cmd/tailrace compare the responses, with a real server.
func TestEveryRouteIsDocumented(t *testing.T) {
	routes := newEnv(t, envConfig{}).edge.Routes()
	slices.Sort(routes)
	if documented := openapitest.Load(t).Operations("edge"); !slices.Equal(routes, documented) {
		t.Errorf("the edge has\n%q, the document\n%q", routes, documented)
	}
}
