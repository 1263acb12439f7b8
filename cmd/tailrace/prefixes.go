package main

import (
	"errors"
	"net/netip"
	"strings"
)

// prefixes is a list of networks as a setting: "10.0.0.0/8,192.0.2.7".
type prefixes []netip.Prefix

// UnmarshalText parses comma-separated networks and addresses.
func (p *prefixes) UnmarshalText(text []byte) error {
	*p = nil
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		prefix, err := parsePrefix(strings.TrimSpace(word))
		if err != nil {
			return errors.New("want networks and addresses such as 10.0.0.0/8 or 192.0.2.7")
		}
		*p = append(*p, prefix)
	}
	return nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return addr.Prefix(addr.BitLen())
}
