package httpkit

import (
	"net"
	"strings"
)

// Hostname returns the host of a Host header without its port, in lower case.
func Hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// LoopbackHost reports whether a host is a name of this machine. An edge without authentication must serve no other: any site can otherwise resolve its
// own name to 127.0.0.1 and read what is served there.
func LoopbackHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
