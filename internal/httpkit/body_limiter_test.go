package httpkit_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Bodies of every length around the bounds are read unchanged, with a correct, a wrong and no content length, and their memory is released.
func TestBodies(t *testing.T) {
	const limit = 100 << 10
	bodies := httpkit.NewBodyLimiter(1 << 20)
	for _, length := range []int{0, 1, 2, 4095, 4096, 4097, 8191, 8192, 65535, 65536, 65537, limit - 4097, limit - 4096, limit - 1, limit, limit + 1, limit + 5000} {
		body := bytes.Repeat([]byte("x"), length)
		for _, announced := range []int64{int64(length), -1, 0, 1, limit} {
			r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(bytes.NewReader(body)))
			r.ContentLength = announced
			text, release, err := bodies.Read(httptest.NewRecorder(), r, limit)
			_, large := errors.AsType[*http.MaxBytesError](err)
			if large != (length > limit) || !large && (err != nil || !bytes.Equal(text, body)) {
				t.Errorf("%d bytes, announced as %d: got %d, %v", length, announced, len(text), err)
			}
			if err == nil && (bodies.InUse() < int64(length) || cap(text) > 2*length+8192) {
				t.Errorf("%d bytes: %d in use, %d allocated", length, bodies.InUse(), cap(text))
			}
			release()
			release()
			if n := bodies.InUse(); n != 0 {
				t.Fatalf("%d bytes, announced as %d: %d still in use", length, announced, n)
			}
		}
	}
}

// Many concurrent bodies: the limit is never exceeded, a rejected body holds no memory, and in the end all of it is free.
func TestBodyLimitUnderConcurrency(t *testing.T) {
	const maxBytes = 1 << 20
	bodies := httpkit.NewBodyLimiter(maxBytes)
	var readers sync.WaitGroup
	for i := range 64 {
		readers.Go(func() {
			for n := range 50 {
				body := bytes.Repeat([]byte("x"), (i*n)%200<<10)
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				text, release, err := bodies.Read(httptest.NewRecorder(), r, 8<<20)
				if inUse := bodies.InUse(); inUse > maxBytes {
					t.Errorf("%d bytes in use", inUse)
				}
				if err == nil && len(text) != len(body) || err != nil && !errors.Is(err, httpkit.ErrBodyLimit) {
					t.Errorf("%d of %d bytes, %v", len(text), len(body), err)
				}
				release()
			}
		})
	}
	readers.Wait()
	if n := bodies.InUse(); n != 0 {
		t.Errorf("%d bytes still in use", n)
	}
	free := httpkit.NewBodyLimiter(-1)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, 8<<20)))
	if text, _, err := free.Read(httptest.NewRecorder(), r, 8<<20); err != nil || len(text) != 8<<20 {
		t.Errorf("without a bound: %d, %v", len(text), err)
	}
}
