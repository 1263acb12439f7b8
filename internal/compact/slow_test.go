package compact

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natstest"
)

// An answer is lost, of which the caller hears nothing: the question is asked
// again, and what was done the first time is not done twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel() // each case waits for its question to be asked again
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
			w := newWorldOn(t, srv, Config{})
			w.long(alice)
			w.compact(alice)
			w.run(alice, 5) // the last segment is replaced, and the old one removed
			mangler := natstest.StartMangler(t, srv.URL)
			seen := 0
			mangler.Mute(func(answer []byte) bool {
				if !bytes.HasPrefix(answer, []byte(lost.begins)) {
					return false
				}
				seen++
				return seen == lost.nth
			})
			w.behind(mangler.URL, Config{Patience: 10 * time.Second})
			w.compact(alice)
			w.holds(3, 1)
			if n := w.agree(alice); n == 0 {
				t.Error("the archive is not read")
			}
			if seen < lost.nth {
				t.Errorf("%d such answers: none was lost", seen)
			}
		})
	}
}

// A server that says nothing is not waited for longer than Patience, and the
// error says what it was.
func TestSilentServer(t *testing.T) {
	srv := natstest.Start(t, natstest.Listen())
	w := newWorldOn(t, srv, Config{})
	w.run(alice, 20)
	proxy := natstest.StartProxy(t, srv.URL)
	w.behind(proxy.URL, Config{Patience: 100 * time.Millisecond})
	proxy.Blackhole()
	if _, err := w.c.Compact(t.Context(), alice); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want that time is over", err)
	}
	w.holds(0, 0)
}

// Two archive a session. The index of the first is stored and the answer lost;
// before he asks again, the second goes on from it.
func TestOvertakenWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, Config{})
	w.long(alice)
	first := w.begin(alice)
	x, err := first.pack(t.Context())
	w.must(err)
	w.must(first.commit(t.Context(), x))
	w.run(alice, 5)
	w.compact(alice) // keeps two of his segments
	if err := first.commit(t.Context(), x); !errors.Is(err, ErrUnfit) {
		t.Fatalf("err = %v, want ErrUnfit", err)
	}
	w.must(first.remove(t.Context(), first.written))
	w.holds(3, 1)
	if n := w.agree(alice); n == 0 {
		t.Error("the archive is not read")
	}
}

// behind puts the Compactor behind something that stands before the server.
func (w *world) behind(url string, cfg Config) {
	w.tb.Helper()
	js, err := jetstream.New(natstest.Connect(w.tb, url))
	w.must(err)
	w.c, err = New(js, cfg)
	w.must(err)
}
