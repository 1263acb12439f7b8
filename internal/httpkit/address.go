package httpkit

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns the address that Limits count: that of the peer, or, if the peer is a trusted proxy, the last address in X-Forwarded-For that is
// not a trusted proxy. Earlier addresses are not trusted:
//  1. a client sends X-Forwarded-For: 203.0.113.9, which is not its address,
//  2. the proxy appends the address of the client: 203.0.113.9, 198.51.100.7,
//  3. from the right, 198.51.100.7 is the first that is not a trusted proxy.
//
// A proxy that writes no address there, as "unknown", counts as the client. The zero Addr is a peer without an address: a socket of this machine. The
// header Forwarded is not read; proxies that send it send X-Forwarded-For too.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	client := peer
	for hop := range hopsFromRight(r.Header.Values("X-Forwarded-For")) {
		if !isTrusted(client, trusted) {
			break
		}
		addr, ok := parseAddress(hop)
		if !ok {
			break
		}
		client = addr
	}
	return network(client)
}

// hopsFromRight yields the elements of a list header, last one first.
func hopsFromRight(lines []string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range slices.Backward(lines) {
			for more := true; more; {
				comma := strings.LastIndexByte(line, ',')
				if !yield(line[comma+1:]) {
					return
				}
				line, more = line[:max(comma, 0)], comma >= 0
			}
		}
	}
}

// parseAddress parses an address, with or without a port, as proxies write it. An IPv4-mapped IPv6 address becomes the IPv4 address. A zone is dropped:
// it has a meaning only on the machine that wrote it, and can be any text.
func parseAddress(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.WithZone("").Unmap(), true
}

func isTrusted(addr netip.Addr, trusted []netip.Prefix) bool {
	for _, prefix := range trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// network returns the part of an address that belongs to one client: an IPv4 address, or 64 bits of IPv6.
func network(addr netip.Addr) netip.Addr {
	if addr.Is4() || addr.IsLoopback() {
		return addr
	}
	return netip.PrefixFrom(addr, 64).Masked().Addr()
}
