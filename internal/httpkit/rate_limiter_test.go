package httpkit

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// named is an Authenticator that believes the header User: "tenant/subject".
type named struct{}

func (named) Authenticate(r *http.Request) (*auth.Grant, error) {
	var g auth.Grant
	if n, _ := fmt.Sscanf(r.Header.Get("User"), "%s %s", &g.Tenant, &g.Subject); n < 2 {
		return nil, auth.ErrNoCredential
	}
	g.Scopes = auth.AllScopes
	return &g, nil
}

// rated is a router with rates.
type rated struct {
	*Router

	t *testing.T
}

//tailrace:bubble
func serveLong(http.ResponseWriter, *http.Request, string) *Problem {
	time.Sleep(2 * briefStream)
	return nil
}

func newRated(t *testing.T, rates Rates) rated {
	t.Helper()
	limiter, err := NewRateLimiter(rates, nil)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(http.ResponseWriter, *http.Request, string) *Problem { return nil }
	rr, err := NewRouter([]Route{
		{Name: "page", Method: http.MethodGet, Path: "/page", Scope: auth.ScopeRead, Serve: serve},
		{Name: "post", Method: http.MethodPost, Path: "/post", Scope: auth.ScopeChat, Serve: serve},
		{Name: "stream", Method: http.MethodGet, Path: "/stream", Scope: auth.ScopeRead, Stream: true, Serve: serve},
		{Name: "long", Method: http.MethodGet, Path: "/long", Scope: auth.ScopeRead, Stream: true, Serve: serveLong},
		{Name: "health", Method: http.MethodGet, Path: "/health", Public: true, Serve: serve},
		{Name: "missing", Method: http.MethodGet, Path: "/missing", Scope: auth.ScopeRead, Stream: true, Serve: func(http.ResponseWriter, *http.Request, string) *Problem { return NotFound }},
		{Name: "busy", Method: http.MethodGet, Path: "/busy", Scope: auth.ScopeRead, Stream: true, Serve: func(http.ResponseWriter, *http.Request, string) *Problem { return EdgeLimit }},
	}, Options{Head: true, Authenticator: named{}, Rates: limiter, Respond: &Responder{Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	return rated{rr, t}
}

// send returns the status, and the seconds of Retry-After.
func (rr rated) send(method, path, user, address string) (status, retryAfter int) {
	rr.t.Helper()
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 40000).String()
	r.Header.Set("User", user)
	rr.ServeHTTP(w, r)
	if text := w.Header().Get("Retry-After"); text != "" {
		var err error
		if retryAfter, err = strconv.Atoi(text); err != nil || retryAfter < 1 {
			rr.t.Errorf("Retry-After %q", text)
		}
	}
	if (w.Code == http.StatusTooManyRequests) != (retryAfter > 0) {
		text, err := io.ReadAll(w.Body)
		rr.t.Errorf("%d with Retry-After %d: %s %v", w.Code, retryAfter, text, err)
	}
	return w.Code, retryAfter
}

func of(r Rate) func(string) Rate { return func(string) Rate { return r } }

const public1, public2, private = "198.51.100.1", "198.51.100.2", "10.0.0.1"

// Each limit counts the requests of its own key, for pages and POSTs together, and not those of streams and of public routes. A client that waits for Retry-After
// is admitted.
func TestRates(t *testing.T) {
	for _, tt := range []struct {
		name                           string
		rates                          Rates
		first, refused, admitted, from string // users; the addresses of the first two and of the third
		second                         string
	}{
		{"address", Rates{Address: Rate{2, 3}}, "acme ann", "acme bob", "acme ann", public1, public2},
		{"private address", Rates{Address: Rate{2, 3}}, "acme ann", "acme bob", "acme ann", private, public2},
		{"subject", Rates{Subject: of(Rate{2, 3})}, "acme ann", "acme ann", "acme bob", public1, public1},
		{"subject of another tenant", Rates{Subject: of(Rate{2, 3})}, "acme ann", "acme ann", "globex ann", public1, public1},
		{"tenant", Rates{Tenant: of(Rate{2, 3})}, "acme ann", "acme bob", "globex ann", public1, public1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rr := newRated(t, tt.rates)
				for i, request := range [][2]string{{"GET", "/page"}, {"POST", "/post"}, {"GET", "/page"}} {
					if status, _ := rr.send(request[0], request[1], tt.first, tt.from); status != http.StatusOK {
						t.Fatalf("request %d: %d", i, status)
					}
				}
				status, retry := rr.send("POST", "/post", tt.refused, tt.from)
				if status != http.StatusTooManyRequests {
					t.Fatalf("after the burst: %d", status)
				}
				for _, request := range [][2]string{{"GET", "/stream"}, {"GET", "/health"}} {
					if status, _ := rr.send(request[0], request[1], tt.refused, tt.from); status != http.StatusOK {
						t.Errorf("%s: %d", request[1], status)
					}
				}
				if status, _ := rr.send("GET", "/page", tt.admitted, tt.second); status != http.StatusOK {
					t.Errorf("another one: %d", status)
				}
				time.Sleep(time.Duration(retry) * time.Second)
				if status, _ := rr.send("POST", "/post", tt.refused, tt.from); status != http.StatusOK {
					t.Errorf("after Retry-After: %d", status)
				}
			})
		})
	}
}

// Addresses without a rate of their own are limited if they are public.
func TestRatesOfAddressesByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rr := newRated(t, Rates{})
		for address, want := range map[string]int{public1: http.StatusTooManyRequests, private: http.StatusOK, "127.0.0.1": http.StatusOK, "2001:db8::1": http.StatusTooManyRequests} {
			for range publicAddresses.Burst {
				if status, _ := rr.send("GET", "/page", "acme ann", address); status != http.StatusOK {
					t.Fatalf("%s: %d", address, status)
				}
			}
			if status, _ := rr.send("GET", "/page", "acme ann", address); status != want {
				t.Errorf("%s: %d, want %d", address, status, want)
			}
		}
		unlimited := newRated(t, Rates{Address: Unlimited, Subject: of(Unlimited)})
		for range 2 * publicAddresses.Burst {
			if status, _ := unlimited.send("GET", "/page", "acme ann", public1); status != http.StatusOK {
				t.Fatalf("unlimited: %d", status)
			}
		}
		if status, _ := rr.send("GET", "/page", "acme ann", "2001:db8::2"); status != http.StatusTooManyRequests {
			t.Errorf("an address of the same network: %d", status)
		}
	})
}

// Requests without a credential count for the address: it gets 401 until it is over its rate. One user that is over its rate does not use up that of its tenant.
func TestRefusedRequestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rr := newRated(t, Rates{Address: Rate{1, 5}})
		for range 5 {
			if status, _ := rr.send("POST", "/post", "", public1); status != http.StatusUnauthorized {
				t.Fatal(status)
			}
		}
		if status, _ := rr.send("POST", "/post", "acme ann", public1); status != http.StatusTooManyRequests {
			t.Errorf("after five attempts: %d", status)
		}
		rr = newRated(t, Rates{Subject: of(Rate{1, 3}), Tenant: of(Rate{1, 6})})
		for range 100 {
			rr.send("POST", "/post", "acme ann", public1)
		}
		for range 3 {
			if status, _ := rr.send("POST", "/post", "acme bob", public1); status != http.StatusOK {
				t.Errorf("another user of the tenant: %d", status)
			}
		}
	})
}

// The requests for streams that are refused or end at once have the rate of the address: credentials, tickets and ids cannot be tried quickly, nor a log read
// again and again. Other streams do not count, and the requests of the address for other routes do not count for its streams.
func TestBriefStreamsCount(t *testing.T) {
	for name, brief := range map[string]struct {
		path, user string
		status     int
	}{
		"no credential":      {"/stream", "", http.StatusUnauthorized},
		"ends at once":       {"/stream", "acme ann", http.StatusOK},
		"an unknown session": {"/missing", "acme ann", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rr := newRated(t, Rates{Address: Rate{1, 5}})
				for range 20 {
					if status, _ := rr.send("GET", "/long", "acme ann", public1); status != http.StatusOK {
						t.Fatalf("a stream: %d", status)
					}
					r := httptest.NewRequest(http.MethodGet, "/busy", nil)
					r.RemoteAddr = public1 + ":40000"
					r.Header.Set("User", "acme ann")
					w := httptest.NewRecorder()
					if rr.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
						t.Fatalf("a stream that finds no place: %d", w.Code)
					}
				}
				for range 5 {
					if status, _ := rr.send("GET", brief.path, brief.user, public1); status != brief.status {
						t.Fatalf("before the limit: %d", status)
					}
				}
				status, retry := rr.send("GET", "/long", "acme ann", public1)
				if status != http.StatusTooManyRequests {
					t.Errorf("after five brief requests: %d", status)
				}
				if status, _ := rr.send("GET", "/long", "acme ann", public2); status != http.StatusOK {
					t.Errorf("another address: %d", status)
				}
				if status, _ := rr.send("POST", "/post", "acme ann", public1); status != http.StatusOK {
					t.Errorf("another route: %d", status)
				}
				time.Sleep(time.Duration(retry) * time.Second)
				if status, _ := rr.send("GET", "/long", "acme ann", public1); status != http.StatusOK {
					t.Errorf("after Retry-After: %d", status)
				}
				for range 10 {
					rr.send("POST", "/post", "acme ann", public1)
				}
				if status, _ := rr.send("GET", "/long", "acme ann", public1); status != http.StatusOK {
					t.Errorf("a stream of an address with too many requests of another kind: %d", status)
				}
			})
		})
	}
}

// HEAD opens no stream and takes no place, so it has a rate.
func TestHeadOfStreamIsRated(t *testing.T) {
	rr := newRated(t, Rates{Address: Rate{1e-4, 1}})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, _ := rr.send("HEAD", "/stream", "acme ann", public1); status != want {
			t.Errorf("%d, want %d", status, want)
		}
	}
}

// A bucket that takes longer to fill than a Duration can be is kept.
func TestRateWithHugeBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := NewRateLimiter(Rates{Subject: of(Rate{PerSecond: 1.0 / 86400, Burst: 150_000})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		admitted := 0
		for range 150_010 {
			if limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: "greedy"}) == nil {
				admitted++
			}
			for n := range 2 {
				time.Sleep(time.Microsecond)
				limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: strconv.Itoa(n)})
			}
		}
		if admitted != 150_000 {
			t.Errorf("%d admitted", admitted)
		}
	})
}

// A request that another router has identified, and counted, is handed on with its Grant.
func TestRequestsThatAreHandedOnCountOnce(t *testing.T) {
	rr := newRated(t, Rates{Address: Rate{1e-4, 1}, Subject: of(Rate{1e-4, 1})})
	for range 3 {
		r, w := httptest.NewRequest(http.MethodGet, "/page", nil), httptest.NewRecorder()
		r = r.WithContext(authn.NewContext(r.Context(), &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes}))
		if rr.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
	}
}

// In every interval a client gets at most the burst and what the rate gives in that time, whatever else happens: the generations of buckets change, by time and by
// the number of other clients. And a client that keeps to the rate is never refused.
func TestRateHolds(t *testing.T) {
	const seed = 8
	limit := Rate{PerSecond: 10, Burst: 20}
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		limiter, err := NewRateLimiter(Rates{Subject: of(limit)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		admitted := func(subject string) bool {
			return limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: subject}) == nil
		}
		var times []time.Time
		began := time.Now()
		for i := range 20_000 {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)))
			if i%5000 == 4999 {
				time.Sleep(time.Minute)
			}
			if admitted("greedy") {
				times = append(times, time.Now())
			}
			admitted("s" + strconv.Itoa(random.IntN(1000)))
		}
		for i := range times {
			for _, n := range []int{1, 20, 100, 1000} {
				if j := i + n; j < len(times) {
					if may := float64(limit.Burst) + limit.PerSecond*times[j].Sub(times[i]).Seconds(); float64(n+1) > may+1e-6 {
						t.Fatalf("seed %d: %d requests in %s, want at most %.1f", seed, n+1, times[j].Sub(times[i]), may)
					}
				}
			}
		}
		if most := limit.PerSecond * time.Since(began).Seconds() / 2; len(times) < int(most/2) {
			t.Errorf("only %d requests", len(times))
		}
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			if !admitted("steady") {
				t.Fatal("a client that keeps to the rate is refused")
			}
		}
	})
}

// The number of buckets is bounded, and a client that is over its rate stays so while others come and go.
func TestRateLimiterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := NewRateLimiter(Rates{Subject: of(Rate{1, 2})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 2 * maxBuckets {
			limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: strconv.Itoa(i)})
			if i%1000 == 0 && i > 5000 && limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: "greedy"}) == nil && i > 8000 {
				t.Fatalf("a client over its rate is admitted after %d others", i)
			}
			most = max(most, limiter.buckets.Len())
		}
		if most != maxBuckets {
			t.Errorf("%d buckets, want at most %d", most, maxBuckets)
		}
		time.Sleep(time.Minute)
		for range 2 {
			limiter.admitGrant(&auth.Grant{Tenant: "acme", Subject: "last"})
			time.Sleep(time.Minute)
		}
		if n := limiter.buckets.Len(); n > 1 {
			t.Errorf("%d buckets of clients that have not come for minutes", n)
		}
	})
}

func TestRateValidate(t *testing.T) {
	for _, r := range []Rate{{}, Unlimited, {1, 1}, {0.001, 1}, {1e6, 1 << 20}} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for _, r := range []Rate{{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {1e-9, 1}} {
		if r.Validate() == nil {
			t.Errorf("%+v is valid", r)
		}
		if _, err := NewRateLimiter(Rates{Address: r}, nil); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

// BenchmarkRate is the cost of an admitted request: all three rates.
func BenchmarkRate(b *testing.B) {
	limiter, err := NewRateLimiter(Rates{Address: Rate{1e9, 1 << 30}, Subject: of(Rate{1e9, 1 << 30}), Tenant: of(Rate{1e9, 1 << 30})}, nil)
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/page", nil)
	g := &auth.Grant{Tenant: "acme", Subject: "ann"}
	b.ReportAllocs()
	for b.Loop() {
		if limiter.admitAddress(r, true) != nil || limiter.admitGrant(g) != nil {
			b.Fatal("refused")
		}
	}
}
