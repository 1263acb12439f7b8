package sseedge

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/sseedge/sse"
)

// The codes of refusals. They are part of the wire and do not change.
const (
	codeStreamNotFound = "STREAM_NOT_FOUND"
	codeNotFound       = "NOT_FOUND"
	codeNoCheckpoint   = "CHECKPOINT_NOT_FOUND"
	codeBadCursor      = "BAD_CURSOR" // the catalogue's bad_event_id, wherever the cursor stood
	codeBadSession     = "BAD_SESSION_ID"
	codeBadParameter   = "BAD_PARAMETER"
	codeNotAcceptable  = "NOT_ACCEPTABLE"
	codeMethod         = "METHOD_NOT_ALLOWED"
	codeBody           = "CONTENT_TOO_LARGE"
	codeMisdirected    = "MISDIRECTED"
	codeCrossOrigin    = "CROSS_ORIGIN"
	codeFuture         = "SEQUENCE_IN_FUTURE"
	codeExpired        = "HISTORY_EXPIRED"
	codeBusy           = "BUSY"
	codeTooLong        = "TAKES_TOO_LONG"
	codeUnavailable    = "UNAVAILABLE"
	codeDraining       = "DRAINING"
	codeInternal       = "INTERNAL"
	codeEdgeFull       = "TOO_MANY_STREAMS"
	codeTenantFull     = "TOO_MANY_STREAMS_OF_TENANT"
	codeAddressFull    = "TOO_MANY_STREAMS_OF_ADDRESS"
	codeSessionFull    = "TOO_MANY_STREAMS_OF_SESSION"
)

// problem is a refusal, RFC 9457. Every word in it is ours: nothing that came
// with the request is sent back. Error is the same sentence where clients of
// the agent protocol look for it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error"`
}

func newProblem(status int, code, title, detail string) *problem {
	return &problem{
		Type:  "urn:tailrace:problem:" + strings.ToLower(code),
		Title: title, Status: status, Code: code, Detail: detail, Error: title,
	}
}

func badRequest(code, title, detail string) *problem {
	return newProblem(http.StatusBadRequest, code, title, detail)
}

var (
	notFound     = newProblem(http.StatusNotFound, codeNotFound, "there is nothing here", "")
	noStream     = newProblem(http.StatusNotFound, codeStreamNotFound, "no such session", "")
	noCheckpoint = newProblem(http.StatusNotFound, codeNoCheckpoint, "no such checkpoint in this session", "")
	inFuture     = badRequest(codeFuture, "the log has not come so far", "at: want the sequence of a record that was written")
	hasExpired   = newProblem(http.StatusGone, codeExpired, "the log does not reach back so far", "ask for a later state, or for the present one")
	busy         = newProblem(http.StatusServiceUnavailable, codeBusy, "another earlier state is being made", "come back in a moment")
	takesTooLong = newProblem(http.StatusServiceUnavailable, codeTooLong, "this earlier state takes longer to make than it may", "ask for a later one")
	notErased    = newProblem(http.StatusServiceUnavailable, codeUnavailable, "the session could not be deleted, or not all of it", "delete it once more")
	crossOrigin  = newProblem(http.StatusForbidden, codeCrossOrigin, "a page of another origin may not do this", "")
	unavailable  = newProblem(http.StatusServiceUnavailable, codeUnavailable, "the log cannot be asked at present", "come back in a moment")
	draining     = newProblem(http.StatusServiceUnavailable, codeDraining, "this edge is being stopped", "come back in a moment; another one answers")
	internal     = newProblem(http.StatusInternalServerError, codeInternal, "this should not have happened", "")
)

func (e *Edge) refuse(w http.ResponseWriter, p *problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(int((e.retry()+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		e.cfg.Log.Debug("refusal was not read", "code", p.Code, "err", err)
	}
}

// refuseStream refuses an event stream. An EventSource would take 503 for the
// end of all attempts; it is told when to come back and cut.
func (e *Edge) refuseStream(w http.ResponseWriter, r *http.Request, p *problem) {
	e.metrics.connected(outcome(p))
	if p.Status != http.StatusServiceUnavailable || !sse.IsEventSource(r.Header) {
		e.refuse(w, p)
		return
	}
	out := sse.NewWriter(w, e.cfg.Patience)
	if err := out.Open(0); err == nil {
		if err := out.Event(sse.Event{Retry: e.retry()}); err != nil {
			e.cfg.Log.Debug("refusal was not read", "code", p.Code, "err", err)
		}
	}
	panic(http.ErrAbortHandler)
}

// retry is when a client shall come back. While the edge drains it is soon:
// another one answers. A page may come here once more, or several times, because
// its balancer has not noticed yet; the sum must not be a long silence.
func (e *Edge) retry() time.Duration {
	pause := e.cfg.Retry
	if e.isDraining() {
		pause /= 4
	}
	return pause + rand.N(pause/2+1)
}
