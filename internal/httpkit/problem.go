package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/subjects"
)

// The codes that all surfaces share. They are part of the wire and do not change.
const (
	CodeNotFound       = "NOT_FOUND"
	CodeMethod         = "METHOD_NOT_ALLOWED"
	CodeCrossOrigin    = "CROSS_ORIGIN"
	CodeNoCredential   = "UNAUTHENTICATED"
	CodeForbidden      = "FORBIDDEN"
	CodeNoKeys         = "AUTHENTICATION_UNAVAILABLE"
	CodeValidation     = "VALIDATION_ERROR"
	CodeMedia          = "UNSUPPORTED_MEDIA_TYPE"
	CodeTooLarge       = "CONTENT_TOO_LARGE"
	CodeTooManyBodies  = "TOO_MANY_BODIES"
	CodeTooManyReads   = "TOO_MANY_READS"
	CodeBodyTimeout    = "BODY_TIMEOUT"
	CodeUnavailable    = "UNAVAILABLE"
	CodeNoStorage      = "INSUFFICIENT_STORAGE"
	CodeDraining       = "DRAINING"
	CodeInternal       = "INTERNAL"
	CodeEdgePermission = "EDGE_PERMISSION"
	CodeStreams        = "TOO_MANY_STREAMS"
	CodeTenantStreams  = "TOO_MANY_STREAMS_OF_TENANT"
	CodeAddressStreams = "TOO_MANY_STREAMS_OF_ADDRESS"
	CodeSessionStreams = "TOO_MANY_STREAMS_OF_SESSION"
	CodeAddressRate    = "TOO_MANY_REQUESTS_OF_ADDRESS"
	CodeSubjectRate    = "TOO_MANY_REQUESTS_OF_SUBJECT"
	CodeTenantRate     = "TOO_MANY_REQUESTS_OF_TENANT"
	CodeTenantRuns     = "TOO_MANY_RUNS_OF_TENANT"
	CodeSessionLimit   = "SESSION_LIMIT"
	CodeParameter      = "UNKNOWN_PARAMETER"
)

// Problem is a refusal: a code for programs and a sentence for users. It contains no text of the request; internal causes are only logged.
type Problem struct {
	Status int
	Code   string
	Title  string
	Detail string         // "" for none; only in the form RFC9457
	More   map[string]any // further members

	RetryAfter time.Duration // of a 429 or 503; 0 is that of the Responder for 503, and none for 429
}

// NewProblem returns a Problem without further members.
func NewProblem(status int, code, title, detail string) *Problem {
	return &Problem{Status: status, Code: code, Title: title, Detail: detail}
}

// Meant returns p with the members nearest, the name that was probably meant and "" for none, and want, the possible ones.
func (p *Problem) Meant(near string, want []string) *Problem {
	q := *p
	q.More = map[string]any{"want": want}
	if near != "" {
		q.More["nearest"] = near
	}
	return &q
}

// OfLength returns p, which says how long ids may be, with the length of a longer one.
func (p *Problem) OfLength(id string) *Problem {
	if len(id) <= subjects.MaxToken {
		return p
	}
	q := *p
	text := &q.Title
	if q.Detail != "" {
		text = &q.Detail
	}
	*text += fmt.Sprintf("; this one has %d", len(id))
	return &q
}

// UnknownParameter returns the problem of a query with a parameter that is not a known one, nil for another query. It is for requests in which a mistyped parameter would
// be taken for one that was left out.
func UnknownParameter(query url.Values, known []string) *Problem {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			title, near := fmt.Sprintf("there is no parameter %.80q", name), nearest.Name(name, known)
			if near != "" {
				title += fmt.Sprintf("; did you mean %s?", near)
			}
			return NewProblem(http.StatusBadRequest, CodeParameter, title, "want "+strings.Join(known, ", ")).Meant(near, known)
		}
	}
	return nil
}

// Label returns the code as a label of metrics.
func (p *Problem) Label() string { return strings.ToLower(p.Code) }

// Invalid returns the Problem of a request that does not have the required form, for surfaces that read bodies.
func Invalid(title string) *Problem {
	return NewProblem(http.StatusBadRequest, CodeValidation, title, "")
}

// The problems that have the same text on all surfaces.
var (
	NotFound    = NewProblem(http.StatusNotFound, CodeNotFound, "not found", "")
	CrossOrigin = NewProblem(http.StatusForbidden, CodeCrossOrigin, "a page of another origin may not do this", "")
	Forbidden   = NewProblem(http.StatusForbidden, CodeForbidden, "the credential does not have this right", "")
	NoStorage   = NewProblem(http.StatusInsufficientStorage, CodeNoStorage, "nothing can be stored at present", "")
	TenantRuns  = &Problem{Status: http.StatusTooManyRequests, Code: CodeTenantRuns, Title: "the tenant has too many runs at a time", RetryAfter: 2 * time.Second}
	SessionFull = NewProblem(http.StatusRequestEntityTooLarge, CodeSessionLimit, "the session has reached its limit", "continue in another session")
	Internal    = NewProblem(http.StatusInternalServerError, CodeInternal, "internal error", "")

	EdgePermission = NewProblem(http.StatusInternalServerError, CodeEdgePermission, "the NATS user of the edge lacks a permission", "the log of the edge names it; `tailrace nats-auth print --role edge` prints all that it needs")
)

// PermissionOr returns EdgePermission if err is a chunk.ErrNotPermitted, for which a retry does not help, otherwise p.
func PermissionOr(err error, p *Problem) *Problem {
	if errors.Is(err, chunk.ErrNotPermitted) {
		return EdgePermission
	}
	return p
}

// Form is how a surface writes problems.
type Form int

// The forms.
const (
	// RFC9457 is application/problem+json. The member error repeats the title, for clients of the agent protocol.
	RFC9457 Form = iota

	// ErrorCode is {"error": title, "code": code}.
	ErrorCode
)

// encode returns p as JSON.
func (p *Problem) encode(form Form) ([]byte, error) {
	var base any
	if form == RFC9457 {
		base = struct {
			Type   string `json:"type"`
			Title  string `json:"title"`
			Status int    `json:"status"`
			Code   string `json:"code"`
			Detail string `json:"detail,omitempty"`
			Error  string `json:"error"`
		}{"urn:tailrace:problem:" + p.Label(), p.Title, p.Status, p.Code, p.Detail, p.Title}
	} else {
		base = struct {
			Error string `json:"error"`
			Code  string `json:"code"`
		}{p.Title, p.Code}
	}
	text, err := json.Marshal(base)
	if err != nil || len(p.More) == 0 {
		return text, err
	}
	more, err := json.Marshal(p.More)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{text[:len(text)-1], more[1:]}, []byte(",")), nil
}

// Responder writes the responses of one surface.
type Responder struct {
	Form       Form
	RetryAfter func() time.Duration // of a 503; nil is one second
	Log        *slog.Logger
}

// Problem writes p.
func (o *Responder) Problem(w http.ResponseWriter, p *Problem) {
	text, err := p.encode(o.Form)
	if err != nil {
		o.Log.Error("problem encoding failed", "code", p.Code, "error", err)
		p, text = Internal, []byte(`{"error":"internal error","code":"INTERNAL"}`)
	}
	h := w.Header()
	if p.Code == CodeDraining {
		h.Set("Connection", "close") // in HTTP/2 this is GOAWAY: the client must not retry on this connection
	}
	h.Set("Content-Type", "application/json")
	if o.Form == RFC9457 {
		h.Set("Content-Type", "application/problem+json")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	retry := p.RetryAfter
	if retry == 0 && p.Status == http.StatusServiceUnavailable {
		retry = time.Second
		if o.RetryAfter != nil {
			retry = o.RetryAfter()
		}
	}
	if retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((retry+time.Second-1)/time.Second)))
	}
	w.WriteHeader(p.Status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		o.Log.Debug("problem not delivered", "code", p.Code, "error", err)
	}
}

// JSON writes v as a response that must not be cached.
func (o *Responder) JSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		o.Log.Error("response encoding failed", "error", err)
		o.Problem(w, Internal)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	o.JSONText(w, status, text)
}

// JSONText writes text, which is JSON. Cache-Control is the caller's.
func (o *Responder) JSONText(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		o.Log.Debug("response not delivered", "error", err)
	}
}
