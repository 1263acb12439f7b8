package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// The codes of spec/helix.md, AS-1, and ours beside them. They are part of the
// wire and do not change.
const (
	codeNotFound    = "NOT_FOUND"
	codeCompleted   = "ALREADY_COMPLETED"
	codeValidation  = "VALIDATION_ERROR"
	codeExecution   = "EXECUTION_ERROR"
	codeTooLarge    = "CONTENT_TOO_LARGE"
	codeMedia       = "UNSUPPORTED_MEDIA_TYPE"
	codeOrigin      = "CROSS_ORIGIN"
	codeMethod      = "METHOD_NOT_ALLOWED"
	codeUnavailable = "UNAVAILABLE"
	codeDraining    = "DRAINING"
	codeBodies      = "TOO_MANY_BODIES"
	codeSlow        = "BODY_TIMEOUT"
	codeInternal    = "INTERNAL"
)

// problem is a refusal: a code for programs and a sentence for people. Every word
// in it is ours; what went wrong inside is in the log.
type problem struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Code   string `json:"code"`
}

func invalid(text string) *problem { return &problem{http.StatusBadRequest, text, codeValidation} }

var (
	badSession       = invalid("sessionId: want 1 to 64 letters, digits, - or _")
	badAgentType     = invalid("agentType: want 1 to 64 letters, digits, - or _")
	badMessage       = invalid("message: want a text, or a list of 1 to 64 messages with content")
	unreadable       = invalid("the body could not be read")
	slowBody         = &problem{http.StatusRequestTimeout, "the body took too long to come; try again", codeSlow}
	noRoom           = &problem{http.StatusServiceUnavailable, "as many requests are being read as may be; try again later", codeBodies}
	bodyTooLarge     = &problem{http.StatusRequestEntityTooLarge, "the body is too large", codeTooLarge}
	unsupportedMedia = &problem{http.StatusUnsupportedMediaType, "want Content-Type application/json", codeMedia}
	crossOrigin      = &problem{http.StatusForbidden, "a page of another origin may not do this", codeOrigin}
	noRoute          = &problem{http.StatusNotFound, "there is nothing here", codeNotFound}
	badMethod        = &problem{http.StatusMethodNotAllowed, "this method is not for this path", codeMethod}

	noSession    = &problem{http.StatusNotFound, "there is no such session", codeNotFound}
	unknownAgent = &problem{http.StatusNotFound, "there is no such agent", codeNotFound}
	otherAgent   = invalid("this session is with another agent")
	completed    = &problem{http.StatusConflict, "the session is over", codeCompleted}
	running      = &problem{http.StatusConflict, "a run is at work; wait for it or stop it", codeExecution}
	awaiting     = &problem{http.StatusConflict, "the run waits for answers; submit them", codeExecution}
	unavailable  = &problem{http.StatusServiceUnavailable, "the session cannot be reached at present; try again", codeUnavailable}
	notBegun     = &problem{http.StatusServiceUnavailable, "no worker has begun with the run yet; try again", codeUnavailable}
	contended    = &problem{http.StatusServiceUnavailable, "others are changing this session at the same time; try again", codeUnavailable}
	draining     = &problem{http.StatusServiceUnavailable, "this server is being stopped; try again", codeDraining}
	internal     = &problem{http.StatusInternalServerError, "this should not have happened", codeInternal}
)

// failed makes a refusal of an error and leaves the rest to the log.
func (s *Server) failed(ctx context.Context, session chunk.Session, what string, err error) *problem {
	switch {
	case errors.Is(err, chunk.ErrTooLarge):
		return bodyTooLarge
	case errors.Is(err, chunk.ErrInvalid):
		s.cfg.Log.DebugContext(ctx, "a request was refused below", "what", what, "session", session.String(), "err", err)
		return invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long")
	}
	s.cfg.Log.WarnContext(ctx, "a session could not be served", "what", what, "session", session.String(), "err", err)
	return unavailable
}

func (s *Server) refuse(w http.ResponseWriter, p *problem) {
	if p == draining {
		w.Header().Set("Connection", "close") // in HTTP/2: do not come back on this one
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(1))
	}
	s.writeJSON(w, p.Status, p)
}

// writeJSON answers with something that nobody may keep.
func (s *Server) writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.cfg.Log.Error("an answer is no JSON", "err", err)
		s.refuse(w, internal)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		s.cfg.Log.Debug("an answer was not read", "err", err)
	}
}
