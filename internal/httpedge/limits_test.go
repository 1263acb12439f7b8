package httpedge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
)

// newPeerEnv returns an env whose requests select their address: the header Peer is the address that the edge sees at the other end of the connection.
func newPeerEnv(t *testing.T, cfg httpedge.Config) *env {
	t.Helper()
	cfg.RetryDelay = 2 * time.Second
	w := newEnv(t, envConfig{edge: cfg})
	w.server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = r.Header.Get("Peer")
		w.edge.ServeHTTP(rw, r)
	})
	return w
}

func from(peer string, forwarded ...string) http.Header {
	return http.Header{"Peer": {peer}, "X-Forwarded-For": forwarded}
}

const alice, bob = "198.51.100.1:1111", "198.51.100.2:2222"

// Each limit rejects the stream that exceeds it, with a code of its own, and an EventSource in the form that it understands. A released stream can be opened
// again.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits httpkit.Limits
		code   string
		third  string // session of the stream that exceeds the limit
		peer   string // client that opens it
		spared string // a session of which bob can still open a stream
	}{
		{"in all", httpkit.Limits{Streams: 2}, "TOO_MANY_STREAMS", "s2", bob, ""},
		{"per tenant", httpkit.Limits{PerTenant: 2}, "TOO_MANY_STREAMS_OF_TENANT", "s2", bob, ""},
		{"per address", httpkit.Limits{PerAddress: 2}, "TOO_MANY_STREAMS_OF_ADDRESS", "s2", alice, "s1"},
		{"per session", httpkit.Limits{PerSession: 2}, "TOO_MANY_STREAMS_OF_SESSION", "s1", bob, "s2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPeerEnv(t, httpedge.Config{Limits: tt.limits})
				w.log.Append(s1, chunk.TypeRunStarted, "")
				w.log.Append(chunk.RootSession("default", "s2"), chunk.TypeRunStarted, "")
				first := w.get(t.Context(), "/v1/sessions/s1/events", from(alice))
				defer first.Body.Close()
				second := w.get(t.Context(), "/v1/sessions/s1/events", from(alice))
				if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK {
					t.Fatalf("got %d and %d", first.StatusCode, second.StatusCode)
				}
				path := "/v1/sessions/" + tt.third + "/events"
				checkFull(t, w, path, tt.peer, tt.code)
				if tt.spared != "" {
					open(t, w, "/v1/sessions/"+tt.spared+"/events", bob)()
				}
				second.Body.Close()
				synctest.Wait()
				open(t, w, path, tt.peer)()
			})
		})
	}
}

// An address with too many refused requests for streams opens no stream until later. An EventSource gets that in the form that it understands.
func TestRefusedStreamsOfAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPeerEnv(t, httpedge.Config{Rates: httpkit.Rates{Address: httpkit.Rate{PerSecond: 1, Burst: 3}}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		for range 3 {
			resp := w.get(soon(t), "/v1/sessions/unknown/events", from(alice))
			resp.Body.Close()
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("an unknown session: %d", resp.StatusCode)
			}
		}
		checkRejected(t, w, "/v1/sessions/s1/events", alice, http.StatusTooManyRequests, "TOO_MANY_REQUESTS_OF_ADDRESS")
		open(t, w, "/v1/sessions/s1/events", bob)()
		time.Sleep(3 * time.Second)
		open(t, w, "/v1/sessions/s1/events", alice)()
	})
}

// A refused request is in the audit log once, for a stream as for a page.
func TestRefusedStreamsAreAudited(t *testing.T) {
	log := audit.New(audit.Config{})
	w := newEnv(t, envConfig{edge: httpedge.Config{Audit: log}})
	for i, path := range []string{"/v1/sessions/unknown/snapshot", "/v1/sessions/unknown/events", "/v1/events?session=unknown"} {
		if code := w.record(http.MethodGet, path, nil).Code; code != http.StatusNotFound {
			t.Fatalf("%s: %d", path, code)
		}
		if n := log.Queued(); n != i+1 {
			t.Errorf("after %s: %d events, want %d", path, n, i+1)
		}
	}
}

// checkFull checks the rejection of a limit of streams, in both of its forms.
func checkFull(t *testing.T, w *env, path, peer, code string) {
	t.Helper()
	checkRejected(t, w, path, peer, http.StatusServiceUnavailable, code)
}

func checkRejected(t *testing.T, w *env, path, peer string, status int, code string) {
	t.Helper()
	resp := w.get(soon(t), path, from(peer))
	defer resp.Body.Close()
	var problem struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status || problem.Code != code || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a typed client: %d %s, %v", resp.StatusCode, problem.Code, resp.Header)
	}

	header := from(peer)
	header.Set("Accept", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	resp = w.get(soon(t), path, header)
	defer resp.Body.Close()
	var p parser
	if err := p.read(resp.Body); err == nil {
		t.Error("an EventSource: a clean end")
	}
	if resp.StatusCode != http.StatusOK || p.retry < 2000 || p.retry > 3000 || p.lastEventID != "" {
		t.Errorf("an EventSource: %d, retry %d", resp.StatusCode, p.retry)
	}
}

// open opens a stream, which must succeed, and returns the function that closes it; otherwise the cleanup closes it.
func open(t *testing.T, w *env, path, peer string) func() {
	t.Helper()
	resp := w.get(t.Context(), path, from(peer))
	closeIt := sync.OnceFunc(func() { resp.Body.Close() })
	t.Cleanup(closeIt)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s from %s: %d", path, peer, resp.StatusCode)
	}
	return closeIt
}

// A connection for several sessions is one stream, and a reader of each session.
func TestLimitsOfSeveralSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPeerEnv(t, httpedge.Config{Limits: httpkit.Limits{Streams: 2, PerAddress: 1, PerSession: 1}})
		for _, id := range []string{"s1", "s2", "s3"} {
			w.log.Append(chunk.RootSession("default", id), chunk.TypeRunStarted, "")
		}
		const both = "/v1/events?session=s1&session=s2"
		leave := open(t, w, both, alice)
		checkFull(t, w, "/v1/sessions/s2/events", bob, "TOO_MANY_STREAMS_OF_SESSION")
		checkFull(t, w, "/v1/events?session=s3&session=s1", bob, "TOO_MANY_STREAMS_OF_SESSION") // and does not count for s3
		open(t, w, "/v1/sessions/s3/events", bob)
		checkFull(t, w, both, "198.51.100.3:1", "TOO_MANY_STREAMS_OF_SESSION")
		leave()
		synctest.Wait()
		open(t, w, both, alice)
	})
}

// A stream that ends in any way, or fails to start, does not count towards the limits any more.
func TestEndedStreamsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPeerEnv(t, httpedge.Config{Limits: httpkit.Limits{Streams: 1, PerTenant: 1, PerAddress: 1, PerSession: 1}})
		const path = "/v1/sessions/s1/events"
		for _, tt := range []struct {
			name  string
			visit func()
		}{
			{"the client leaves", func() { open(t, w, path, alice)() }},
			{"the session is unknown", func() { w.get(t.Context(), "/v1/sessions/unknown/events", from(alice)).Body.Close() }},
			{"the log is unavailable", func() {
				w.log.FailWith(errUnavailable)
				w.get(t.Context(), path, from(alice)).Body.Close()
				w.log.FailWith(nil)
			}},
			{"the client does not read", func() {
				rawStream(t, w, path)
				for range 20 {
					w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
					time.Sleep(time.Second)
				}
			}},
			{"the session is complete", func() {
				w.log.Append(s1, chunk.TypeStreamEnd, "")
				for _, cursor := range []string{"0", fmt.Sprint(w.log.Session(s1)[len(w.log.Session(s1))-1].Seq)} {
					header := from(alice)
					header.Set("Last-Event-ID", cursor)
					resp := w.get(soon(t), path, header)
					readAll(t, resp.Body)
					resp.Body.Close()
					synctest.Wait()
				}
			}},
		} {
			w.log.Append(s1, chunk.TypeRunStarted, "")
			tt.visit()
			synctest.Wait()
			leave := open(t, w, path, bob)
			checkFull(t, w, path, bob, "TOO_MANY_STREAMS_OF_ADDRESS")
			leave()
			synctest.Wait()
			if t.Failed() {
				t.Fatalf("after: %s", tt.name)
			}
		}
	})
}

// Many clients connect and disconnect at the same time: there are never more streams than allowed, free streams can be opened, and at the end all of them are
// free.
func TestLimitsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, visits, addresses, sessions = 100, 8, 4, 5
		limits := httpkit.Limits{Streams: 25, PerAddress: 9, PerSession: 6}
		w := newPeerEnv(t, httpedge.Config{Limits: limits})
		for s := range sessions {
			w.log.Append(chunk.RootSession("default", fmt.Sprintf("s%d", s)), chunk.TypeRunStarted, "")
		}
		var (
			group          sync.WaitGroup
			all            atomic.Int64
			ofAddress      [addresses]atomic.Int64
			ofSession      [sessions]atomic.Int64
			served, turned atomic.Int64
		)
		visit := func(a, s int) {
			resp := w.get(t.Context(), fmt.Sprintf("/v1/sessions/s%d/events", s), from(fmt.Sprintf("198.51.100.%d:1", a)))
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				turned.Add(1)
				return
			}
			served.Add(1)
			// Counted while the response is open, so never ahead of the edge.
			if all.Add(1) > int64(limits.Streams) || ofAddress[a].Add(1) > int64(limits.PerAddress) || ofSession[s].Add(1) > int64(limits.PerSession) {
				t.Errorf("%d in all, %d of the address, %d of the session", all.Load(), ofAddress[a].Load(), ofSession[s].Load())
			}
			time.Sleep(time.Duration(a+s) * time.Millisecond)
			all.Add(-1)
			ofAddress[a].Add(-1)
			ofSession[s].Add(-1)
		}
		for i := range clients {
			group.Go(func() {
				for n := range visits {
					visit((i+n)%addresses, (i*n)%sessions)
				}
			})
		}
		group.Wait()
		synctest.Wait()
		if served.Load() < int64(limits.Streams) || turned.Load() == 0 {
			t.Errorf("%d served, %d turned away", served.Load(), turned.Load())
		}
		for i := range limits.Streams { // 25 are 7 of an address and 5 of a session
			open(t, w, fmt.Sprintf("/v1/sessions/s%d/events", i%sessions), fmt.Sprintf("198.51.100.%d:1", i%addresses))
		}
		checkFull(t, w, "/v1/sessions/s0/events", "198.51.100.99:1", "TOO_MANY_STREAMS")
	})
}

// TestClientAddress checks the client that a stream is attributed to: the address in a request header counts only behind a trusted proxy, and only as far as
// that proxy has seen it.
func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	const proxy = "10.0.0.1:4444"
	for _, tt := range []struct {
		name      string
		peer      string
		forwarded []string
		want      string // the peer of an equal client; "" if the client is not counted
	}{
		{"a client", alice, nil, alice},
		{"a client on another port", alice, nil, "198.51.100.1:9"},
		{"a client that claims to be another", alice, []string{"203.0.113.9"}, alice},
		{"a client that claims to be a proxy", alice, []string{"10.0.0.1"}, alice},
		{"behind a proxy", proxy, []string{"198.51.100.1"}, alice},
		{"behind a proxy, with a port", proxy, []string{"198.51.100.1:1234"}, alice},
		{"a lie before what the proxy saw", proxy, []string{"203.0.113.9, 198.51.100.1"}, alice},
		{"a lie in a line of its own", proxy, []string{"203.0.113.9", "198.51.100.1"}, alice},
		{"a trusted proxy in a forged header", proxy, []string{"10.0.0.7, 198.51.100.1"}, alice},
		{"behind two proxies", proxy, []string{"203.0.113.9, 198.51.100.1,10.9.9.9"}, alice},
		{"two proxies, two lines", proxy, []string{"198.51.100.1", "10.9.9.9"}, alice},
		{"a proxy as client", proxy, []string{"10.0.0.2"}, "10.0.0.2:1"},
		{"a proxy that says nothing", proxy, nil, proxy},
		{"a proxy that says an empty thing", proxy, []string{""}, proxy},
		{"a proxy that does not know", proxy, []string{"unknown"}, proxy},
		{"garbage before the client", proxy, []string{";;%%, 198.51.100.1"}, alice},
		{"garbage behind the client", proxy, []string{"198.51.100.1, _hidden"}, proxy},
		{"commas", proxy, []string{",,,"}, proxy},
		{"20 kB of lies", proxy, []string{strings.Repeat("1.2.3.4,", 2_500) + "198.51.100.1"}, alice},
		{"20 kB of our own proxies", proxy, []string{strings.Repeat("10.0.0.1,", 2_200) + "10.0.0.2"}, "10.0.0.1:1"},
		{"20 kB of one word", proxy, []string{strings.Repeat("1", 20_000)}, proxy},
		{"IPv4 as IPv6", "[::ffff:198.51.100.1]:1", nil, alice},
		{"a proxy as IPv6", "[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.1"}, alice},
		{"IPv6, the same 64 bits", "[2001:db8:1:2::1]:1", nil, "[2001:db8:1:2:ffff::9]:9"},
		{"IPv6 behind a proxy", "[fd00::1]:1", []string{"2001:db8:1:2:3::1"}, "[2001:db8:1:2::]:1"},
		{"IPv6 behind a proxy, with a port", proxy, []string{"[2001:db8:1:2:3::1]:80"}, "[2001:db8:1:2::]:1"},
		{"IPv6 in brackets", proxy, []string{"[2001:db8:1:2:3::1]"}, "[2001:db8:1:2::]:1"},
		{"a zone", "[fe80::1%eth0]:1", nil, "[fe80::1]:1"},
		{"zones as many clients", proxy, []string{"fe80::1%INJECTED"}, "[fe80::2]:1"},
		{"a proxy with a zone", "[fd00::1%eth0]:1", []string{"198.51.100.1"}, alice},
		{"a socket", "@", nil, ""},
		{"a socket that claims an address", "@", []string{"198.51.100.1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPeerEnv(t, httpedge.Config{Limits: httpkit.Limits{PerAddress: 1}, TrustedProxies: trusted})
				w.log.Append(s1, chunk.TypeRunStarted, "")
				const path = "/v1/sessions/s1/events"
				if tt.want != "" {
					defer open(t, w, path, tt.want)()
				}
				other := w.get(t.Context(), path, from("192.0.2.77:1"))
				defer other.Body.Close()
				resp := w.get(soon(t), path, from(tt.peer, tt.forwarded...))
				defer resp.Body.Close()
				full := resp.StatusCode == http.StatusServiceUnavailable
				if full != (tt.want != "") || other.StatusCode != http.StatusOK {
					t.Errorf("got %d, and %d for another client", resp.StatusCode, other.StatusCode)
				}
			})
		})
	}
}

// By default a company behind one address can open enough streams, one client cannot take all of them, and a proxy that is not configured does not count as one
// client.
func TestDefaultLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPeerEnv(t, httpedge.Config{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, tt := range []struct {
			peer    string
			allowed int // of the 1,001 attempts
		}{
			{alice, 1000}, {"10.1.2.3:1", 1001}, {"[::1]:1", 1001},
		} {
			served := 0
			for range 1001 {
				resp := w.get(ctx, "/v1/sessions/s1/events", from(tt.peer))
				t.Cleanup(func() { resp.Body.Close() })
				if resp.StatusCode == http.StatusOK {
					served++
				}
			}
			if served != tt.allowed {
				t.Errorf("%s: %d of 1001 served, want %d", tt.peer, served, tt.allowed)
			}
		}
	})
}

func TestTrustedProxiesArePrefixes(t *testing.T) {
	for _, prefix := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")} {
		w := newEnv(t, envConfig{tcp: true})
		_, err := httpedge.New(w.log, snapshotsOf{}, httpedge.Config{Authenticator: authtest.None(t, "default"), TrustedProxies: []netip.Prefix{prefix}})
		if err == nil || !strings.Contains(err.Error(), "TrustedProxies[0]") {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}
