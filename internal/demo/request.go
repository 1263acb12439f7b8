package demo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// maxBody is the maximum size of a request body in bytes.
const maxBody = 8 << 10

// request is the body of POST /v1/demo/runs.
type request struct {
	Scenario string  `json:"scenario"`
	Session  *string `json:"session"` // nil creates one
}

// readRequest parses exactly one JSON object with known members. The error is a problem.
func readRequest(w http.ResponseWriter, r *http.Request) (request, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return request{}, problem{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "want Content-Type application/json"}
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	var req request
	err = body.Decode(&req)
	if err == nil {
		if _, more := body.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more than one value")
			if tooLarge(more) {
				err = more
			}
		}
	}
	switch {
	case tooLarge(err):
		return request{}, problem{http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "want at most 8 KiB"}
	case err != nil:
		return request{}, problem{http.StatusBadRequest, "VALIDATION_ERROR", `want one JSON object: {"scenario":"tour"}, with "session" to continue one`}
	}
	return req, nil
}

func tooLarge(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}

// problem is an error response in the form of RFC 9457.
type problem struct {
	status int
	code   string // stable; programs branch on it
	detail string // text for users
}

func (p problem) Error() string { return p.detail }

func (p problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	writeJSON(w, p.status, map[string]any{
		"type": "about:blank", "title": http.StatusText(p.status), "status": p.status, "code": p.code, "detail": p.detail,
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	writeJSON(w, status, v)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("demo: %v", err)) // maps of strings can be encoded
	}
	_, _ = w.Write(body) // the client may have disconnected
}

// newID returns 128 random bits as a token.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
