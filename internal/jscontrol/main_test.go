package jscontrol

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// limit is the timeout of a wait; it is long because test machines are shared.
const limit = 30 * time.Second

func newQueue(tb testing.TB, js jetstream.JetStream, cfg QueueConfig) *Queue {
	tb.Helper()
	q, err := NewQueue(js, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

func execute(session, run string) control.Command {
	return control.Command{Kind: control.Execute, Session: chunk.RootSession("acme", session), AgentType: "support", RunID: run}
}

func publish(t *testing.T, q *Queue, c control.Command) {
	t.Helper()
	if err := q.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// worker serves until the test ends or stop is called.
type worker struct {
	cancel context.CancelFunc
	done   chan error
}

func serve(tb testing.TB, q *Queue, handle Handler) *worker {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &worker{cancel: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.done <- q.Serve(ctx, []string{"support"}, handle)
	}()
	tb.Cleanup(func() {
		cancel()
		<-ended // while its connection is open: after that a fetch of nats.go ends a second later
	})
	return w
}

// stop shuts the worker down gracefully.
func (w *worker) stop(tb testing.TB) {
	tb.Helper()
	w.cancel()
	if err := natstest.Receive(tb, "the worker to stop", w.done); err != nil {
		tb.Errorf("Serve: %v", err)
	}
}

// signs records the acknowledgements that workers send for their commands.
type signs struct {
	sub  *nats.Subscription
	mu   sync.Mutex
	seen []sign
	news chan struct{}
}

type sign struct{ reply, what string }

func watchSigns(t *testing.T, nc *nats.Conn) *signs {
	t.Helper()
	s := &signs{news: make(chan struct{}, 1024)}
	var err error
	s.sub, err = nc.Subscribe("$JS.ACK.>", func(m *nats.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, sign{m.Subject, string(m.Data)})
		s.news <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signs) all() []sign {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sign(nil), s.seen...)
}

// await waits until the recorded acknowledgements satisfy enough.
func (s *signs) await(t *testing.T, what string, enough func([]sign) bool) []sign {
	t.Helper()
	for {
		if all := s.all(); enough(all) {
			return all
		}
		natstest.Receive(t, what, s.news)
	}
}

func count(all []sign, what string) int {
	n := 0
	for _, s := range all {
		if len(s.what) >= len(what) && s.what[:len(what)] == what {
			n++
		}
	}
	return n
}

// logLines is a slog handler that sends the text of each record to a channel.
type logLines chan string

func (l logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logLines) WithGroup(string) slog.Handler            { return l }
func (l logLines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	select {
	case l <- line:
	default:
	}
	return nil
}

// left returns the number of commands on the queue.
func left(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), "TR_COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}
