package main

import (
	"log/slog"
	"strings"
)

// redactedURL is a setting with a URL, or several ones separated by commas, that may contain a password or a token. What is
// printed of it has neither user nor password nor query. It is redacted as text, because a URL that cannot be parsed is printed too.
type redactedURL string

func (u redactedURL) String() string {
	urls := strings.Split(string(u), ",")
	for i, one := range urls {
		one, query, _ := strings.Cut(one, "?")
		scheme, rest, ok := strings.Cut(one, "://")
		if !ok {
			scheme, rest = "", one
		} else {
			scheme += "://"
		}
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			rest = "xxxxx" + rest[at:]
		}
		if query != "" {
			rest += "?xxxxx"
		}
		urls[i] = scheme + rest
	}
	return strings.Join(urls, ",")
}

// GoString is String, for %#v.
func (u redactedURL) GoString() string { return u.String() }

// LogValue is String, for handlers that do not call it.
func (u redactedURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// UnmarshalText accepts every text.
func (u *redactedURL) UnmarshalText(text []byte) error { //nolint:unparam // as encoding.TextUnmarshaler has it
	*u = redactedURL(text)
	return nil
}
