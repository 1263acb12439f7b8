package sse

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// Accepts reports whether the client accepts an event stream: it sends no Accept header, or one with text/event-stream, text/* or */* and a quality above 0.
// The most specific range decides, as in RFC 9110, section 12.5.1.
func Accepts(h http.Header) bool {
	accept := strings.Join(h.Values("Accept"), ",")
	if strings.TrimSpace(accept) == "" {
		return true
	}
	best, quality := -1, 0.0
	for part := range strings.SplitSeq(accept, ",") {
		rank, q, ok := readRange(part)
		if ok && rank > best {
			best, quality = rank, q
		}
	}
	return quality > 0
}

// IsEventSource reports whether the client is probably an EventSource, for which every status but 200 is final: it accepts exactly this type and disables
// caches, as the HTML standard requires. After a wrong guess the client gets a response in the other of two forms.
func IsEventSource(h http.Header) bool {
	return h.Get("Accept") == "text/event-stream" && strings.Contains(h.Get("Cache-Control"), "no-cache")
}

func readRange(part string) (rank int, quality float64, ok bool) {
	part = strings.TrimSpace(part)
	if part == "" {
		return 0, 0, false
	}
	media, params, err := mime.ParseMediaType(part)
	if err != nil {
		return 0, 0, false
	}
	switch media {
	case "*/*":
		rank = 0
	case "text/*":
		rank = 1
	case "text/event-stream":
		rank = 2
	default:
		return 0, 0, false
	}
	quality = 1
	if q, given := params["q"]; given {
		if quality, err = strconv.ParseFloat(q, 64); err != nil {
			return 0, 0, false
		}
	}
	return rank, quality, true
}
