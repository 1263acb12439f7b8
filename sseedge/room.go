package sseedge

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/tailrace/tailrace/chunk"
)

// Room is the places that Limits leave. An Edge has one; a handler beside it that
// holds streams open takes its places there, too, so that a client has no more of
// both kinds together than it may have of one. It may be used by many goroutines.
type Room struct {
	limits  *limiter
	proxies []netip.Prefix
}

// NewRoom returns a Room of its own, for handlers without an Edge. proxies are as
// Config.TrustedProxies has them. log may be nil.
func NewRoom(limits Limits, proxies []netip.Prefix, log *slog.Logger) *Room {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Room{limits: newLimiter(limits, log), proxies: proxies}
}

// Room is that of the Edge.
func (e *Edge) Room() *Room { return e.room }

// Enter takes the place of a stream of a session for the client of a request, or
// says with a *FullError which limit is in the way. leave gives the place back; it
// is called once.
func (r *Room) Enter(req *http.Request, s chunk.Session) (leave func(), err error) {
	mine := r.place(req, []chunk.Session{s})
	if p := r.limits.acquire(mine); p != nil {
		return nil, &FullError{Code: p.Code, Text: p.Title}
	}
	return func() { r.limits.release(mine) }, nil
}

func (r *Room) place(req *http.Request, sessions []chunk.Session) place {
	return place{clientAddress(req, r.proxies), sessions}
}

// FullError is the refusal of a limit: 503, for a client that is to come back.
type FullError struct {
	Code string // TOO_MANY_STREAMS, or that and _OF_TENANT, _OF_ADDRESS or _OF_SESSION
	Text string // for people
}

func (e *FullError) Error() string { return e.Text }
