// Package httpedge is the HTTP edge of a log: sessions as server-sent events, as snapshots and as pages of messages.
//
//	GET /v1/sessions/{id}/events     the native event stream; package codec/helix
//	GET /v1/events?session=a&session=b   several sessions on one connection
//	GET /v1/sessions/{id}/snapshot   the state of a session, now or at a sequence
//	GET /v1/sessions/{id}/messages   finished messages, in pages
//	GET /v1/sessions/{id}/tree       its sub-agents
//	GET /v1/sessions                 the sessions, if Config.Sessions is set
//	DELETE /v1/sessions/{id}         deletes a session, if Config.Eraser is set
//	DELETE /v1/tokens/{id}           revokes a token, if Config.Revoker is set
//	DELETE /v1/subjects/{id}/tokens  revokes all credentials of a subject, if Config.Revoker is set
//	GET /healthz                     the process responds
//
// The caller provides the log and the snapshots, and runs the Edge:
//
//	edge, err := httpedge.New(log, snapshots, httpedge.Config{})
//	go edge.Run(ctx)
//	handler, err := httpkit.CORS([]string{"https://app.example"}, edge)
//	server := httpkit.NewServer(httpkit.ServerConfig{}, handler)
//	listener, err := httpkit.Listen(ctx, ":8080", 0) // detects hosts that disappear
//	go server.Serve(listener)
//	…
//	server.SetKeepAlivesEnabled(false) // HTTP/2 clients must not reconnect on the same connection
//	edge.Drain(ctx)                    // not ready (Edge.Status), no new streams, then the open ones close one by one
//	server.Shutdown(ctx)               // does not wait, because no stream is open
//
// Internal packages chat and agentserver add further paths to an Edge. Probes of readiness belong on a listener of their own, because clients may use all connections
// of this one; Edge.Status has the facts.
//
// # Guarantees for clients
//
// The events of the successive connections of a client concatenate to the log from its first position, or one truncated event reports that they do not, why,
// and the sequence from which the same response continues. A response ends cleanly only after the last record of a session that is complete; a reconnect
// there gets 204. In every other case the connection is aborted, because a client would take a clean end for the complete response. (HTTP/1.0 does not
// distinguish the two: a proxy in front of an edge must use 1.1. In the native event stream the end event does.)
//
// # EventSource
//
// To an EventSource every status but 200 is final. So if the edge cannot accept a stream at present, because it drains, the log is unavailable or a limit is
// reached, an EventSource gets 200 with a retry time, and the connection is aborted; other clients get 503 with Retry-After and a code. Final are 204, 400,
// 404 and 406.
package httpedge
