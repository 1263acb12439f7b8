// Package outgoing sends HTTP requests to the hosts that the operator has configured, and to no other one.
package outgoing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// maxRedirects bounds the redirects of one request.
const maxRedirects = 3

// Client returns a client that follows redirects of a POST with status 307 or 308 to the same origin only. Any other redirect is the response: it could send the
// body and the credentials to a host that the operator has not configured, such as one inside of the network of this process. It has the Transport of given, if
// there is one, and otherwise one that connects to no link-local address.
func Client(given *http.Client) *http.Client {
	c := &http.Client{Transport: defaultTransport, CheckRedirect: sameOrigin}
	if given != nil && given.Transport != nil {
		c.Transport = given.Transport
	}
	return c
}

func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || req.Method != http.MethodPost || req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// Restricted returns a client as Client does that also connects to no address that allowed rejects, and uses no proxy, whose address would be the one that is
// checked.
func Restricted(allowed func(netip.Addr) bool) *http.Client {
	t := transport()
	t.Proxy = nil
	t.DialContext = dial(func(ip netip.Addr) error {
		if !allowed(ip) {
			return fmt.Errorf("%s is not an allowed address", ip)
		}
		return nil
	})
	return Client(&http.Client{Transport: t})
}

// notPublic are the prefixes that net/netip takes for global ones. Source: https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2002::/16"), // these have IPv4 addresses in them
	netip.MustParsePrefix("fec0::/10"),
}

// IsPublic reports whether an address is one of the internet: not of this machine, and not of a private network.
func IsPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) })
}

var defaultTransport http.RoundTripper = func() *http.Transport {
	t := transport()
	t.DialContext = dial(func(netip.Addr) error { return nil })
	return t
}()

func transport() *http.Transport {
	if std, ok := http.DefaultTransport.(*http.Transport); ok { // unless the program has replaced it
		return std.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment}
}

// dial returns a function that connects to the addresses that check accepts, whatever name resolves to them, and to no link-local one: clouds serve the credentials
// of a machine there. Loopback and private addresses are those of agents and models of the operator.
func dial(check func(netip.Addr) error) func(ctx context.Context, network, address string) (net.Conn, error) {
	control := func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		ip := at.Addr().Unmap()
		if ip.IsLinkLocalUnicast() || ip == metadataIPv6 {
			return fmt.Errorf("%s is a link-local address", ip)
		}
		return check(ip)
	}
	return (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: control}).DialContext
}

// metadataIPv6 is where AWS serves the credentials of a machine over IPv6. Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")
