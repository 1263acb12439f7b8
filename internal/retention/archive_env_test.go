package retention

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/topology"
)

var alice = chunk.RootSession("acme", "alice")

// archiveEnv is a server with the log, an Archiver, and two readers: one that reads only the log, and one that uses archives.
type archiveEnv struct {
	tb       testing.TB
	js       jetstream.JetStream
	layout   subjects.Layout
	plain    *consumers.Reader
	archives *consumers.Reader
	c        *Archiver
	next     map[chunk.Session]chunk.Ordinal
}

func newArchiveEnv(tb testing.TB, cfg ArchiverConfig) *archiveEnv {
	tb.Helper()
	return newArchiveEnvOn(tb, natstest.Start(tb), cfg)
}

func newArchiveEnvOn(tb testing.TB, srv *natstest.Server, cfg ArchiverConfig) *archiveEnv {
	tb.Helper()
	w := &archiveEnv{tb: tb, js: srv.JetStream(tb), next: make(map[chunk.Session]chunk.Ordinal)}
	w.ensure()
	quiet := func(consumers.Malformed) {}
	w.plain = w.reader(srv, consumers.Config{OnMalformed: quiet})
	w.archives = w.reader(srv, consumers.Config{OnMalformed: quiet, UseArchives: true})
	var err error
	w.c, err = NewArchiver(w.js, cfg)
	w.must(err)
	return w
}

func (w *archiveEnv) reader(srv *natstest.Server, cfg consumers.Config) *consumers.Reader {
	w.tb.Helper()
	r, err := consumers.New(srv.JetStream(w.tb), cfg)
	w.must(err)
	return r
}

func (w *archiveEnv) must(err error) {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
}

func (w *archiveEnv) ctx() context.Context { return w.tb.Context() }

func (w *archiveEnv) ensure() {
	w.tb.Helper()
	streamtest.Ensure(w.tb, w.js, topology.Config{})
}

// put writes the next record of s.
func (w *archiveEnv) put(s chunk.Session, e chunk.Epoch, body chunk.Body) chunk.Record {
	w.tb.Helper()
	w.next[s]++
	return w.putAt(s, e, w.next[s], body)
}

func (w *archiveEnv) putAt(s chunk.Session, e chunk.Epoch, o chunk.Ordinal, body chunk.Body) chunk.Record {
	w.tb.Helper()
	m := w.message(s, e, o, body)
	ack, err := w.js.PublishMsg(w.ctx(), m)
	w.must(err)
	return chunk.Record{Seq: chunk.Seq(ack.Sequence), Session: s, Epoch: e, Ordinal: o, Type: body.Type(), Data: m.Data}
}

func (w *archiveEnv) message(s chunk.Session, e chunk.Epoch, o chunk.Ordinal, body chunk.Body) *nats.Msg {
	w.tb.Helper()
	return streamtest.Message(w.tb, w.layout, codec.Envelope{Session: s, Epoch: e, Ordinal: o}, body)
}

// run writes n records of s that end.
func (w *archiveEnv) run(s chunk.Session, n int) []chunk.Record {
	w.tb.Helper()
	var recs []chunk.Record
	for i := range n - 1 {
		recs = append(recs, w.put(s, 1, chunk.TextDelta{Delta: fmt.Sprint("word ", i)}))
	}
	return append(recs, w.put(s, 1, chunk.StreamEnd{StreamID: "x"}))
}

func (w *archiveEnv) subject(s chunk.Session) string {
	w.tb.Helper()
	subject, err := w.layout.Subject(s)
	w.must(err)
	return subject
}

func (w *archiveEnv) stream(name string) jetstream.Stream {
	w.tb.Helper()
	s, err := w.js.Stream(w.ctx(), name)
	w.must(err)
	return s
}

func (w *archiveEnv) log() jetstream.Stream { w.tb.Helper(); return w.stream(w.layout.Stream(0)) }

func (w *archiveEnv) bucket() jetstream.Stream {
	w.tb.Helper()
	return w.stream(archive.Stream(w.layout))
}

func (w *archiveEnv) remove(seq chunk.Seq) {
	w.tb.Helper()
	w.must(w.log().DeleteMsg(w.ctx(), uint64(seq)))
}

func (w *archiveEnv) purge(s chunk.Session) {
	w.tb.Helper()
	w.must(w.log().Purge(w.ctx(), jetstream.WithPurgeSubject(w.subject(s))))
}

// archiveSession archives s, which must succeed.
func (w *archiveEnv) archiveSession(s chunk.Session) {
	w.tb.Helper()
	wrote, err := w.c.Archive(w.ctx(), s)
	if err != nil || !wrote {
		w.tb.Fatalf("archived: %t, %v", wrote, err)
	}
}

// stored returns the number of segments and indexes in the bucket.
func (w *archiveEnv) stored() (segments, indexes uint64) {
	w.tb.Helper()
	info, err := w.bucket().Info(w.ctx(), jetstream.WithSubjectFilter("$O.TR_OBJECTS.C.archive.>"))
	w.must(err)
	for subject, n := range info.State.Subjects {
		if _, err := archive.SessionOf(w.layout, subject); err == nil {
			indexes += n
		} else {
			segments += n
		}
	}
	return segments, indexes
}

// answer is the result of a read.
type answer struct {
	records []chunk.Record
	err     string
}

func (w *archiveEnv) replay(r *consumers.Reader, of chunk.Range) answer {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx(), 20*time.Second)
	defer cancel()
	var a answer
	for rec, err := range r.Replay(ctx, of) {
		a.add(rec, err)
	}
	return a
}

// both reads a range with and without archives.
func (w *archiveEnv) both(of chunk.Range) (archives, plain answer) {
	w.tb.Helper()
	return w.replay(w.archives, of), w.replay(w.plain, of)
}

func (a *answer) add(rec chunk.Record, err error) {
	if err != nil {
		a.err = fmt.Sprintf("%T %v", err, err)
		return
	}
	a.records = append(a.records, rec)
}

// differ describes the difference between two answers, "" for none.
func differ(got, want answer) string {
	if got.err != want.err {
		return fmt.Sprintf("ended with %q after %d records, want %q after %d", got.err, len(got.records), want.err, len(want.records))
	}
	if len(got.records) != len(want.records) {
		return fmt.Sprintf("%d records, want %d", len(got.records), len(want.records))
	}
	for i, g := range got.records {
		want := want.records[i]
		if g.Seq != want.Seq || g.Session != want.Session || g.Epoch != want.Epoch || g.Ordinal != want.Ordinal || g.Type != want.Type ||
			!g.StoredAt.Equal(want.StoredAt) || g.StoredAt.Location() != want.StoredAt.Location() || !bytes.Equal(g.Data, want.Data) {
			return fmt.Sprintf("record %d is\n%+v, want\n%+v", i, g, want)
		}
	}
	return ""
}

// agree reads with both readers, and returns how many records came from archives.
func (w *archiveEnv) agree(s chunk.Session) uint64 {
	w.tb.Helper()
	before := w.archives.Stats().Archived
	for what, got := range map[string][2]answer{
		"the session": {w.replay(w.archives, chunk.Range{Session: s}), w.replay(w.plain, chunk.Range{Session: s})},
		"the tree":    {w.replay(w.archives, chunk.Range{Session: s, Tree: true}), w.replay(w.plain, chunk.Range{Session: s, Tree: true})},
	} {
		if d := differ(got[0], got[1]); d != "" {
			w.tb.Fatalf("%s: %s", what, d)
		}
	}
	return w.archives.Stats().Archived - before
}
