package main

import (
	"log/slog"
	"strings"
)

// redactedURL is a setting with a URL, or several ones separated by commas, that may contain a password or a token. What is printed of it has neither user nor
// password nor query. It is redacted as text, because a URL that cannot be parsed is printed too. A password may have any character, so everything before the
// last @ is hidden, also the hosts of other URLs, and nothing but the scheme is printed if a question mark is before it.
type redactedURL string

func (u redactedURL) String() string {
	scheme, rest := "", string(u)
	if before, after, ok := strings.Cut(rest, "://"); ok && !strings.ContainsAny(before, ":@?,") {
		scheme, rest = before+"://", after
	}
	host, query, hasQuery := strings.Cut(rest, "?")
	switch at := strings.LastIndex(host, "@"); {
	case strings.Contains(query, "@"):
		return scheme + "xxxxx"
	case at >= 0:
		host = "xxxxx" + host[at:]
	}
	if hasQuery {
		host += "?xxxxx"
	}
	return scheme + host
}

// GoString is String, for %#v.
func (u redactedURL) GoString() string { return u.String() }

// LogValue is String, for handlers that do not call it.
func (u redactedURL) LogValue() slog.Value { return slog.StringValue(u.String()) }
