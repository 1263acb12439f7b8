// Package httpkit holds what the HTTP surfaces of an edge share: the router with its policies, problems, request bodies, limits of open streams,
// draining, request metrics, and the server with TLS and CORS.
//
// A surface is a list of routes:
//
//	router, err := httpkit.NewRouter([]httpkit.Route{
//		{Name: "events", Method: http.MethodGet, Path: "/v1/sessions/{id}/events", Scope: auth.ScopeRead, Serve: s.events},
//	}, httpkit.Options{Authenticator: authenticator, Respond: &httpkit.Responder{Log: log}})
//
// The router authenticates each request once and puts the Grant into its context. A session comes from the Grant and the id in the request, see package access, and
// from nothing else.
//
// A handler returns a *Problem or writes the response itself. Everything else in a refusal is fixed here: the form, the headers, Retry-After.
package httpkit
