package httpkit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/tailrace/tailrace/auth"
)

// Rate bounds requests: Burst of them may come at once, and PerSecond in the long run. The zero Rate is the default of the field.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Unlimited is a Rate without a limit, also where the default has one.
var Unlimited = Rate{PerSecond: math.Inf(1), Burst: 1}

// Validate returns an error for a Rate that admits no request, or less than one per day.
func (r Rate) Validate() error {
	switch {
	case r.isUnlimited():
		return nil
	case r.Burst < 1 || !(r.PerSecond >= 1.0/86400) || math.IsInf(r.PerSecond, 0): // not with NaN
		return errors.New("want a burst of at least 1 and at least one request per day")
	}
	return nil
}

// isUnlimited reports whether no request is counted.
func (r Rate) isUnlimited() bool { return r == (Rate{}) || r == Unlimited }

// Rates bound the requests to one edge that open no stream: unsafe methods, reads of pages, and HEAD. A stream that a POST opens counts as the POST. Streams have
// places instead, see Limits. A request over a rate gets 429 with Retry-After.
type Rates struct {
	// Address bounds the requests of one client address (of IPv6 the first 64 bits), also those without a valid credential, so that credentials cannot be tried
	// quickly. The requests for streams that are refused (401, 403 and 404) or end within a second have the same rate, and are counted apart. The zero Rate is 100 per second with a burst of 1,000 for public addresses, enough for a company that shares one, and no limit for loopback and
	// private ones, which are more often those of a proxy that TrustedProxies does not name. A Rate that is given holds for all addresses; Unlimited is none.
	Address Rate

	// Subject bounds the requests of one subject of a tenant, and Tenant those of all subjects of a tenant together. nil is no limit. They are called for each
	// request.
	Subject, Tenant func(tenant string) Rate
}

var publicAddresses = Rate{PerSecond: 100, Burst: 1000}

func (r Rates) address(a netip.Addr) Rate {
	switch {
	case r.Address != (Rate{}):
		return r.Address
	case exempt(a):
		return Rate{}
	default:
		return publicAddresses
	}
}

// rateKey is whose requests a bucket counts: an address, a tenant, or a subject of a tenant.
type rateKey struct {
	address         netip.Addr
	briefStreams    bool // only the requests of the address for streams that were refused or ended at once
	tenant, subject string
}

// maxBuckets bounds the buckets of a RateLimiter; with their keys they take about 420 bytes each. Subjects are at most 255 bytes.
const maxBuckets = 1 << 17

// RateLimiter counts requests against Rates. All surfaces of an edge share one. It may be used by many goroutines. The nil *RateLimiter admits all requests.
//
// Each address, subject and tenant has a token bucket. A bucket without requests for the time in which it fills up is full, as a new one is, and is
// removed when it is the one that was not used for the longest time. It is removed earlier when there are maxBuckets. Then some buckets are full too
// early, which only helps a client with more addresses or subjects than that.
type RateLimiter struct {
	rates   Rates
	proxies []netip.Prefix
	refused *prometheus.CounterVec

	mu      sync.Mutex // guards buckets, and fullAt of each
	buckets *simplelru.LRU[rateKey, *bucket]
}

type bucket struct {
	*rate.Limiter

	fullAt time.Time // at the latest
}

// NewRateLimiter returns a RateLimiter. proxies are the addresses whose X-Forwarded-For is trusted. The error names the invalid Rate.
func NewRateLimiter(rates Rates, proxies []netip.Prefix) (*RateLimiter, error) {
	if err := rates.Address.Validate(); err != nil {
		return nil, fmt.Errorf("Rates.Address: %w", err)
	}
	refused := Counters("edge_requests_refused_total", "limit", "Requests that were refused because an address, a subject or a tenant makes too many.",
		[]string{AddressRate.Label(), SubjectRate.Label(), TenantRate.Label()})
	buckets, err := simplelru.NewLRU[rateKey, *bucket](maxBuckets, nil)
	return &RateLimiter{rates: rates, proxies: proxies, refused: refused, buckets: buckets}, err
}

// Metrics returns the counter of refused requests, which the caller registers.
func (l *RateLimiter) Metrics() prometheus.Collector { return l.refused }

// The problems of rates.
var (
	AddressRate = rateProblem(CodeAddressRate, "this address makes too many requests")
	SubjectRate = rateProblem(CodeSubjectRate, "this user makes too many requests")
	TenantRate  = rateProblem(CodeTenantRate, "the tenant makes too many requests")
)

func rateProblem(code, title string) *Problem {
	return NewProblem(http.StatusTooManyRequests, code, title, "retry later")
}

// admitAddress counts a request of a client address, before its credential is verified. It returns nil, or the problem of a client over its rate. A request
// that is not rated, for a stream, is not counted; it gets the problem after too many others that were refused, see countRefused.
func (l *RateLimiter) admitAddress(r *http.Request, rated bool) *Problem {
	if l == nil {
		return nil
	}
	a := clientAddress(r, l.proxies)
	if !a.IsValid() {
		return nil
	}
	if !rated {
		return l.admit(rateKey{address: a, briefStreams: true}, l.rates.address(a), AddressRate, l.look)
	}
	return l.admit(rateKey{address: a}, l.rates.address(a), AddressRate, l.take)
}

// named returns the request with the public address of its client for ClientOf.
func (l *RateLimiter) named(r *http.Request) *http.Request {
	if l == nil {
		return r
	}
	a := clientAddress(r, l.proxies)
	if !a.IsValid() || exempt(a) {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), addressKey{}, a))
}

// briefStream is the time within which the end of a stream is that of a request which has opened none.
const briefStream = time.Second

// countBrief counts a request for a stream that was refused, or ended at once, such as one with 204. The others do not count: many clients may share an address.
func (l *RateLimiter) countBrief(r *http.Request) {
	if l == nil {
		return
	}
	a := clientAddress(r, l.proxies)
	if limit := l.rates.address(a); a.IsValid() && !limit.isUnlimited() {
		l.take(rateKey{address: a, briefStreams: true}, limit, time.Now())
	}
}

// admitGrant counts a request of a client whose credential was verified. The subject is asked first: what is refused there does not use up the rate of the
// tenant, so that one user cannot have the others refused.
func (l *RateLimiter) admitGrant(g *auth.Grant) *Problem {
	if l == nil {
		return nil
	}
	if l.rates.Subject != nil {
		if p := l.admit(rateKey{tenant: g.Tenant, subject: g.Subject}, l.rates.Subject(g.Tenant), SubjectRate, l.take); p != nil {
			return p
		}
	}
	if l.rates.Tenant != nil {
		return l.admit(rateKey{tenant: g.Tenant}, l.rates.Tenant(g.Tenant), TenantRate, l.take)
	}
	return nil
}

// admit takes a token with take, or only looks for one with look.
func (l *RateLimiter) admit(key rateKey, limit Rate, refusal *Problem, take func(rateKey, Rate, time.Time) time.Duration) *Problem {
	if limit.isUnlimited() {
		return nil
	}
	wait := take(key, limit, time.Now())
	if wait == 0 {
		return nil
	}
	l.refused.WithLabelValues(refusal.Label()).Inc()
	p := *refusal
	// Without the random part all requests of one page would be repeated at the same time.
	p.RetryAfter = wait + rand.N(max(time.Second, wait/2))
	return &p
}

// take takes a token from the bucket of a key. Without one, it returns the time until there is one, more than 0.
func (l *RateLimiter) take(key rateKey, limit Rate, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(key, limit, now)
	if b.AllowN(now, 1) {
		return 0
	}
	// Not by a reservation that is canceled: two at the same time would use up a token.
	return untilToken(b, limit, now)
}

// look returns the time until there is a token in the bucket of a key, 0 if there is one. It makes no bucket: an address that is only looked for takes no memory.
func (l *RateLimiter) look(key rateKey, limit Rate, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.buckets.Peek(key)
	if !ok || b.TokensAt(now) >= 1 {
		return 0
	}
	return untilToken(b, limit, now)
}

// untilToken returns the time until a bucket without a token has one, more than 0.
func untilToken(b *bucket, limit Rate, now time.Time) time.Duration {
	missing := (1 - b.TokensAt(now)) / limit.PerSecond
	return max(time.Duration(missing*float64(time.Second)), time.Nanosecond)
}

// bucket returns the bucket of a key, a full one if it has none.
func (l *RateLimiter) bucket(key rateKey, limit Rate, now time.Time) *bucket {
	b, _ := l.buckets.Get(key)
	if b == nil {
		b = &bucket{Limiter: rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)}
		l.buckets.Add(key, b)
	}
	b.fullAt = now.Add(time.Duration(min(float64(limit.Burst)/limit.PerSecond*float64(time.Second), 1<<62))) // a longer Duration would be negative
	for {
		_, oldest, _ := l.buckets.GetOldest()
		if now.Before(oldest.fullAt) || oldest == b {
			return b
		}
		l.buckets.RemoveOldest()
	}
}
