package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/parquet"
	"github.com/tailrace/tailrace/sink/postgres"
	"github.com/tailrace/tailrace/sink/price"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/run"
)

// stored is a store to which two sinks copy, and its reader.
type stored struct {
	name   string
	open   func() (row.Store, error)
	query  func(t *testing.T, columns, table string) [][]string // at the end: rows of texts, null is ""
	server *source
	random *rand.Rand
	most   int // largest age of a batch in milliseconds

	sinks sync.WaitGroup
	end   context.CancelFunc
	ended atomic.Int64

	mu       sync.Mutex
	position [partitions]chunk.Seq
	moved    chan struct{} // closed and replaced at each commit
}

// moveTo notes that the records of a partition are stored.
func (s *stored) moveTo(at row.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position[at.Partition] = max(s.position[at.Partition], at.Seq)
	close(s.moved)
	s.moved = make(chan struct{})
}

// await waits until a record is stored.
func (s *stored) await(ctx context.Context, at place) error {
	for {
		s.mu.Lock()
		now, moved := s.position[at.partition], s.moved
		s.mu.Unlock()
		if now >= at.seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%s: record %d of partition %d is not stored: %w", s.name, at.seq, at.partition, ctx.Err())
		}
	}
}

func inLake(t *testing.T) *stored {
	t.Helper()
	dir := memoryDir(t)
	var db *duckdbtest.DB
	return &stored{name: "lake", most: 800, moved: make(chan struct{}), open: func() (row.Store, error) { return parquet.OpenDirectory(dir) }, query: func(t *testing.T, columns, table string) (rows [][]string) {
		t.Helper()
		if db == nil {
			db = openLake(t, dir)
		}
		for _, r := range db.Query("select concat_ws('|', " + columns + ") as line from " + table) {
			rows = append(rows, strings.Split(*r["line"], "|"))
		}
		return rows
	}}
}

// openLake reads a lake at its end. It reads the many small files once, which takes most of the time, and the views several times.
func openLake(t *testing.T, dir string) *duckdbtest.DB {
	t.Helper()
	views, err := os.ReadFile(filepath.Join(dir, "views.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db := duckdbtest.Open(t)
	db.Query(string(views))
	for _, of := range []string{"events", "observations", "gaps"} {
		db.Query(fmt.Sprintf("create table read_%s as from %[1]s; create or replace view %[1]s as from read_%[1]s", of))
	}
	return db
}

// memoryDir returns a temporary directory in memory, where the system has one: most of the time of the lake is fsync otherwise.
func memoryDir(t *testing.T) string {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "tailrace-lake-") //nolint:usetesting // t.TempDir is on a disk
	if errors.Is(err, os.ErrNotExist) {
		return t.TempDir()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func inPostgres(t *testing.T) *stored {
	t.Helper()
	server, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url := server.Database(t)
	return &stored{name: "Postgres", most: 300, moved: make(chan struct{}), open: func() (row.Store, error) { return postgres.Open(postgres.Config{URL: url, Name: "sink"}) }, query: func(t *testing.T, columns, table string) [][]string {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		found, err := conn.Query(t.Context(), "select concat_ws('|', "+columns+") as line from tailrace."+table)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		rows := make([][]string, len(lines))
		for i, line := range lines {
			rows[i] = strings.Split(line, "|")
		}
		return rows
	}}
}

// prices is the list of prices of the sinks.
var prices = sync.OnceValues(func() (*price.List, error) { return price.Read([]byte(sinktest.SomePrices.List())) })

func (s *stored) config(t *testing.T, store row.Store) run.Config {
	t.Helper()
	list, err := prices()
	if err != nil {
		t.Fatal(err)
	}
	return run.Config{Layout: layout, Store: store, Every: 300 * time.Millisecond, Bytes: 400_000, Observe: observe.Config{Deltas: true, Price: list.Cost}}
}

// start starts two sinks, each of which is followed by another one when it has ended.
func (s *stored) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s.end = cancel
	js := s.server.srv.JetStream(t)
	for range 2 {
		random := rand.New(rand.NewPCG(s.random.Uint64(), 0))
		s.sinks.Go(func() {
			for ctx.Err() == nil {
				if err := s.live(ctx, t, js, random); err != nil {
					t.Errorf("%s: %v", s.name, err)
					return
				}
			}
		})
	}
}

// live runs a sink until a random commit.
func (s *stored) live(ctx context.Context, t *testing.T, js jetstream.JetStream, random *rand.Rand) error {
	t.Helper()
	store, err := s.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := s.config(t, &ending{Store: store, stored: s, random: random, left: 1 + random.IntN(20), cancel: cancel})
	cfg.Every = time.Duration(20+random.IntN(s.most)) * time.Millisecond
	cfg.Bytes = 20_000 << random.IntN(6)
	cfg.Observe.Memory = 1 << (19 + random.IntN(8))
	sink, err := run.New(js, cfg)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s.ended.Add(1)
	return sink.Run(ctx)
}

func (s *stored) stop() {
	s.end()
	s.sinks.Wait()
}

// catchUp copies what the log has, by a sink that does not end before.
func (s *stored) catchUp(t *testing.T) {
	t.Helper()
	store, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.config(t, store)
	cfg.NoFollow = true
	sink, err := run.New(s.server.srv.JetStream(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := sink.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatalf("%s: the last sink has not stored everything: %v, %v", s.name, err, ctx.Err())
	}
}

var errLost = errors.New("lost")

// ending is the store of a sink that ends at a commit. Others of its commits fail, before or after they are stored.
type ending struct {
	row.Store

	stored *stored
	cancel context.CancelFunc

	mu     sync.Mutex
	random *rand.Rand
	left   int // commits before the end
	over   bool
}

// result is what happens to a commit.
type result int

const (
	succeeds result = iota
	storesNothing
	losesAnswer
)

func (e *ending) Commit(ctx context.Context, after row.Position, b *row.Batch) error {
	result := e.next()
	if result == storesNothing {
		return errLost
	}
	err := e.Store.Commit(ctx, after, b)
	if err == nil {
		e.stored.moveTo(b.Through)
	}
	if err == nil && result == losesAnswer {
		err = errLost
	}
	return err
}

func (e *ending) next() result {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return storesNothing
	}
	e.left--
	if e.left > 0 {
		if n := e.random.IntN(20); n < 2 {
			return storesNothing + result(n)
		}
		return succeeds
	}
	e.cancel()
	end := result(e.random.IntN(3)) // the sink that succeeds stores what it has read
	e.over = end != succeeds
	return end
}

// observations returns the rows that a reader sees, with the columns that the reference has.
func (s *stored) observations(t *testing.T) (rows []row.Observation) {
	t.Helper()
	columns := []string{"tenant", "root", "session", "kind", "status", "first_seq", "tool_call_id", micros("start_time"), micros("end_time"), "steps", "tool_calls", "failed_tool_calls", "attempts",
		"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens", "cost", "currency", "cost_source"}
	for i, c := range columns {
		columns[i] = "coalesce(cast(" + c + " as varchar), '')"
	}
	for _, r := range s.query(t, strings.Join(columns, ", "), "observations_current") {
		p := parser{t, r}
		o := row.Observation{Kind: row.Kind(r[3]), Status: row.Status(r[4]), ToolCallID: r[6], Currency: r[19], CostSource: r[20]}
		o.Tenant, o.Root, o.Session, o.FirstSeq, o.StartTime = r[0], r[1], r[2], *p.number(5), time.UnixMicro(*p.number(7)).UTC()
		if n := p.number(8); n != nil {
			o.EndTime = new(time.UnixMicro(*n).UTC())
		}
		o.Steps, o.ToolCalls, o.FailedToolCalls, o.Attempts = p.number(9), p.number(10), p.number(11), p.number(12)
		o.InputTokens, o.OutputTokens, o.CachedTokens, o.CacheWriteTokens, o.ReasoningTokens = p.number(13), p.number(14), p.number(15), p.number(16), p.number(17)
		r[18] = strings.Replace(r[18], ".", "", 1) // nine digits after the point
		o.Cost = (*row.Money)(p.number(18))
		rows = append(rows, o)
	}
	return rows
}

func micros(column string) string {
	return "cast(round(extract(epoch from " + column + ") * 1000000) as bigint)"
}

type parser struct {
	t    *testing.T
	cols []string
}

func (p parser) number(column int) *int64 {
	if p.cols[column] == "" {
		return nil
	}
	n, err := strconv.ParseInt(p.cols[column], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return &n
}

// events returns a line for each event that a reader sees.
func (s *stored) events(t *testing.T) (lines []string) {
	t.Helper()
	for _, r := range s.query(t, "tenant, root, session, seq, ordinal, type", "events_current") {
		p := parser{t, r}
		lines = append(lines, eventLine(chunk.Session{Tenant: r[0], Root: r[1], ID: r[2]}, *p.number(3), *p.number(4), r[5]))
	}
	return lines
}
