package chat

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tailrace/tailrace/sseedge"
)

// The codes of spec/helix.md section 12.1, and ours beside them. They are part of
// the wire and do not change.
const (
	codeValidation  = "VALIDATION_ERROR"
	codeNotFound    = "STREAM_NOT_FOUND"
	codeFailed      = "STREAM_FAILED"
	codeExecution   = "EXECUTION_ERROR"
	codeCreation    = "STREAM_CREATION_ERROR"
	codeConfig      = "CONFIGURATION_ERROR"
	codeAnswered    = "ALREADY_ANSWERED"
	codeUnknownCall = "CALL_NOT_FOUND"
	codeExpiredCall = "CALL_EXPIRED"
	codeTooLarge    = "CONTENT_TOO_LARGE"
	codeMedia       = "UNSUPPORTED_MEDIA_TYPE"
	codeOrigin      = "CROSS_ORIGIN"
	codeMethod      = "METHOD_NOT_ALLOWED"
	codeNoRoute     = "NOT_FOUND"
	codeUnavailable = "UNAVAILABLE"
	codeDraining    = "DRAINING"
	codeBodies      = "TOO_MANY_BODIES"
	codeSlow        = "BODY_TIMEOUT"
	codeInternal    = "INTERNAL"
)

// Problem is a refusal: a code for programs and a sentence for people. Every word
// in it is ours; what went wrong inside is in the log.
type Problem struct {
	Status int    `json:"-"`
	Text   string `json:"error"`
	Code   string `json:"code"`

	// First is the answer that counts, of ALREADY_ANSWERED and CALL_EXPIRED.
	First *outcome `json:"first,omitempty"`
}

func invalid(text string) *Problem { return &Problem{http.StatusBadRequest, text, codeValidation, nil} }

var (
	badID            = invalid("an id is longer than 256 characters, or missing")
	badSession       = invalid("this is no id of a chat: want 1 to 64 letters, digits, - or _")
	unreadable       = invalid("the body could not be read")
	slowBody         = &Problem{http.StatusRequestTimeout, "the body took too long to come; try again", codeSlow, nil}
	noRoom           = &Problem{http.StatusServiceUnavailable, "as many requests are being read as may be; try again later", codeBodies, nil}
	bodyTooLarge     = &Problem{http.StatusRequestEntityTooLarge, "the body is too large", codeTooLarge, nil}
	inputTooLarge    = &Problem{http.StatusRequestEntityTooLarge, "the message is too large", codeTooLarge, nil}
	unsupportedMedia = &Problem{http.StatusUnsupportedMediaType, "want Content-Type application/json", codeMedia, nil}
	crossOrigin      = &Problem{http.StatusForbidden, "a page of another origin may not do this", codeOrigin, nil}
	noRoute          = &Problem{http.StatusNotFound, "there is nothing here", codeNoRoute, nil}
	badMethod        = &Problem{http.StatusMethodNotAllowed, "this method is not for this path", codeMethod, nil}

	noChat       = &Problem{http.StatusNotFound, "there is no such chat", codeNotFound, nil}
	otherAgent   = invalid("this chat is with another agent")
	unknownAgent = invalid("there is no such agent")
	running      = &Problem{http.StatusConflict, "an answer is already running; wait for it or stop it", codeExecution, nil}
	delegating   = &Problem{http.StatusConflict, "the answer waits for other agents; wait for it or stop it", codeExecution, nil}
	goneOn       = &Problem{http.StatusConflict, "the conversation has gone on; load it again", codeExecution, nil}
	noMessage    = invalid("there is no message to answer anew")
	lost         = &Problem{http.StatusGone, "the answer cannot be shown any more; load the conversation again", codeFailed, nil}
	notStreaming = &Problem{http.StatusInternalServerError, "the answer has begun but cannot be shown at present; reconnect", codeCreation, nil}
	unavailable  = &Problem{http.StatusServiceUnavailable, "the chat cannot be reached at present; try again", codeUnavailable, nil}
	contended    = &Problem{http.StatusServiceUnavailable, "others are changing this chat at the same time; try again", codeUnavailable, nil}
	draining     = &Problem{http.StatusServiceUnavailable, "this server is being stopped; try again", codeDraining, nil}
	internal     = &Problem{http.StatusInternalServerError, "this should not have happened", codeInternal, nil}

	notYet      = &Problem{http.StatusConflict, "the answer is still running; wait until it asks", codeExecution, nil}
	unknownCall = &Problem{http.StatusNotFound, "nothing waits for this answer", codeUnknownCall, nil}
	wrongKind   = invalid("this call waits for another kind of answer")
	wrongID     = invalid("this is not the approval that is waited for")
)

// full is the refusal of a limit on streams.
func full(e *sseedge.FullError) *Problem {
	return &Problem{http.StatusServiceUnavailable, e.Text, e.Code, nil}
}

func (s *Service) refuse(w http.ResponseWriter, p *Problem) {
	s.metrics.refused(p)
	h := w.Header()
	if p == draining {
		h.Set("Connection", "close") // in HTTP/2: do not come back on this one
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(1))
	}
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		s.cfg.Log.Debug("refusal was not read", "code", p.Code, "err", err)
	}
}
