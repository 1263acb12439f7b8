// Package sseedge is the HTTP front of a log: sessions as server-sent events,
// as snapshots and as pages of messages.
//
//	GET /v1/sessions/{id}/events     the native wire; package native
//	GET /v1/events?session=a&session=b   several of them on one connection
//	GET /v1/sessions/{id}/snapshot   what a page starts from, now or at a moment
//	GET /v1/sessions/{id}/messages   finished messages, page by page
//	GET /v1/sessions/{id}/tree       its sub-agents
//	GET /v1/sessions                 which there are, if Config.Directory knows
//	DELETE /v1/sessions/{id}         if there is a Config.Eraser
//	GET /healthz, /readyz            the process; the process and what it needs
//
// You hold a hub.Hub, whose Run is yours, and something that knows snapshots:
//
//	edge, err := sseedge.New(h, snapshots, sseedge.Config{})
//	handler, err := sseedge.CORS([]string{"https://app.example"}, edge)
//	server := sseedge.NewServer(sseedge.ServerConfig{}, handler)
//	listener, err := sseedge.Listen(ctx, ":8080", 0) // notices hosts that vanish
//	go server.Serve(listener)
//	…
//	server.SetKeepAlivesEnabled(false) // HTTP/2 clients do not come back on the same connection
//	edge.Drain(ctx)                    // not ready, nobody new, then everybody out, one by one
//	server.Shutdown(ctx)               // nothing is left that it would wait for
//
// # What a client can rely on
//
// The concatenation of all its connections is the log from where it began, or
// one truncated event says that it is not, why, and from where the same response
// goes on. A response ends cleanly only behind the last word of a session that
// is complete; a reconnect there is answered with 204. Every other end is an
// aborted connection, because a clean one would be taken for the whole answer.
// (HTTP/1.0 cannot tell the two apart: a proxy in front of an edge must speak 1.1.
// On the native wire the end event tells, whatever lies between.)
//
// # What an EventSource is told
//
// To an EventSource every status but 200 is final. So when the edge cannot take
// it at present, because it drains, the log cannot be asked or there are as many
// streams as Limits allow, an EventSource gets 200 with a retry time and is cut;
// everybody else gets 503 with Retry-After and a code that says which it was.
// What is final is told as it is: 204, 400, 404, 406.
package sseedge
