package retention

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var s1 = chunk.RootSession("acme", "s1")

// env is a server with all streams, and the components of a deletion and of dead letters.
type env struct {
	*testing.T
	*stack.Stack

	log       *consumers.Reader
	projector jetstream.JetStream
	store     *jssnapshots.Store
	producer  *producers.Producer
	eraser    *Eraser
	dead      *DeadLetters
	operator  *DeadLetters // of tailrace deadletters, which alone removes entries
	added     addedReasons
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvOn(t, stack.Options{Topology: topology.Config{MaxSnapshot: 64 << 10}})
}

func newEnvOn(t *testing.T, o stack.Options) *env {
	t.Helper()
	s := stack.Start(t, o)
	w := &env{T: t, Stack: s, producer: s.NewWriter(producers.Config{Positions: s.Reader})}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.log, w.projector = s.Log, s.NewProcess(natsauth.Projector).JS
	w.store, err = jssnapshots.New(w.projector, jssnapshots.Config{WriteGrace: 50 * time.Millisecond})
	must()
	w.eraser, err = NewEraser(w.projector, w.store, EraserConfig{})
	must()
	w.dead, err = NewDeadLetters(w.projector, DeadLetterConfig{Observe: w.added.add})
	must()
	w.operator, err = NewDeadLetters(s.NewProcess(natsauth.Operator).JS, DeadLetterConfig{})
	must()
	return w
}

// project runs a projector until the returned function is called.
func (w *env) project() (stop func()) {
	w.Helper()
	source, err := jssnapshots.NewSource(w.projector, jssnapshots.SourceConfig{OnMalformed: func(ctx context.Context, f jssnapshots.Malformed) error {
		return w.dead.AddMalformed(ctx, f.Partition, Origin{Subject: f.Subject, Seq: f.Seq, Stored: f.Stored}, f.Err)
	}})
	if err != nil {
		w.Fatal(err)
	}
	runner, err := projector.NewRunner(source, w.store, w.log, projector.Config{SaveAfter: 10 * time.Millisecond, DeadLetter: w.dead})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Errorf("projector: %v", err)
		}
	}
}
