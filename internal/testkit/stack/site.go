package stack

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Site is an edge on a loopback address.
type Site struct {
	*httptest.Server

	stop func()
}

// Serve serves a handler, and runs the component behind it, until the test ends or the site is stopped. An error of the component fails the test.
func (s *Stack) Serve(h http.Handler, run func(context.Context) error) *Site {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	site := &Site{Server: httptest.NewServer(h)}
	site.stop = sync.OnceFunc(func() {
		site.CloseClientConnections()
		site.Close()
		cancel()
		running.Wait()
	})
	s.t.Cleanup(site.Stop)
	return site
}

// Stop closes the connections of the clients and waits for the return of the component.
func (s *Site) Stop() { s.stop() }
