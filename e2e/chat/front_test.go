//go:build e2e

package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
)

// front is the HTTP server of the browser: the built files, and a proxy to the
// first edge that accepts a connection. It counts requests and cuts connections on
// request.
type front struct {
	url   string
	addrs []string

	mu    sync.Mutex // guards the fields below
	posts []post
	gets  int            // number of GETs of streams
	open  map[int]func() // functions that cut the open streams
	last  int
	cuts  []int         // numbers of bytes after which the next streams are cut
	held  chan struct{} // reconnects wait until it is closed, if not nil

	backend []string // paths of the requests to the backend of the app
}

// post is a POST to /api/chat.
type post struct {
	Trigger string `json:"trigger"`
}

// newFront serves an app. login is the address of its backend, "" for none.
func (w *env) newFront(t *testing.T, app, login string) *front {
	t.Helper()
	f := &front{open: make(map[int]func())}
	for _, e := range w.edges {
		f.addrs = append(f.addrs, e.addr)
	}
	transport := &http.Transport{DisableKeepAlives: true} // so that a dead edge is detected
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "edge"
			r.Out.Host = r.In.Host
		},
		Transport:      firstAvailable{transport, f.addrs},
		FlushInterval:  -1,
		ModifyResponse: f.watch,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	mux := http.NewServeMux()
	mux.Handle("/", uncached(http.FileServer(http.Dir(app))))
	mux.Handle("/api/", f.count(proxy))
	mux.Handle("/v1/", proxy)
	if login != "" {
		backend := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", login, r.In.Host
			f.mu.Lock()
			defer f.mu.Unlock()
			f.backend = append(f.backend, r.In.URL.Path)
		}, Transport: transport}
		mux.Handle("/login", backend)
		mux.Handle("/token", backend)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log every cut
	server.Start()
	f.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return f
}

// uncached keeps the files out of the cache of the browser, which all scenarios share: a later server may get the port of an earlier one with another app, whose
// index.html the browser would show, although its scripts are gone.
func uncached(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		files.ServeHTTP(w, r)
	})
}

// firstAvailable sends a request to the first address that accepts a
// connection.
type firstAvailable struct {
	transport *http.Transport
	addrs     []string
}

func (f firstAvailable) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	var last error
	for _, addr := range f.addrs {
		try := r.Clone(r.Context())
		try.URL.Host = addr
		if len(body) > 0 {
			try.Body = io.NopCloser(bytes.NewReader(body))
		}
		resp, err := f.transport.RoundTrip(try)
		if op, ok := errors.AsType[*net.OpError](err); err == nil || !ok || op.Op != "dial" {
			return resp, err
		}
		last = err
	}
	return nil, last
}

// count records the requests of a chat and makes its streams cuttable.
func (f *front) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isPost := r.Method == http.MethodPost && r.URL.Path == "/api/chat"
		if !isPost && !strings.HasSuffix(r.URL.Path, "/stream") {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if isPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler) // the browser has disconnected
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			f.notePost(body)
		}
		if !isPost {
			f.await(ctx)
		}
		key := f.enter(cancel, !isPost)
		defer f.leave(key)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// holdReconnects delays reconnects until the returned function is called.
func (f *front) holdReconnects() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make(chan struct{})
	f.held = held
	return func() { close(held) }
}

func (f *front) await(ctx context.Context) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held == nil {
		return
	}
	select {
	case <-held:
	case <-ctx.Done():
	}
}

func (f *front) notePost(body []byte) {
	var p post
	_ = json.Unmarshal(body, &p) // the edge rejects an invalid body
	f.mu.Lock()
	defer f.mu.Unlock()
	f.posts = append(f.posts, p)
}

func (f *front) enter(cut func(), isGet bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isGet {
		f.gets++
	}
	f.last++
	f.open[f.last] = cut
	return f.last
}

func (f *front) leave(key int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, key)
}

// cut breaks all open streams.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cut := range f.open {
		cut()
	}
}

// cutAfter breaks each of the next streams after the given number of bytes.
func (f *front) cutAfter(bytes ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts = append(f.cuts, bytes...)
}

// requests returns the triggers of the POSTs so far, and the number of GETs of a
// stream.
func (f *front) requests() (posts []string, gets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.posts {
		posts = append(posts, p.Trigger)
	}
	return posts, f.gets
}

// watch cuts a response if the next stream is to be cut.
func (f *front) watch(resp *http.Response) error {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.cuts) > 0 {
		resp.Body = &cutBody{ReadCloser: resp.Body, left: f.cuts[0]}
		f.cuts = f.cuts[1:]
	}
	return nil
}

// cutBody fails after a number of bytes.
type cutBody struct {
	io.ReadCloser

	left int
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
