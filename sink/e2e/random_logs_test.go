package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/row"
)

var logs = flag.Int("logs", 1000, "number of random logs of TestManyLogs")

// perServer is the number of logs of one server, lake and database, which bounds the memory of the test.
const perServer = 1000

// TestManyLogs writes random logs into the log of a real server, with takeovers, cleanups, suspended runs, sub-agents, expiry and deletions, while two sinks copy them into a
// lake, and two into Postgres. The server is ended with SIGKILL at random moments, sinks end at random commits, with or without them, and answers of commits are lost. The
// rows that readers see in DuckDB and Postgres are those of a fold of the log that was written independently of the sink, package sinktest.
func TestManyLogs(t *testing.T) {
	seed := seedtest.Seed(t) % (1 << 53)
	for n := 0; n < *logs; n += perServer {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { testManyLogs(t, seed, min(perServer, *logs-n)) })
		seed++
	}
}

func testManyLogs(t *testing.T, seed uint64, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("repeat it with -seed=%d -logs=%d", seed, n)
		}
	}()
	began := time.Now()
	src := startSource(t, rand.New(rand.NewPCG(seed, 1)))
	stores := []*stored{inLake(t), inPostgres(t)}
	for i, s := range stores {
		s.server, s.random = src, rand.New(rand.NewPCG(seed, uint64(2+i)))
	}
	t.Logf("servers started %s", time.Since(began).Round(time.Millisecond))
	want := expectation{rows: map[string]sinktest.Row{}, logs: map[string]sinktest.Log{}, cleaned: map[string]bool{}}
	for first := 0; first < n; {
		size := min(100+src.random.IntN(150), n-first)
		expires := src.random.IntN(2) == 0 // before a sink has read them, the first records
		round := make([]sinktest.Log, size)
		for i := range round {
			round[i] = drawLog(src.random, first+i)
			if expires {
				round[i] = withoutFenced(round[i])
			}
		}
		first += size
		began = time.Now()
		src.add(round)
		if expires {
			for _, s := range stores {
				s.catchUp(t)
			}
			src.writeSome(t)
			src.expire(t)
		}
		for _, s := range stores {
			s.start(t)
		}
		src.writeRest(t, stores)
		for _, s := range stores {
			s.stop()
		}
		t.Logf("round of %d logs %s", size, time.Since(began).Round(time.Millisecond))
		for _, log := range round {
			want.add(src.readable(log))
		}
	}
	for _, s := range stores {
		began = time.Now()
		s.catchUp(t)
		want.compare(t, s)
		t.Logf("%s: %d sinks, last one and comparison %s", s.name, s.ended.Load(), time.Since(began).Round(time.Millisecond))
	}
	t.Logf("%d logs, %d records, %d of them removed, %d expired; %d events and %d observations as expected; %d servers ended", n, src.written, src.removed, src.expired,
		len(want.events), len(want.rows), src.kills)
}

// drawLog returns a log of a tree. Each tenth one has the session of the one before it, in another tenant.
func drawLog(random *rand.Rand, number int) sinktest.Log {
	tenant, name, draw := "acme", number, int(random.Uint64()>>1)
	if number%10 == 9 {
		tenant, name = "zeta", number-1
	}
	if random.IntN(5) == 0 {
		log := turntest.Logs(turntest.Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true}).Example(draw)
		for i := range log {
			s := &log[i].Session
			isRoot, root := s.IsRoot(), fmt.Sprintf("log%d-1", name)
			s.Tenant, s.Root = tenant, root
			if isRoot {
				s.ID = root
			}
		}
		return log
	}
	return sinktest.Logs(sinktest.Config{
		Tenant: tenant, Name: fmt.Sprintf("log%d-", name), Trees: 1, Records: 70, Cleanups: true, Deleted: true, Hostile: true, Fenced: true, Clocks: true,
	}).Example(draw)
}

// withoutFenced leaves out the records of superseded writers: a reader cannot recognise them when the record that has superseded their writer has expired.
func withoutFenced(log sinktest.Log) (left sinktest.Log) {
	highest := map[chunk.Session]chunk.Epoch{}
	for _, rec := range log {
		if rec.Epoch >= highest[rec.Session] {
			left = append(left, rec)
		}
		highest[rec.Session] = max(highest[rec.Session], rec.Epoch)
	}
	return left
}

// expectation are the rows that readers see of logs.
type expectation struct {
	rows   map[string]sinktest.Row
	events []string
	logs   map[string]sinktest.Log // by tree, to show those that differ

	cleaned map[string]bool // trees with a cleanup: a wait of a call that it removed may have begun in a record that stays
}

// add adds the rows of a log, as far as it was readable.
func (e *expectation) add(log sinktest.Log) {
	if len(log) == 0 {
		return
	}
	e.logs[treeOf(log[0].Session)] = log
	remaining := sinktest.Remaining(log)
	e.cleaned[treeOf(log[0].Session)] = len(remaining) < len(log)
	maps.Copy(e.rows, sinktest.Reference(remaining, sinktest.SomePrices))
	deleted := map[string]chunk.Seq{}
	for _, rec := range remaining {
		if rec.IsDeletion() {
			deleted[rec.Session.ID] = rec.Seq
		}
	}
	for _, rec := range remaining {
		if rec.Seq > max(deleted[rec.Session.ID], deleted[rec.Session.Root]) {
			e.events = append(e.events, eventLine(rec.Session, int64(rec.Seq), int64(rec.Ordinal), string(rec.Type)))
		}
	}
}

// session returns the records of the session of a row.
func (e *expectation) session(key string) (log sinktest.Log) {
	name, _, _ := strings.Cut(key, " ")
	tree, id := path.Split(name)
	for _, rec := range e.logs[path.Clean(tree)] {
		if rec.Session.ID == id {
			log = append(log, rec)
		}
	}
	return log
}

func treeOf(s chunk.Session) string { return s.Tenant + "/" + s.Root }

func eventLine(s chunk.Session, seq, ordinal int64, typ string) string {
	return fmt.Sprintf("%s/%s/%s %d %d %s", s.Tenant, s.Root, s.ID, seq, ordinal, typ)
}

// compare compares the rows of a store.
func (e *expectation) compare(t *testing.T, s *stored) {
	t.Helper()
	got := map[string]sinktest.Row{}
	for _, o := range s.observations(t) {
		r := sinktest.RowOf(o)
		if !r.HasRow() {
			continue
		}
		key := sinktest.Key(o.Tenant, o.Root, o.Session, o.Kind, o.FirstSeq, o.ToolCallID)
		if _, again := got[key]; again {
			t.Errorf("%s: %s is there twice", s.name, key)
		}
		_, wanted := e.rows[key]
		if wanted || o.Kind != row.Approval && o.Kind != row.ClientTool || !e.cleaned[o.Tenant+"/"+o.Root] { // else of a call that a cleanup has removed
			got[key] = r.Stable()
		}
	}
	different := 0
	for _, key := range slices.Sorted(maps.Keys(union(e.rows, got))) {
		if got[key] != e.rows[key] && different < mostShown {
			different++
			t.Errorf("%s: %s (- log, + row)\n- %+v\n+ %+v\n%s", s.name, key, e.rows[key], got[key], e.session(key))
		}
	}
	want, events := map[string]int{}, map[string]int{}
	for _, line := range e.events {
		want[line]++
	}
	for _, line := range s.events(t) {
		events[line]++
	}
	for _, line := range slices.Sorted(maps.Keys(union(want, events))) {
		if want[line] != events[line] && different < mostShown {
			different++
			t.Errorf("%s: event %s is there %d times, want %d", s.name, line, events[line], want[line])
		}
	}
}

// mostShown is the number of differences that are shown of a store.
const mostShown = 20

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// isRecord reports whether the message of a record is one: a malformed one has neither rows nor an effect.
func isRecord(rec chunk.Record, m codec.Encoded) bool {
	_, err := codec.Decode(codec.Stored{Session: rec.Session, Seq: rec.Seq, At: rec.StoredAt, Header: m.Header, Data: m.Data})
	return err == nil
}
