package sseedge

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// Bodies bounds the memory of all request bodies that are read at one time, for the
// handlers beside an Edge that read some. A body counts with what has come of it,
// not with what it announces:
//  1. a client opens a hundred requests, announces 8 MiB in each, sends one byte,
//  2. it has all of the memory to itself until its time is over, and for nothing.
//
// The time that a body may take is ServerConfig.BodyTimeout.
type Bodies struct {
	most int64

	mu   sync.Mutex // guards held
	held int64
}

// ErrNoRoom reports that as many bodies are being read as there may be.
var ErrNoRoom = errors.New("there is no room for the body of a request at present")

const (
	defaultBodies = 256 << 20

	// smallBody is what a quarter of the memory is kept for: who sends large bodies
	// slowly must not keep out those who have a sentence to say.
	smallBody = 64 << 10

	firstPiece = 4 << 10
)

// NewBodies returns Bodies of so many bytes; 0 is 256 MiB, a negative number no
// limit.
func NewBodies(most int64) *Bodies { return &Bodies{most: orDefault(most, defaultBodies)} }

// Held is how many bytes there are at present.
func (b *Bodies) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// Read reads the body of a request. It counts until release is called, which may be
// done more than once, and also when there is an error: a *http.MaxBytesError for
// one that is longer than limit, ErrNoRoom, an os.ErrDeadlineExceeded for one that
// takes too long, or that of a connection that broke.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request, limit int64) (text []byte, release func(), err error) {
	mine := &share{of: b}
	text, err = mine.read(http.MaxBytesReader(w, r.Body, limit), r.ContentLength, limit)
	if err == nil {
		return text, mine.release, nil
	}
	mine.release()
	if r.ProtoMajor == 1 {
		// What is left is not waited for: net/http would read it before it answers, as
		// slowly as it comes.
		w.Header().Set("Connection", "close")
	}
	return nil, mine.release, err
}

// share is what one body takes of the memory. It belongs to one goroutine.
type share struct {
	of   *Bodies
	held int64
}

func (s *share) read(body io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var text []byte
	for {
		if have := int64(cap(text)); int64(len(text)) == have {
			size := max(2*have, firstPiece)
			most := limit
			if announced >= have {
				most = announced
			}
			if size+firstPiece > most {
				size = most + 1 // with room for the read that sees the end
			}
			if !s.take(size) {
				return nil, ErrNoRoom
			}
			text = append(make([]byte, 0, size), text...)
			s.give(have)
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

// take is for a buffer of a size, beside the one that is copied into it.
func (s *share) take(size int64) bool {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.most
	if size > smallBody {
		room -= room / 4
	}
	if b.most >= 0 && b.held+size > room {
		return false
	}
	b.held += size
	s.held += size
	return true
}

func (s *share) give(size int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.held -= size
	s.held -= size
}

func (s *share) release() { s.give(s.held) }
