package sseedge

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Limits bound the event streams that are open at once on one edge, those that
// still wait for the log among them. In every field 0 is the default and a
// negative number is no limit. A stream of several sessions counts once, and
// once for each of its sessions.
//
// Who is over a limit is told to come back later, an EventSource as doc.go has
// it, everybody else with 503 and Retry-After, and a code for each limit. It is
// not 429: that would blame the client, who may share its address with a whole
// company, and a proxy that gets 503 asks another edge, which has room.
type Limits struct {
	// Streams is how many there may be in all. Defaults to 20,000, which is
	// about 1 GiB of memory, most of it net/http's.
	Streams int

	// PerTenant is how many sessions of one tenant may have. Defaults to no
	// limit: an edge serves one tenant.
	PerTenant int

	// PerAddress is how many one client address may have; of IPv6 the first 64
	// bits count, which is what one client has to itself. Defaults to 1,000,
	// enough for a company behind one address, for public addresses, and to no
	// limit for loopback and private ones, which are more often those of a proxy
	// that Config.TrustedProxies does not name. A number that is given holds for
	// all addresses.
	PerAddress int

	// PerSession is how many one session may have, a root and each of its
	// sub-agents counted apart. Defaults to 10,000: the hub bears more, but one
	// popular session shall not take the whole edge.
	PerSession int
}

const (
	defaultStreams    = 20_000
	defaultPerAddress = 1_000
	defaultPerSession = 10_000
)

// limiter counts open streams. Its one lock is held for a few map operations
// when a stream comes and when it goes.
type limiter struct {
	limits Limits // as they were given
	log    *slog.Logger

	mu        sync.Mutex // guards the fields below
	all       int
	tenants   map[string]int // no entry is 0, here and below
	addresses map[netip.Addr]int
	sessions  map[chunk.Session]int
	said      time.Time // when a refusal was last logged
}

// place is what one stream takes up.
type place struct {
	address  netip.Addr // see clientAddress; the zero Addr is not counted
	sessions []chunk.Session
}

func newLimiter(limits Limits, log *slog.Logger) *limiter {
	return &limiter{
		limits:    limits,
		log:       log,
		tenants:   make(map[string]int),
		addresses: make(map[netip.Addr]int),
		sessions:  make(map[chunk.Session]int),
	}
}

// acquire takes the place, or says which limit is in the way and takes nothing.
// The sessions are of one tenant, at least one and each once. What was taken
// must be released.
func (l *limiter) acquire(p place) *problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refusal := l.check(p); refusal != nil {
		l.say(p, refusal)
		return refusal
	}
	l.count(p, 1)
	return nil
}

func (l *limiter) release(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(p, -1)
}

// check begins with the narrowest limit: it says most about who is too many.
func (l *limiter) check(p place) *problem {
	if p.address.IsValid() && full(l.addresses[p.address], l.limits.perAddress(p.address), defaultPerAddress) {
		return addressFull
	}
	for _, s := range p.sessions {
		if full(l.sessions[s], l.limits.PerSession, defaultPerSession) {
			return sessionFull
		}
	}
	if full(l.tenants[p.sessions[0].Tenant], l.limits.PerTenant, -1) {
		return tenantFull
	}
	if full(l.all, l.limits.Streams, defaultStreams) {
		return edgeFull
	}
	return nil
}

// full reports whether there is no room for one more under a limit of Limits.
func full(open, limit, def int) bool {
	limit = orDefault(limit, def)
	return limit >= 0 && open >= limit
}

func (l Limits) perAddress(a netip.Addr) int {
	if l.PerAddress == 0 && (a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()) {
		return -1
	}
	return l.PerAddress
}

func (l *limiter) count(p place, by int) {
	l.all += by
	add(l.tenants, p.sessions[0].Tenant, by)
	if p.address.IsValid() {
		add(l.addresses, p.address, by)
	}
	for _, s := range p.sessions {
		add(l.sessions, s, by)
	}
}

// add forgets a key with nothing behind it, so that the maps are no larger than
// the streams that are open.
func add[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// say logs a refusal, once a minute: clients that are refused come back.
func (l *limiter) say(p place, refusal *problem) {
	if now := time.Now(); now.Sub(l.said) > time.Minute {
		l.said = now
		l.log.Warn("streams are refused", "code", refusal.Code, "open", l.all, "address", p.address, "session", p.sessions[0].String())
	}
}

// The refusals of limits.
var (
	edgeFull    = full503(codeEdgeFull, "this edge has as many streams as it may")
	tenantFull  = full503(codeTenantFull, "the tenant has as many streams as it may")
	addressFull = full503(codeAddressFull, "this address has as many streams as it may")
	sessionFull = full503(codeSessionFull, "the session has as many readers as it may")
)

func full503(code, title string) *problem {
	return newProblem(http.StatusServiceUnavailable, code, title, "close another stream, or come back in a moment")
}

func checkProxies(prefixes []netip.Prefix) error {
	for i, p := range prefixes {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("TrustedProxies[%d] is %s, want an IPv4 or IPv6 prefix", i, p)
		}
	}
	return nil
}
