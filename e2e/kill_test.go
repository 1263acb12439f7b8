//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// The size of the test: enough writers that a publish is in flight at every
// kill, and enough chunks that every kill happens while they are written.
const (
	writers    = 50
	chunksEach = 400
	kills      = 3
)

// A single server is killed with SIGKILL and restarted on the same files three
// times while fifty writers publish numbered chunks.
func TestKilledServerLosesNothing(t *testing.T) {
	server := natstest.StartProcess(t)
	nc := server.Conn(t)
	load := newLoadTest(t, nc, 1)
	load.run(t, func() {
		server.Kill(t)
		server.Restart(t)
	})
}

// In a cluster of three, the leader of the chunk stream is killed with SIGKILL
// each time and restarted.
func TestKilledLeaderLosesNothing(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	nc := cluster.Conn(t)
	load := newLoadTest(t, nc, 3)
	load.run(t, func() {
		leader := cluster.Leader(t, "TR_CHUNKS_0")
		cluster.Kill(t, leader)
		cluster.Restart(t, leader)
		cluster.AwaitCurrent(t, "TR_CHUNKS_0")
	})
}

// loadTest is one run of the test: the acknowledged chunks and the records that
// followers received.
type loadTest struct {
	producer *producers.Producer
	reader   *consumers.Reader
	acked    [writers][]ack
	seen     [writers][]chunk.Record
	written  atomic.Int64
	progress chan struct{} // signals the next kill
}

type ack struct {
	seq chunk.Seq
	n   int
}

func newLoadTest(t *testing.T, nc *nats.Conn, replicas int) *loadTest {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, js, topology.Config{Replicas: replicas})
	producer, err := producers.New(js, producers.Config{Positions: jssnapshots.NewPositions(js, subjects.Layout{}), RetryTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &loadTest{producer: producer, reader: reader, progress: make(chan struct{}, kills)}
}

func session(i int) chunk.Session { return chunk.RootSession("t", fmt.Sprintf("s%d", i)) }

func (s *loadTest) run(t *testing.T, kill func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var all, killer sync.WaitGroup
	errs := make(chan error, 3*writers)
	started := make(chan chunk.Session, writers)
	for i := range writers {
		all.Go(func() { errs <- s.write(ctx, i, started) })
	}
	for range writers {
		first := <-started
		var i int
		if _, err := fmt.Sscanf(first.ID, "s%d", &i); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { errs <- s.follow(ctx, i) })
	}
	killer.Go(func() {
		for range s.progress {
			kill()
		}
	})
	all.Wait()
	close(s.progress)
	killer.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if err := s.producer.Close(); err != nil {
		t.Error(err)
	}
	for i := range writers {
		s.check(t, i)
	}
}

// write publishes the numbered chunks of one session; a nil error of Write is
// an acknowledgement.
func (s *loadTest) write(ctx context.Context, i int, started chan<- chunk.Session) error {
	run, err := s.producer.Start(ctx, session(i), chunk.RunStarted{Mode: "execute"}, producers.AgentType("load"))
	started <- session(i)
	if err != nil {
		return fmt.Errorf("writer %d: start: %w", i, err)
	}
	defer func() { _ = run.Close() }()
	for n := 1; n <= chunksEach; n++ {
		seq, err := run.Write(ctx, numbered(i, n))
		if err != nil {
			return fmt.Errorf("writer %d, chunk %d: %w", i, n, err)
		}
		s.acked[i] = append(s.acked[i], ack{seq: seq, n: n})
		s.mark()
	}
	if err := run.End(ctx, nil); err != nil {
		return fmt.Errorf("writer %d: end: %w", i, err)
	}
	return nil
}

// mark signals the next kill when a share of all chunks is written.
func (s *loadTest) mark() {
	share := int64(writers * chunksEach / (kills + 1))
	if n := s.written.Add(1); n%share == 0 && n/share <= kills {
		s.progress <- struct{}{}
	}
}

// numbered returns a chunk that is never merged, so that each number is one
// record.
func numbered(i, n int) chunk.Chunk {
	return chunk.Chunk{
		AgentID: session(i).ID, AgentType: "load", Timestamp: 1, Step: 1,
		Body: chunk.Custom{EventName: "n", Data: chunk.Value(fmt.Sprint(n))},
	}
}

func (s *loadTest) follow(ctx context.Context, i int) error {
	for rec, err := range s.reader.Follow(ctx, chunk.Range{Session: session(i)}) {
		if err != nil {
			return fmt.Errorf("follower %d after %d records: %w", i, len(s.seen[i]), err)
		}
		s.seen[i] = append(s.seen[i], rec)
	}
	return nil
}

// check compares the log of one session with the acknowledged chunks and the
// records of the follower.
func (s *loadTest) check(t *testing.T, i int) {
	t.Helper()
	var log []chunk.Record
	for rec, err := range s.reader.Replay(t.Context(), chunk.Range{Session: session(i)}) {
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		log = append(log, rec)
	}
	if want := chunksEach + 2; len(log) != want { // run_started, the chunks, stream_end
		t.Fatalf("session %d: %d records, want %d", i, len(log), want)
	}
	for at, rec := range log {
		if rec.Ordinal != chunk.Ordinal(at+1) {
			t.Fatalf("session %d: record %d has ordinal %d", i, at, rec.Ordinal)
		}
	}
	for at, a := range s.acked[i] {
		rec := log[at+1]
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		body, ok := c.Body.(chunk.Custom)
		if !ok || string(body.Data) != fmt.Sprint(a.n) || rec.Seq != a.seq {
			t.Fatalf("session %d: acknowledged %d at %d, the log has %s at %d", i, a.n, a.seq, rec.Data, rec.Seq)
		}
	}
	if !slices.EqualFunc(log, s.seen[i], sameRecord) {
		t.Errorf("session %d: the follower saw %d records, the log has %d, or they differ", i, len(s.seen[i]), len(log))
	}
}

func sameRecord(a, b chunk.Record) bool {
	return a.Seq == b.Seq && a.Ordinal == b.Ordinal && a.Type == b.Type && bytes.Equal(a.Data, b.Data)
}
