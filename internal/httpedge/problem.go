package httpedge

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/sse"
)

// The problem codes of this package, in addition to those of httpkit. They are part of the wire and do not change.
const (
	codeStreamNotFound = "STREAM_NOT_FOUND"
	codeNoCheckpoint   = "CHECKPOINT_NOT_FOUND"
	codeNoValue        = "VALUE_NOT_FOUND"
	codeBadCursor      = "BAD_CURSOR" // bad_event_id of the specification, wherever the request has the cursor
	codeBadSession     = "BAD_SESSION_ID"
	codeBadToken       = "BAD_TOKEN_ID"
	codeBadParameter   = "BAD_PARAMETER"
	codeNotAcceptable  = "NOT_ACCEPTABLE"
	codeMisdirected    = "MISDIRECTED"
	codeFuture         = "SEQUENCE_IN_FUTURE"
	codeExpired        = "HISTORY_EXPIRED"
	codeBusy           = "BUSY"
	codeTooLong        = "TAKES_TOO_LONG"
)

func badRequest(code, title, detail string) *httpkit.Problem {
	return httpkit.NewProblem(http.StatusBadRequest, code, title, detail)
}

func unavailableProblem(code, title, detail string) *httpkit.Problem {
	return httpkit.NewProblem(http.StatusServiceUnavailable, code, title, detail)
}

var (
	badSession    = badRequest(codeBadSession, "invalid session id", "want 1 to 64 characters of a URI")
	hasBody       = httpkit.NewProblem(http.StatusRequestEntityTooLarge, httpkit.CodeTooLarge, "no body is read here", "")
	tooLarge      = httpkit.NewProblem(http.StatusRequestEntityTooLarge, httpkit.CodeTooLarge, "the response would be larger than the memory for reads", "ask for fewer messages, or for parts of them, with messages or limit, and parts")
	misdirected   = httpkit.NewProblem(http.StatusMisdirectedRequest, codeMisdirected, "this host is not served here", "")
	notAcceptable = httpkit.NewProblem(http.StatusNotAcceptable, codeNotAcceptable, "this is an event stream", "Accept: want text/event-stream")
	noStream      = httpkit.NewProblem(http.StatusNotFound, codeStreamNotFound, "no such session", "")
	noCheckpoint  = httpkit.NewProblem(http.StatusNotFound, codeNoCheckpoint, "no such checkpoint in this session", "")
	noValue       = httpkit.NewProblem(http.StatusNotFound, codeNoValue, "no such value in this session", "")
	inFuture      = badRequest(codeFuture, "sequence is beyond the end of the log", "at: want the sequence of a record that was written")
	hasExpired    = httpkit.NewProblem(http.StatusGone, codeExpired, "sequence has expired", "ask for a later state, or for the present one")
	hasMoved      = httpkit.NewProblem(http.StatusGone, codeExpired, "the cursor cannot be served", "load the snapshot and continue after its sequence")
	busy          = unavailableProblem(codeBusy, "historical snapshot already in progress", "retry later")
	searching     = unavailableProblem(codeBusy, "other searches in messages are in progress", "retry later")
	takesTooLong  = unavailableProblem(codeTooLong, "this earlier state takes longer to make than it may", "ask for a later one")
	badToken      = badRequest(codeBadToken, "invalid token id or subject", "want at most 128 bytes of UTF-8 for a token, 255 for a subject")
	notRevoked    = unavailableProblem(httpkit.CodeUnavailable, "the credential could not be revoked, or only later", "revoke it once more")
	notErased     = unavailableProblem(httpkit.CodeUnavailable, "the session could not be deleted, or not all of it", "delete it once more")
	unavailable   = unavailableProblem(httpkit.CodeUnavailable, "log unavailable", "retry later")
	draining      = unavailableProblem(httpkit.CodeDraining, "this edge is being stopped", "retry later; another one answers")
)

// notDone logs why an act was not carried out, unless its client has left, and returns its problem: p if a repetition helps, or that of a missing permission, of which
// one line a second is logged.
func (e *Edge) notDone(p *httpkit.Problem, err error, event string, attrs ...any) *httpkit.Problem {
	p = httpkit.PermissionOr(err, p)
	if errors.Is(err, context.Canceled) {
		return p
	}
	if _, ok := e.notPermitted.Allow(); ok || p != httpkit.EdgePermission {
		e.cfg.Log.Warn(event, append(attrs, "error", err)...)
	}
	return p
}

// rejectStream responds to a request for an event stream with a problem. An EventSource never retries after a 503 or a 429; it gets a retry time, and the
// connection is aborted.
func (e *Edge) rejectStream(w http.ResponseWriter, r *http.Request, p *httpkit.Problem) {
	e.metrics.connected(p.Label())
	if later := p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests; !later || !sse.IsEventSource(r.Header) {
		e.respond.Problem(w, p)
		return
	}
	out := sse.NewWriter(w, e.cfg.WriteTimeout)
	if err := out.Open(0); err == nil {
		if err := out.Event(sse.Event{Retry: max(e.retry(), p.RetryAfter)}); err != nil {
			e.cfg.Log.Debug("problem not delivered", "code", p.Code, "error", err)
		}
	}
	panic(http.ErrAbortHandler)
}

// retry returns the time after which a client is to reconnect. While the edge drains it is short: another edge responds. A load balancer that has not noticed
// yet may send the client here several times; the sum must not be a long outage.
func (e *Edge) retry() time.Duration {
	delay := e.cfg.RetryDelay
	if e.streams.Draining() {
		delay /= 4
	}
	return delay + rand.N(delay/2+1)
}
