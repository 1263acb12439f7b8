package httpkit

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Off as a field of Limits, or as the limit of a BodyLimiter, is unlimited.
const Off = -1

// Limits bound the event streams that are open at the same time on one edge, including those that still wait for the log. In every field 0 is the default
// and a negative number is unlimited. A stream of several sessions counts once, and once for each of its sessions.
//
// A client over a limit gets 503 with Retry-After and a code for each limit; an EventSource is asked to reconnect later. The status is not 429: that would
// blame the client, which may share its address with a whole company, and a proxy that gets 503 tries another edge.
type Limits struct {
	// Streams is the maximum in all. Defaults to 20,000, which is about 1 GiB of memory, most of it in net/http.
	Streams int

	// PerTenant is the maximum of all sessions of one tenant. Defaults to unlimited.
	PerTenant int

	// Tenants is the maximum of single tenants, instead of PerTenant.
	Tenants map[string]int

	// PerAddress is the maximum of one client address; of IPv6 the first 64 bits count, which is what one client has. Defaults to 1,000 for public
	// addresses, enough for a company that shares one, and to unlimited for loopback and private ones, which are more often those of a proxy that
	// TrustedProxies does not name. A number that is given holds for all addresses.
	PerAddress int

	// PerSession is the maximum of one session; a root and each of its sub-agents count separately. Defaults to 10,000, so that one popular session
	// does not take the whole edge.
	PerSession int
}

const (
	defaultStreams    = 20_000
	defaultPerAddress = 1_000
	defaultPerSession = 10_000
)

// StreamLimiter counts open streams against Limits. All surfaces of an edge share one, so that a client has no more streams of all kinds together than of
// one. It may be used by many goroutines; its lock is held for a few map operations when a stream opens and when it closes.
type StreamLimiter struct {
	limits  Limits
	proxies []netip.Prefix
	log     *slog.Logger

	mu         sync.Mutex // guards the fields below
	all        int
	tenants    map[string]int // no entry is 0, here and below
	addresses  map[netip.Addr]int
	sessions   map[chunk.Session]int
	lastLogged time.Time // when a rejection was last logged
}

// NewStreamLimiter returns a StreamLimiter. proxies are the addresses whose X-Forwarded-For is trusted. log may be nil.
func NewStreamLimiter(limits Limits, proxies []netip.Prefix, log *slog.Logger) *StreamLimiter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &StreamLimiter{
		limits: limits, proxies: proxies, log: log,
		tenants: make(map[string]int), addresses: make(map[netip.Addr]int), sessions: make(map[chunk.Session]int),
	}
}

// slot is what one stream takes.
type slot struct {
	address  netip.Addr // see clientAddress; the zero Addr is not counted
	sessions []chunk.Session
}

// Acquire takes a slot for a stream of sessions to the client of r, or returns the Problem of the limit that is reached. The sessions are of one tenant, at
// least one and each once. release must be called once.
func (l *StreamLimiter) Acquire(r *http.Request, sessions ...chunk.Session) (release func(), p *Problem) {
	s := slot{clientAddress(r, l.proxies), sessions}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.check(s); p != nil {
		l.logRejection(s, p)
		return nil, p
	}
	l.count(s, 1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count(s, -1)
	}, nil
}

// check begins with the narrowest limit: its code tells the client most.
func (l *StreamLimiter) check(s slot) *Problem {
	if s.address.IsValid() && isFull(l.addresses[s.address], l.limits.perAddress(s.address), defaultPerAddress) {
		return AddressLimit
	}
	for _, session := range s.sessions {
		if isFull(l.sessions[session], l.limits.PerSession, defaultPerSession) {
			return SessionLimit
		}
	}
	if tenant := s.sessions[0].Tenant; isFull(l.tenants[tenant], l.limits.perTenant(tenant), -1) {
		return TenantLimit
	}
	if isFull(l.all, l.limits.Streams, defaultStreams) {
		return EdgeLimit
	}
	return nil
}

// isFull reports whether a limit allows no further stream.
func isFull(open, limit, def int) bool {
	limit = cmp.Or(limit, def)
	return limit >= 0 && open >= limit
}

func (l Limits) perAddress(a netip.Addr) int {
	if l.PerAddress == 0 && exempt(a) {
		return -1
	}
	return l.PerAddress
}

// exempt reports whether an address has no limits unless they are given: it is more often that of a proxy than of one client.
func exempt(a netip.Addr) bool { return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() }

func (l Limits) perTenant(tenant string) int {
	if limit, ok := l.Tenants[tenant]; ok {
		return limit
	}
	return l.PerTenant
}

func (l *StreamLimiter) count(s slot, by int) {
	l.all += by
	add(l.tenants, s.sessions[0].Tenant, by)
	if s.address.IsValid() {
		add(l.addresses, s.address, by)
	}
	for _, session := range s.sessions {
		add(l.sessions, session, by)
	}
}

// add removes keys that reach 0, so that the maps are not larger than the set of open streams.
func add[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// logRejection logs at most once a minute: rejected clients retry.
func (l *StreamLimiter) logRejection(s slot, p *Problem) {
	if now := time.Now(); now.Sub(l.lastLogged) > time.Minute {
		l.lastLogged = now
		l.log.Warn("stream rejected", "code", p.Code, "open", l.all, "address", s.address, "session", s.sessions[0].String())
	}
}

// The problems of limits.
var (
	EdgeLimit    = limitProblem(CodeStreams, "this edge has as many streams as it may")
	TenantLimit  = limitProblem(CodeTenantStreams, "the tenant has as many streams as it may")
	AddressLimit = limitProblem(CodeAddressStreams, "this address has as many streams as it may")
	SessionLimit = limitProblem(CodeSessionStreams, "the session has as many readers as it may")
)

func limitProblem(code, title string) *Problem {
	return NewProblem(http.StatusServiceUnavailable, code, title, "close another stream, or retry later")
}

// CheckProxies returns an error for a prefix that can match no address.
func CheckProxies(prefixes []netip.Prefix) error {
	for i, p := range prefixes {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("TrustedProxies[%d] is %s, want an IPv4 or IPv6 prefix", i, p)
		}
	}
	return nil
}
