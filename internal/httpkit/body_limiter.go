package httpkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/nearest"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// BodyLimiter bounds the memory of all request bodies that are being read. A body counts with the bytes that have arrived, not with its Content-Length:
//  1. a client opens a hundred requests, each with a Content-Length of 8 MiB, and sends one byte,
//  2. it would occupy all of the memory until BodyTimeout.
//
// The time that a body may take is ServerConfig.BodyTimeout. A quarter of the memory is for buffers of at most smallBody, so that large bodies that arrive slowly do
// not block short messages.
type BodyLimiter struct{ small, large *Budget }

// ErrBodyLimit reports that the bodies that are being read have reached the limit.
var ErrBodyLimit = errors.New("body limit reached")

const (
	defaultBodies = 256 << 20
	smallBody     = 64 << 10
	firstPiece    = 4 << 10
)

// NewBodyLimiter returns a BodyLimiter of limit bytes; 0 is 256 MiB, a negative number unlimited.
func NewBodyLimiter(limit int64) *BodyLimiter {
	limit = cmp.Or(limit, defaultBodies)
	if limit < 0 {
		return &BodyLimiter{NewBudget(limit), NewBudget(limit)}
	}
	return &BodyLimiter{NewBudget(limit / 4), NewBudget(limit - limit/4)}
}

// InUse returns the number of bytes that are counted now.
func (b *BodyLimiter) InUse() int64 { return b.small.InUse() + b.large.InUse() }

// Read reads the body of a request. The body counts until release is called, which may be called more than once and also after an error: a
// *http.MaxBytesError if the body is longer than limit, ErrBodyLimit, os.ErrDeadlineExceeded if it takes too long, or the error of the connection.
func (b *BodyLimiter) Read(w http.ResponseWriter, r *http.Request, limit int64) (text []byte, release func(), err error) {
	mine := &reservation{of: b, client: ClientOf(r.Context())}
	text, err = mine.read(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	if err == nil {
		return text, mine.release, nil
	}
	mine.release()
	if r.ProtoMajor == 1 {
		// Without this net/http would read the rest before it responds, as slowly as it arrives.
		w.Header().Set("Connection", "close")
	}
	return nil, mine.release, err
}

// The problems of bodies.
var (
	BodyTooLarge     = NewProblem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is too large", "")
	BodyTimeout      = NewProblem(http.StatusRequestTimeout, CodeBodyTimeout, "the body took too long to come; try again", "")
	TooManyBodies    = NewProblem(http.StatusServiceUnavailable, CodeTooManyBodies, "too many concurrent requests; retry later", "")
	UnsupportedMedia = NewProblem(http.StatusUnsupportedMediaType, CodeMedia, "want Content-Type application/json, in UTF-8 and without Content-Encoding", "")
	BodyUnreadable   = Invalid("the body could not be read")
	bodyNotUTF8      = Invalid("the body is not UTF-8")
	BodyTooDeep      = Invalid("the body is nested too deeply")
	BodyAmbiguous    = Invalid("the body has an object with two members of one name")
)

// Lenient are options for JSON from browsers and models. Half of a surrogate pair is no reason to reject a request: a browser sends one if the text of a
// model was cut there, and repeats it in every later request.
var Lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// JSONLimits bound a JSON body.
type JSONLimits struct {
	Bytes int64
	Depth int // nested objects and arrays; 0 leaves it to the parser
}

// JSON reads the body of a request, checks its media type, size, encoding, depth and duplicate names, and passes it to parse. The body counts until parse returns.
func (b *BodyLimiter) JSON(w http.ResponseWriter, r *http.Request, l JSONLimits, parse func(text []byte) *Problem) *Problem {
	if !isPlainJSON(r.Header) {
		return UnsupportedMedia
	}
	text, release, err := b.Read(w, r, l.Bytes)
	defer release()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return BodyTooLarge
	case errors.Is(err, ErrBodyLimit):
		return TooManyBodies
	case errors.Is(err, os.ErrDeadlineExceeded):
		return BodyTimeout
	case err != nil:
		return BodyUnreadable
	case !utf8.Valid(text):
		return bodyNotUTF8
	case l.Depth > 0 && rawjson.Deeper(text, l.Depth):
		return BodyTooDeep
	case hasDuplicate(text):
		return BodyAmbiguous
	}
	return parse(text)
}

// isPlainJSON reports whether a request announces JSON in UTF-8 without a content coding.
func isPlainJSON(h http.Header) bool {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return false
	}
	charset, given := params["charset"]
	coding := h.Get("Content-Encoding")
	return (!given || strings.EqualFold(charset, "utf-8")) && (coding == "" || strings.EqualFold(coding, "identity"))
}

// hasDuplicate reports whether an object of a text has two members of one name. Parsers differ in which one they use: a proxy that reads the first one of
// {"approved":false,"approved":true} checks another value than the one that is stored. A text that is not JSON is left to the parser.
func hasDuplicate(text []byte) bool {
	value := jsontext.Value(text)
	return !value.IsValid(jsontext.AllowInvalidUTF8(true)) && value.IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Into returns a parser for JSON that stores the body in v; wrong is the text of the Problem if the body does not fit. Unknown members are ignored.
func Into(v any, wrong string) func(text []byte) *Problem {
	return func(text []byte) *Problem {
		if err := json.Unmarshal(text, v, Lenient); err != nil {
			return Invalid(wrong)
		}
		return nil
	}
}

// IntoExactly is Into for a body in which an unknown member is refused, with the nearest one of v: it must not be ignored because its name is misspelled.
func IntoExactly(v any, wrong string, opts ...json.Options) func(text []byte) *Problem {
	return func(text []byte) *Problem {
		err := json.Unmarshal(text, v, append(opts, json.RejectUnknownMembers(true))...)
		bad, ok := errors.AsType[*json.SemanticError](err)
		switch {
		case err == nil:
			return nil
		case !ok || !errors.Is(bad, json.ErrUnknownName):
			return Invalid(wrong)
		}
		path := strings.Split(strings.TrimPrefix(string(bad.JSONPointer), "/"), "/")
		return unknownMember(path[len(path)-1], membersAt(reflect.TypeOf(v), path[:len(path)-1]))
	}
}

func unknownMember(name string, known []string) *Problem {
	title, near := fmt.Sprintf("there is no member %.80q", name), nearest.Name(name, known)
	if near != "" {
		title += fmt.Sprintf("; did you mean %s?", near)
	}
	if len(known) == 0 {
		return Invalid(title)
	}
	return Invalid(title).Meant(near, known)
}

// membersAt returns the names of the members of the object at a path in JSON of type t.
func membersAt(t reflect.Type, path []string) (names []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path = path[min(1, len(path)):]
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if len(path) > 0 && name == path[0] {
			return membersAt(f.Type, path[1:])
		}
		names = append(names, name)
	}
	return names
}

// reservation is the memory of one body. It belongs to one goroutine.
type reservation struct {
	of           *BodyLimiter
	client       Client
	small, large int64
}

func (s *reservation) read(body io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var text []byte
	for {
		if have := int64(cap(text)); int64(len(text)) == have {
			size := max(2*have, firstPiece)
			expected := limit
			if announced >= have {
				expected = announced
			}
			if size+firstPiece > expected {
				size = expected + 1 // one byte for the read that returns EOF
			}
			if !s.grow(size) {
				return nil, ErrBodyLimit
			}
			text = append(make([]byte, 0, size), text...)
			s.shrink(have)
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// lane returns the budget of buffers of a size, and what the body has of it.
func (s *reservation) lane(size int64) (*Budget, *int64) {
	if size > smallBody {
		return s.of.large, &s.large
	}
	return s.of.small, &s.small
}

// grow reserves a buffer of a size, in addition to the one that is copied into it.
func (s *reservation) grow(size int64) bool {
	of, has := s.lane(size)
	if !of.TryTake(s.client, size) {
		return false
	}
	*has += size
	return true
}

func (s *reservation) shrink(size int64) {
	of, has := s.lane(size)
	of.Return(s.client, size)
	*has -= size
}

func (s *reservation) release() {
	s.of.small.Return(s.client, s.small)
	s.of.large.Return(s.client, s.large)
	s.small, s.large = 0, 0
}

// Reserve returns a function that sets the size of the buffers of a body that is read piece by piece, and reports false if there is no memory for it. Less memory than
// before is counted when there is none any more, with the size 0. It is called by one goroutine.
func (b *BodyLimiter) Reserve(ctx context.Context) (resize func(bytes int) bool) {
	mine, size := &reservation{of: b, client: ClientOf(ctx)}, int64(0)
	return func(bytes int) bool {
		switch {
		case bytes > 0 && int64(bytes) <= size:
			return true
		case bytes > 0 && !mine.grow(int64(bytes)):
			return false
		}
		mine.shrink(size)
		size = int64(bytes)
		return true
	}
}
