// Package stack is the fixture of tests that need a NATS server with the streams of Tailrace: it starts the server, creates the streams and has the clients
// that most of these tests use. Tests start the components that they test as a Process and define helpers of their own for everything else.
//
// The package imports neither workers nor a surface of HTTP nor internal/retention, because tests inside those packages import it.
package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Options configures Start. The zero value is a server of its own with one partition and file storage.
type Options struct {
	Server   []natstest.Option
	On       Server // runs already; nil starts one
	Topology topology.Config
}

// Server is a *natstest.Server, *natstest.Process or *natstest.Cluster.
type Server interface {
	Conn(tb testing.TB, opts ...nats.Option) *nats.Conn
	JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream
}

// Stack is a server with the streams of Tailrace, and clients with a connection of their own.
type Stack struct {
	Clients

	Server *natstest.Server // nil with Options.On
	Users  *roletest.Users  // of the server; nil with Options.On on a server without users of roles

	t  testing.TB
	on Server
}

// Clients are the clients of one connection.
type Clients struct {
	JS     jetstream.JetStream
	Log    *consumers.Reader
	Reader *projector.Reader // snapshots, up to date without a projector
	Queue  *jscontrol.Queue
	Inbox  *jscontrol.Inbox
}

// Start starts a server that ends with the test, and creates the streams. On a server of its own, each Process has the permissions of its role, and the test
// fails if the server refuses a request for lack of one.
func Start(tb testing.TB, o Options) *Stack {
	tb.Helper()
	s := &Stack{t: tb, on: o.On, Users: roletest.Shared()}
	if s.on == nil {
		s.Users = roletest.New(tb, natsauth.Config{Layout: o.Topology.Layout, AllowDelete: true, AllowIngest: true})
		s.Server = natstest.Start(tb, append(slices.Clone(o.Server), s.Users.Server(), natstest.FailOnViolation())...)
		s.on = s.Server
	}
	js := s.on.JetStream(tb)
	streamtest.Ensure(tb, js, o.Topology)
	s.Clients = NewClients(tb, js)
	return s
}

// NewClients returns the clients of a connection.
func NewClients(tb testing.TB, js jetstream.JetStream) Clients {
	tb.Helper()
	log, err := consumers.New(js, consumers.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	queue, err := jscontrol.NewQueue(js, jscontrol.QueueConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	inbox, err := jscontrol.NewInbox(js, jscontrol.InboxConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	return Clients{JS: js, Log: log, Reader: projector.NewReader(store, log), Queue: queue, Inbox: inbox}
}

// NewWriter returns a writer with a connection of its own, which is closed when the test ends. It has the stored positions unless cfg has others.
func (s *Stack) NewWriter(cfg producers.Config) *producers.Producer {
	s.t.Helper()
	js := s.connect(natsauth.Worker)
	if cfg.Positions == nil {
		cfg.Positions = jssnapshots.NewPositions(js, cfg.Layout)
	}
	w, err := producers.New(js, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := w.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return w
}

// Request publishes a command for a session that has none.
func (s *Stack) Request(c control.Command) {
	s.t.Helper()
	if err := s.Queue.Request(s.t.Context(), c, 0); err != nil {
		s.t.Fatal(err)
	}
}

// Snapshot returns the snapshot of a session, up to date.
func (s *Stack) Snapshot(id chunk.Session) fold.Snapshot {
	s.t.Helper()
	snap, err := s.Reader.Snapshot(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return snap
}

// Await waits until ok accepts the snapshot of a session, and returns it.
func (s *Stack) Await(id chunk.Session, what string, ok func(fold.Snapshot) bool) fold.Snapshot {
	s.t.Helper()
	var snap fold.Snapshot
	natstest.Eventually(s.t, fmt.Sprintf("%s: %s", id, what), func(ctx context.Context) (err error) {
		if snap, err = s.Reader.Snapshot(ctx, id); err != nil {
			return err
		}
		if !ok(snap) {
			return fmt.Errorf("session is %s, run %s is %s, step %d\n%s", snap.Status, snap.Run.ID, snap.Run.Status, snap.Run.Step, Conversation(snap))
		}
		return nil
	})
	return snap
}

// AwaitStatus waits until a session has a status and no run.
func (s *Stack) AwaitStatus(id chunk.Session, want fold.Status) fold.Snapshot {
	s.t.Helper()
	return s.Await(id, string(want), func(snap fold.Snapshot) bool { return snap.Status == want && snap.Run.Status != fold.RunRunning })
}

// Records returns the records of a session, none if there is no such session.
func (s *Stack) Records(id chunk.Session) (all []chunk.Record) {
	s.t.Helper()
	for rec, err := range s.Log.Replay(s.t.Context(), chunk.Range{Session: id}) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// Chunks returns the chunks of a session.
func (s *Stack) Chunks(id chunk.Session) (all []chunk.Chunk) {
	s.t.Helper()
	for _, rec := range s.Records(id) {
		c, err := rec.Decode()
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// Bodies returns the bodies of the chunks of a session.
func (s *Stack) Bodies(id chunk.Session) (all []chunk.Body) {
	s.t.Helper()
	for _, c := range s.Chunks(id) {
		all = append(all, c.Body)
	}
	return all
}

// Conversation returns the messages of a snapshot, one line for each part.
func Conversation(snap fold.Snapshot) string {
	var lines []string
	for _, m := range snap.Messages(0) {
		for _, p := range m.Parts {
			if p.Kind != fold.PartStepStart {
				lines = append(lines, string(m.Role)+" "+string(p.AppendJSON(nil)))
			}
		}
	}
	return strings.Join(lines, "\n")
}
