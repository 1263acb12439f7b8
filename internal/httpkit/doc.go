// Package httpkit holds what the HTTP surfaces of an edge share: the router with its policies, problems, request bodies, limits of open streams,
// draining, request metrics, and the server with TLS and CORS.
//
// A surface is a list of routes:
//
//	router, err := httpkit.NewRouter([]httpkit.Route{
//		{Name: "events", Method: http.MethodGet, Path: "/v1/sessions/{id}/events", Scope: httpkit.ScopeRead, Serve: s.events},
//	}, httpkit.Options{Respond: &httpkit.Responder{Log: log}})
//
// A handler returns a *Problem or writes the response itself. Everything else in a refusal is fixed here: the form, the headers, Retry-After.
package httpkit
