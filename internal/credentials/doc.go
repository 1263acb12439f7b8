// Package credentials serves the routes that turn one credential into another one.
//
//	POST   /v1/tokens          mints a session token for a user, with a credential that has the right admin
//	POST   /v1/session-cookie  sets a cookie with the bearer token of the request, for EventSource and pages of the same origin
//	DELETE /v1/session-cookie  removes the cookie
//	POST   /v1/tickets         issues a ticket for one stream of one session, for pages that can neither send a header nor have the cookie
//
// None of them allows more, or longer, than the credential of the request. Responses with a credential must not be cached, and nothing of a credential is logged
// but token ids.
//
//	_, err := credentials.New(edge, credentials.Config{Minter: minter, Verify: chain.Verify, Cookies: true, Tickets: tickets})
package credentials
