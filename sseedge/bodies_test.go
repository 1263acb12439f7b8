package sseedge_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/sseedge"
)

// Bodies of every length around the bounds are read as they were sent, whether they
// say how long they are, or lie, or do not say; and what they took is given back.
func TestBodies(t *testing.T) {
	const limit = 100 << 10
	bodies := sseedge.NewBodies(1 << 20)
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
			if err == nil && (bodies.Held() < int64(length) || cap(text) > 2*length+8192) {
				t.Errorf("%d bytes: %d are held, %d were taken", length, bodies.Held(), cap(text))
			}
			release()
			release()
			if n := bodies.Held(); n != 0 {
				t.Fatalf("%d bytes, announced as %d: %d are still held", length, announced, n)
			}
		}
	}
}

// Many read at once: there is never more than allowed, who is refused keeps nothing,
// and in the end all of it is free.
func TestBodiesOfACrowd(t *testing.T) {
	const most = 1 << 20
	bodies := sseedge.NewBodies(most)
	var crowd sync.WaitGroup
	for i := range 64 {
		crowd.Go(func() {
			for n := range 50 {
				body := bytes.Repeat([]byte("x"), (i*n)%200<<10)
				r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
				text, release, err := bodies.Read(httptest.NewRecorder(), r, 8<<20)
				if held := bodies.Held(); held > most {
					t.Errorf("%d bytes are held", held)
				}
				if err == nil && len(text) != len(body) || err != nil && !errors.Is(err, sseedge.ErrNoRoom) {
					t.Errorf("%d of %d bytes, %v", len(text), len(body), err)
				}
				release()
			}
		})
	}
	crowd.Wait()
	if n := bodies.Held(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
	free := sseedge.NewBodies(-1)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(make([]byte, 8<<20)))
	if text, _, err := free.Read(httptest.NewRecorder(), r, 8<<20); err != nil || len(text) != 8<<20 {
		t.Errorf("without a bound: %d, %v", len(text), err)
	}
}

// A handler beside the edge is counted with it, once, also for what it hands on.
func TestHandlersBesideAreCounted(t *testing.T) {
	w, reg := newCounted(t, worldConfig{tcp: true})
	name := func(*http.Request) string { return "beside" }
	handler := w.edge.Counted(name, w.edge)
	for _, path := range []string{"/healthz", "/nowhere"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	checkMetrics(t, reg, `requests_total{code="200",route="beside"} 1
requests_total{code="404",route="beside"} 1
`, "requests")
}
