package httpkit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// For all headers, the address is the one that the simple algorithm finds: all hops
// in a list, from the right, until one is not trusted. The headers count only if a
// trusted proxy sent them.
func FuzzClientAddress(f *testing.F) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, peer := range []string{"10.0.0.1:1", "198.51.100.1:1", "[fd00::1%eth0]:1", "@", ""} {
		f.Add(peer, "203.0.113.9, 10.0.0.2", "198.51.100.1:80,[2001:db8::1],::ffff:10.0.0.3")
		f.Add(peer, ",", "unknown,fe80::1%zone,[::1")
	}
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": {first, second}}}
		got := clientAddress(r, trusted)
		if want := obviousAddress(peer, first+","+second, trusted); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("%s has many forms", got)
		}
		p, ok := parseAddress(peer)
		if ok && !isTrusted(p, trusted) && got != network(p) {
			t.Errorf("%s is believed that it is %s", p, got)
		}
	})
}

func obviousAddress(peer, forwarded string, trusted []netip.Prefix) netip.Addr {
	hops := append(strings.Split(forwarded, ","), peer)
	slices.Reverse(hops)
	client := netip.Addr{}
	for _, hop := range hops {
		addr, ok := parseAddress(hop)
		if !ok {
			break
		}
		if client = addr; !isTrusted(addr, trusted) {
			break
		}
	}
	if !client.IsValid() {
		return client
	}
	return network(client)
}
