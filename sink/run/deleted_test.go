package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	pq "github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/parquet"
	"github.com/tailrace/tailrace/sink/postgres"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

const day = 24 * time.Hour

// copies are two copies of a log, in a directory and in Postgres, beside a projector.
type copies struct {
	*stack.Stack

	t         *testing.T
	writer    *writer
	eraser    *retention.Eraser
	projector *stack.Process
	sink      jetstream.JetStream // with the permissions of a sink
	sessions  []chunk.Session     // written
	dir, url  string
	logged    *strings.Builder
}

func newCopies(t *testing.T) *copies {
	t.Helper()
	s := stack.Start(t, stack.Options{})
	process := s.NewProcess(natsauth.Projector)
	c := &copies{Stack: s, t: t, writer: &writer{t, s.JS, map[chunk.Session]chunk.Ordinal{}}, sink: s.NewProcess(natsauth.Analytics).JS, dir: filepath.Join(t.TempDir(), "lake"), logged: &strings.Builder{}}
	server, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	c.url = server.Database(t)
	store, err := jssnapshots.New(process.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if c.eraser, err = retention.NewEraser(process.JS, store, retention.EraserConfig{}); err != nil {
		t.Fatal(err)
	}
	c.project()
	return c
}

// project starts a projector.
func (c *copies) project() {
	c.t.Helper()
	c.projector = c.NewProcess(natsauth.Projector)
	store, err := jssnapshots.New(c.projector.JS, jssnapshots.Config{})
	if err != nil {
		c.t.Fatal(err)
	}
	source, err := jssnapshots.NewSource(c.projector.JS, jssnapshots.SourceConfig{})
	if err != nil {
		c.t.Fatal(err)
	}
	runner, err := projector.NewRunner(source, store, c.Log, projector.Config{SaveAfter: 10 * time.Millisecond})
	if err != nil {
		c.t.Fatal(err)
	}
	c.projector.Go(func(ctx context.Context) error {
		if err := runner.Run(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

func acme(id string) chunk.Session { return chunk.RootSession("acme", id) }

// word is the content of a session.
func word(s chunk.Session) string { return "canary-" + s.Tenant + "-" + s.ID + "-" }

// say writes a run with the word of its session, and waits for its head.
func (c *copies) say(sessions ...chunk.Session) {
	c.t.Helper()
	for _, s := range sessions {
		text := word(s)
		for _, body := range []chunk.Body{
			chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: text}}}, chunk.StepStart{},
			chunk.ToolStart{ToolCallID: "c", ToolName: "search", Arguments: chunk.Value(`{"q":"` + text + `"}`)}, chunk.ToolEnd{ToolCallID: "c", ToolName: "search", Result: chunk.Value(`"` + text + `"`)},
			chunk.StepEnd{}, chunk.StreamEnd{StreamID: s.ID},
		} {
			c.writer.put(s, 1, body)
		}
		if !slices.Contains(c.sessions, s) {
			c.sessions = append(c.sessions, s)
		}
		c.awaitHead(s, func(h jssnapshots.HeadIndex) bool { return !h.Deleted })
	}
}

func (c *copies) awaitHead(s chunk.Session, ok func(jssnapshots.HeadIndex) bool) {
	c.t.Helper()
	natstest.Eventually(c.t, "the head of "+s.String(), func(ctx context.Context) error {
		all, err := heads{jsclient.New(c.JS), "TR_SNAPSHOTS"}.read(ctx, []chunk.Session{s})
		if head, found := all[s]; err == nil && (!found || !ok(head)) {
			return fmt.Errorf("head %+v, %t", head, found)
		}
		return err
	})
}

// delete deletes sessions in Tailrace, so long ago that their records are removed; tombstones are removed if they are not kept.
func (c *copies) delete(tombstones bool, sessions ...chunk.Session) {
	c.t.Helper()
	for _, s := range sessions {
		if err := c.eraser.Delete(c.t.Context(), s); err != nil {
			c.t.Fatal(err)
		}
		c.forget(s, tombstones)
		for other := range c.writer.last {
			if other == s || s.IsRoot() && other.Tree() == s {
				delete(c.writer.last, other)
			}
		}
	}
}

// forget removes the records of a tree or session from the log, and its heads.
func (c *copies) forget(s chunk.Session, keepHeads bool) {
	c.t.Helper()
	filter, err := subjects.Layout{}.Subject(s)
	key, err2 := names.SnapshotHeadKey(s)
	if s.IsRoot() {
		filter, err = subjects.Layout{}.Tree(s)
		key, err2 = names.SnapshotTreeHeadKeys(s)
	}
	if err := errors.Join(err, err2); err != nil {
		c.t.Fatal(err)
	}
	c.purge("TR_CHUNKS_0", filter)
	if !keepHeads {
		c.purge("KV_TR_SNAPSHOTS", "$KV.TR_SNAPSHOTS."+key)
	}
}

func (c *copies) purge(stream, filter string) {
	c.t.Helper()
	s, err := c.JS.Stream(c.t.Context(), stream)
	if err == nil {
		err = s.Purge(c.t.Context(), jetstream.WithPurgeSubject(filter))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// stores opens both stores. They are closed by a sink.
func (c *copies) stores(tenant string) []row.Store {
	c.t.Helper()
	lake, err := parquet.OpenDirectory(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	pg, err := postgres.Open(postgres.Config{URL: c.url, Name: "sink" + tenant, Tenant: tenant})
	if err != nil {
		c.t.Fatal(err)
	}
	return []row.Store{lake, pg}
}

func (c *copies) newSink(store row.Store, later time.Duration) *Sink {
	c.t.Helper()
	s, err := New(c.sink, Config{Store: store, NoFollow: true, Log: slog.New(slog.NewTextHandler(writers{c.t.Output(), c.logged}, nil))})
	if err != nil {
		c.t.Fatal(err)
	}
	s.later = later
	return s
}

// copy copies the log into both stores at a later time, and erases in the lake what is deleted.
func (c *copies) copy(later time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for _, store := range c.stores("") {
		if err := c.newSink(store, later).Run(ctx); err != nil || ctx.Err() != nil {
			c.t.Fatal(err, ctx.Err())
		}
	}
	c.eraseFiles()
}

func (c *copies) eraseFiles() {
	c.t.Helper()
	lake, err := parquet.OpenDirectory(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := lake.Begin(c.t.Context(), 1); err != nil {
		c.t.Fatal(err)
	}
	if err := errors.Join(lake.Maintain(c.t.Context(), time.Time{}), lake.Close()); err != nil {
		c.t.Fatal(err)
	}
}

// want fails if the stores have the words of other sessions than these.
func (c *copies) want(what string, sessions ...chunk.Session) {
	c.t.Helper()
	texts := map[string]string{"lake": c.lakeText(), "Postgres": c.postgresText()}
	for _, s := range c.sessions {
		for store, text := range texts {
			if has, want := strings.Contains(text, word(s)), slices.Contains(sessions, s); has != want {
				c.t.Errorf("%s: %s has content of %s: %t, want %t", what, store, s, has, want)
			}
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// lakeText returns the bytes of all files, and all rows of events and observations.
func (c *copies) lakeText() string {
	c.t.Helper()
	var out bytes.Buffer
	err := filepath.WalkDir(c.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		out.Write(data)
		switch table, _, _ := strings.Cut(strings.TrimPrefix(name, c.dir+"/"), "/"); {
		case filepath.Ext(name) != ".parquet":
		case table == "events":
			rows, err := pq.Read[row.Event](bytes.NewReader(data), int64(len(data)))
			fmt.Fprintf(&out, "%+v", rows)
			return err
		case table == "observations":
			rows, err := pq.Read[row.Observation](bytes.NewReader(data), int64(len(data)))
			fmt.Fprintf(&out, "%+v", rows)
			return err
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.String()
}

// postgresText returns all rows of all tables.
func (c *copies) postgresText() string {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var out strings.Builder
	for _, table := range []string{"events", "observations", "sessions", "gaps", "positions", "positions_log"} {
		rows, err := conn.Query(c.t.Context(), `SELECT row_to_json(t)::text FROM tailrace.`+table+` t`)
		if err != nil {
			c.t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			c.t.Fatal(err)
		}
		out.WriteString(strings.Join(texts, "\n"))
	}
	return out.String()
}

// writers write to all.
type writers []interface{ Write(p []byte) (int, error) }

func (w writers) Write(p []byte) (int, error) {
	for _, one := range w {
		if _, err := one.Write(p); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Sessions were deleted while the sinks were stopped, and the records of the deletions are no longer in the log. After 46 hours they would be there.
func TestMissedDeletion(t *testing.T) {
	c := newCopies(t)
	c.say(acme("kept"), acme("s1"), acme("s2"), acme("kept2"))
	c.copy(0)
	c.delete(true, acme("s1"))
	c.delete(false, acme("s2"))
	c.copy(46 * time.Hour)
	c.want("stopped for 46 h", acme("kept"), acme("s1"), acme("s2"), acme("kept2"))
}

func TestDeletedWhileStopped(t *testing.T) {
	c := newCopies(t)
	child := acme("kept").Child("child")
	c.say(acme("kept"), child, acme("s1"), acme("s1").Child("s1child"), acme("s2"), acme("kept2"), acme("reused"), acme("reused2"))
	c.copy(0)
	c.delete(true, acme("s1"), child, acme("reused"))
	c.delete(false, acme("s2"), acme("reused2"))
	for _, s := range []chunk.Session{acme("reused"), acme("reused2")} { // again, with another word
		c.writer.last[s] = map[string]chunk.Ordinal{"reused": 7}[s.ID]
		c.writer.put(s, 9, chunk.RunStarted{RunID: "again", Epoch: 9, Mode: "execute", Input: []chunk.InputMessage{{Content: "second-" + s.ID}}})
		c.awaitHead(s, func(h jssnapshots.HeadIndex) bool { return !h.Deleted })
	}
	c.copy(49 * time.Hour)
	c.want("stopped for 49 h", acme("kept"), acme("kept2"))
	for store, text := range map[string]string{"lake": c.lakeText(), "Postgres": c.postgresText()} {
		for _, s := range []string{"second-reused", "second-reused2"} {
			if !strings.Contains(text, s+`"`) {
				t.Errorf("%s does not have %s", store, s)
			}
		}
	}
	c.copy(50 * time.Hour)
	c.want("again", acme("kept"), acme("kept2"))
}

// An expired session stays, also one that a sweep has removed with a tombstone.
func TestExpiredWhileStopped(t *testing.T) {
	c := newCopies(t)
	c.say(acme("swept"), acme("gone"), acme("kept"))
	c.copy(0)
	c.forget(acme("swept"), true)
	c.forget(acme("gone"), false)
	if _, err := c.eraser.SweepAt(t.Context(), time.Now().Add(91*day)); err != nil {
		t.Fatal(err)
	}
	c.say(acme("later"))
	c.copy(91 * day)
	c.want("stopped for 91 days", acme("swept"), acme("gone"), acme("kept"), acme("later"))
}

// Without most of the heads nothing is erased but by hand.
func TestHeadsAreMissing(t *testing.T) {
	c := newCopies(t)
	c.say(acme("s1"), acme("s2"), acme("s3"), acme("kept"))
	c.copy(0)
	c.delete(true, acme("s1"))
	for _, s := range []chunk.Session{acme("s2"), acme("s3")} {
		c.forget(s, false)
	}
	c.copy(49 * time.Hour)
	c.want("two of three heads are missing", acme("s2"), acme("s3"), acme("kept"))
	if !strings.Contains(c.logged.String(), "tailrace-sink erase") {
		t.Error("the log does not say what to do")
	}
	for _, store := range c.stores("") {
		s := c.newSink(store, 49*time.Hour)
		states, err := s.Check(t.Context())
		if err != nil || len(states) != 1 || states[0].Sessions != (Sessions{Present: 1, Absent: 2}) {
			t.Errorf("check: %+v, %v", states, err)
		}
		if n, err := s.EraseDeleted(t.Context()); err != nil || n != 2 {
			t.Errorf("%d sessions erased, %v", n, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	c.eraseFiles()
	c.want("erased by hand", acme("kept"))
}

// The heads are restored from a backup that is older than the log, or created again: sessions that the log has stay, and so do those that the heads cannot know.
func TestHeadsAreOlderThanTheLog(t *testing.T) {
	c := newCopies(t)
	c.say(acme("s1"), acme("s2"), acme("s3"))
	backup := natstest.BackUp(t, c.JS, "KV_TR_SNAPSHOTS")
	c.say(acme("s4"))
	c.copy(0)
	if err := c.JS.DeleteStream(t.Context(), "KV_TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	backup.Restore(t, c.JS)
	c.delete(true, acme("s1"))
	c.copy(49 * time.Hour)
	c.want("restored", acme("s2"), acme("s3"), acme("s4"))
	c.forget(acme("s4"), true)
	c.copy(49 * time.Hour)
	c.want("restored, and the log has expired", acme("s2"), acme("s3"), acme("s4"))

	c.projector.Stop()
	if err := c.JS.DeleteStream(t.Context(), "KV_TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	if err := topology.Ensure(t.Context(), c.JS, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	c.project()
	c.forget(acme("s2"), true)
	c.say(acme("new1"), acme("new2"), acme("new3"))
	c.copy(49 * time.Hour)
	c.want("created again", acme("s2"), acme("s3"), acme("s4"), acme("new1"), acme("new2"), acme("new3"))
}

// While the heads cannot be read, nothing is erased and nothing is copied.
func TestHeadsAreAway(t *testing.T) {
	c := newCopies(t)
	c.say(acme("s1"), acme("kept"))
	c.copy(0)
	c.delete(true, acme("s1"))
	c.say(acme("later"))
	backup := natstest.BackUp(t, c.JS, "KV_TR_SNAPSHOTS")
	if err := c.JS.DeleteStream(t.Context(), "KV_TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	for _, store := range c.stores("") {
		reg := prometheus.NewRegistry()
		metrics, err := NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		s := c.newSink(store, 49*time.Hour)
		s.cfg.Metrics = metrics
		if err := s.copy(t.Context()); err == nil {
			t.Error("copied without heads")
		}
		if stored := sample(t, reg, "tailrace_sink_commits_total", "stored"); stored > 0 {
			t.Errorf("%v batches stored", stored)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	c.eraseFiles()
	c.want("without heads", acme("s1"), acme("kept"))
	backup.Restore(t, c.JS)
	c.copy(49 * time.Hour)
	c.want("with heads", acme("kept"), acme("later"))
}

// stopping is a store that stops at a deletion, before or after its effect.
type stopping struct {
	row.Store

	after bool
}

func (s stopping) Delete(ctx context.Context, gaps []row.Gap) error {
	if s.after {
		return errors.Join(errStore, s.Store.Delete(ctx, gaps))
	}
	return errStore
}

// A process ends before or after a deletion is stored. The next one repeats the comparison.
func TestStopInComparison(t *testing.T) {
	c := newCopies(t)
	c.say(acme("kept"), acme("kept2"), acme("s1"), acme("s2"))
	c.copy(0)
	c.delete(true, acme("s1"))
	c.delete(false, acme("s2"))
	for _, after := range []bool{false, true} {
		for _, store := range c.stores("") {
			if err := c.newSink(stopping{store, after}, 49*time.Hour).copy(t.Context()); !errors.Is(err, errStore) {
				t.Errorf("copy: %v", err)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	c.copy(49 * time.Hour)
	c.want("repeated", acme("kept"), acme("kept2"))
}

// Two sinks begin at once.
func TestTwoCompare(t *testing.T) {
	c := newCopies(t)
	c.say(acme("kept"), acme("kept2"), acme("s1"), acme("s2"))
	c.copy(0)
	c.delete(true, acme("s1"))
	c.delete(false, acme("s2"))
	c.say(acme("later"))
	var sinks sync.WaitGroup
	for range 2 {
		for _, store := range c.stores("") {
			s := c.newSink(store, 49*time.Hour)
			sinks.Go(func() {
				if err := s.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	sinks.Wait()
	c.eraseFiles()
	c.want("two sinks", acme("kept"), acme("kept2"), acme("later"))
}

// A sink of one tenant compares its sessions only, also where it shares a database.
func TestCompareOneTenant(t *testing.T) {
	c := newCopies(t)
	zeta := chunk.RootSession("zeta", "s1")
	c.say(acme("s1"), acme("kept"), zeta)
	run := func(tenant string, later time.Duration) {
		store := c.stores(tenant)[1]
		s := c.newSink(store, later)
		s.cfg.Tenant = tenant
		if err := s.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run("acme", 0)
	run("zeta", 0)
	c.delete(true, acme("s1"), zeta)
	want := func(what string, a, z bool) {
		t.Helper()
		if text := c.postgresText(); strings.Contains(text, word(acme("s1"))) != a || strings.Contains(text, word(zeta)) != z || !strings.Contains(text, word(acme("kept"))) {
			t.Errorf("%s: content of acme %t, of zeta %t, want %t and %t", what, !a, !z, a, z)
		}
	}
	run("acme", 49*time.Hour)
	want("acme has compared", false, true)
	run("zeta", 49*time.Hour)
	want("zeta has compared", false, false)
}

// Deletions that have left the log with the records before them are found as soon as the log has lost records, whatever their age.
func TestCompareAfterLostRecords(t *testing.T) {
	c := newCopies(t)
	c.say(acme("kept"), acme("kept2"), acme("s1"))
	c.copy(0)
	c.delete(true, acme("s1"))
	c.copy(0)
	c.want("the log has lost the record of the deletion only", acme("kept"), acme("kept2"), acme("s1"))
	c.say(acme("later"))
	c.copy(0)
	c.say(acme("s2"))
	c.copy(0)
	c.delete(true, acme("s2"))
	c.purge("TR_CHUNKS_0", "tr.chunks.0.>")
	c.copy(0)
	c.want("the log is empty", acme("kept"), acme("kept2"), acme("later"))
}

// A sink of which the log is another one compares nothing.
func TestNoComparisonWithAnotherLog(t *testing.T) {
	c := newCopies(t)
	c.say(acme("s1"), acme("s2"))
	c.copy(0)
	c.projector.Stop()
	for _, stream := range []string{"TR_CHUNKS_0", "KV_TR_SNAPSHOTS"} {
		if err := c.JS.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := topology.Ensure(t.Context(), c.JS, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, store := range c.stores("") {
		s := c.newSink(store, 49*time.Hour)
		if _, err := s.EraseDeleted(t.Context()); !errors.Is(err, errOtherLog) {
			t.Errorf("erase: %v", err)
		}
		if _, err := s.Check(t.Context()); !errors.Is(err, errOtherLog) {
			t.Errorf("check: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	c.copy(49 * time.Hour)
	c.want("another log", acme("s1"), acme("s2"))
	if !strings.Contains(c.logged.String(), "run tailrace-sink check") {
		t.Error("the log does not say what to do")
	}
}

func TestIsLate(t *testing.T) {
	now := time.Now()
	for i, c := range []struct {
		begun, stored time.Duration // ago
		want          bool
	}{{48 * time.Hour, 48 * time.Hour, true}, {46 * time.Hour, 90 * time.Hour, false}, {90 * time.Hour, 46 * time.Hour, false}} {
		s := &Sink{begun: now.Add(-c.begun)}
		if got := s.isLate(now.Add(-c.stored), now); got != c.want || s.isLate(time.Time{}, now) {
			t.Errorf("case %d: %t", i, got)
		}
	}
}
