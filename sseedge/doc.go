// Package sseedge has what the HTTP server around the Handler of a tailrace.Tailrace needs: a server with the time limits of long streams, a listener that
// detects lost clients, limits of streams, and audience views.
//
//	listener, err := sseedge.Listen(ctx, ":4480", 0)
//	server := sseedge.NewServer(sseedge.ServerConfig{}, handler)
//	err = server.Serve(listener)
package sseedge
