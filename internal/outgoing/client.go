// Package outgoing sends HTTP requests to the hosts that the operator has configured, and to no other one.
package outgoing

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
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

var defaultTransport = func() http.RoundTripper {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if std, ok := http.DefaultTransport.(*http.Transport); ok { // unless the program has replaced it
		t = std.Clone()
	}
	t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: checkAddress}).DialContext
	return t
}()

// checkAddress refuses link-local addresses, whatever name resolves to them: clouds serve the credentials of a machine there. Loopback and private addresses are
// those of agents and models of the operator.
func checkAddress(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip == metadataIPv6 {
		return fmt.Errorf("%s is a link-local address", ip)
	}
	return nil
}

// metadataIPv6 is where AWS serves the credentials of a machine over IPv6. Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")
