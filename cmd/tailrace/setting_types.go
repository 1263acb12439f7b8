package main

import (
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
)

// stringList is a comma-separated list as a setting: "a, b".
type stringList []string

// UnmarshalText parses a comma-separated list.
func (w *stringList) UnmarshalText(text []byte) error {
	*w = nil
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			return errors.New("want comma-separated words")
		}
		*w = append(*w, word)
	}
	return nil
}

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

// format is codec.Format as a setting.
type format codec.Format

// UnmarshalText parses json or msgpack.
func (f *format) UnmarshalText(text []byte) error {
	switch string(text) {
	case "json":
		*f = format(codec.FormatJSON)
	case "msgpack":
		*f = format(codec.FormatMsgpack)
	default:
		return errors.New("want json or msgpack")
	}
	return nil
}

// syncSetting is when the built-in NATS server syncs its files, as a setting: an interval or always.
type syncSetting struct {
	interval time.Duration
	always   bool
}

// UnmarshalText parses always or a duration.
func (s *syncSetting) UnmarshalText(text []byte) error {
	*s = syncSetting{always: string(text) == "always"}
	if s.always {
		return nil
	}
	var err error
	if s.interval, err = time.ParseDuration(string(text)); err != nil || s.interval <= 0 {
		return errors.New("want always or a duration of more than 0, such as 2m")
	}
	return nil
}

// subAgentContent is the setting for the output of sub-agents in chats.
type subAgentContent aisdk.SubAgentContent

var subAgentContents = []string{aisdk.Drop: "drop", aisdk.Inline: "inline", aisdk.Data: "data"}

// UnmarshalText parses drop, inline or data.
func (s *subAgentContent) UnmarshalText(text []byte) error {
	i := slices.Index(subAgentContents, string(text))
	if i < 0 {
		return errors.New("want drop, inline or data")
	}
	*s = subAgentContent(i)
	return nil
}

// aisdkOptions returns the form of the AI SDK's events.
func (c config) aisdkOptions() aisdk.Options {
	tools := c.ChatClientTools
	return aisdk.Options{
		Major: c.ChatMajor, SubAgents: aisdk.SubAgentContent(c.ChatSubAgents),
		ClientTool: func(name string) bool { return slices.Contains(tools, name) },
	}
}
