package demo

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// maxBody is the maximum size of a request body in bytes.
const maxBody = 8 << 10

// request is the body of POST /v1/demo/runs.
type request struct {
	Scenario string  `json:"scenario"`
	Session  *string `json:"session"` // nil creates one
}

// readRequest parses exactly one JSON object with known members.
func readRequest(w http.ResponseWriter, r *http.Request) (request, *httpkit.Problem) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return request{}, problem(http.StatusUnsupportedMediaType, httpkit.CodeMedia, "want Content-Type application/json")
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
		return request{}, problem(http.StatusRequestEntityTooLarge, "BODY_TOO_LARGE", "want at most 8 KiB")
	case err != nil:
		return request{}, problem(http.StatusBadRequest, httpkit.CodeValidation, `want one JSON object: {"scenario":"tour"}, with "session" to continue one`)
	}
	return req, nil
}

func tooLarge(err error) bool {
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}

// problem returns a problem with a text for users.
func problem(status int, code, detail string) *httpkit.Problem {
	return httpkit.NewProblem(status, code, http.StatusText(status), detail)
}

// newID returns 128 random bits as a token.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
