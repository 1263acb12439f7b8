package retention

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A response is lost without an error: the request is repeated, and its effect is not.
func TestLostResponses(t *testing.T) {
	t.Parallel() // each case waits for a repeated request
	for what, lost := range map[string]struct {
		begins string
		nth    int
	}{
		"what the log has":          {`{"type":"io.nats.jetstream.api.v1.stream_info_response"`, 1},
		"what there is of an index": {`{"type":"io.nats.jetstream.api.v1.stream_msg_get_response"`, 1},
		"a segment is stored":       {`{"stream":"OBJ_TR_OBJECTS"`, 1},
		"the index is stored":       {`{"stream":"OBJ_TR_OBJECTS"`, 2},
		"a segment is removed":      {`{"type":"io.nats.jetstream.api.v1.stream_msg_delete_response"`, 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Start(t, natstest.Listen())
			w := newArchiveEnvOn(t, srv, ArchiverConfig{})
			w.long(alice)
			w.archiveSession(alice)
			w.run(alice, 5) // the last segment is replaced, and the old one removed
			proxy := natstest.StartFaultProxy(t, srv.URL)
			seen := 0
			proxy.SetResponseFaults(func(answer []byte) bool {
				if !bytes.HasPrefix(answer, []byte(lost.begins)) {
					return false
				}
				seen++
				return seen == lost.nth
			})
			w.through(proxy.URL, ArchiverConfig{RetryTimeout: 10 * time.Second})
			w.archiveSession(alice)
			w.holds(3, 1)
			if n := w.agree(alice); n == 0 {
				t.Error("the archive is not read")
			}
			if seen < lost.nth {
				t.Errorf("%d such responses, none was lost", seen)
			}
		})
	}
}

// If the server does not respond, the archive fails after RetryTimeout with the cause.
func TestSilentServer(t *testing.T) {
	srv := natstest.Start(t, natstest.Listen())
	w := newArchiveEnvOn(t, srv, ArchiverConfig{})
	w.run(alice, 20)
	proxy := natstest.StartProxy(t, srv.URL)
	w.through(proxy.URL, ArchiverConfig{RetryTimeout: 100 * time.Millisecond})
	proxy.Blackhole()
	if _, err := w.c.Archive(t.Context(), alice); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
	w.holds(0, 0)
}

// Two processes archive a session. The index of the first is stored and the response is lost; before the first repeats the request, the second replaces the
// index.
func TestReplacedBeforeTheRetry(t *testing.T) {
	w := newArchiveEnv(t, ArchiverConfig{})
	w.long(alice)
	first := w.begin(alice)
	x, err := first.pack(t.Context())
	w.must(err)
	w.must(first.commit(t.Context(), x))
	w.run(alice, 5)
	w.archiveSession(alice) // keeps two segments of the first
	if err := first.commit(t.Context(), x); !errors.Is(err, ErrNotArchivable) {
		t.Fatalf("err = %v, want ErrNotArchivable", err)
	}
	w.must(first.remove(t.Context(), first.written))
	w.holds(3, 1)
	if n := w.agree(alice); n == 0 {
		t.Error("the archive is not read")
	}
}

// through connects the Archiver through a proxy.
func (w *archiveEnv) through(url string, cfg ArchiverConfig) {
	w.tb.Helper()
	var err error
	w.c, err = NewArchiver(natstest.JetStream(w.tb, url), cfg)
	w.must(err)
}
