package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// rebuildEnv is a server with sessions in its log.
type rebuildEnv struct {
	t     *testing.T
	url   string
	js    jetstream.JetStream
	store *jssnapshots.Store
	draft *storetest.Log // copy of the log
	all   []chunk.Session
}

var siteLayout = subjects.Layout{Partitions: 2}

func newRebuildEnv(t *testing.T) *rebuildEnv {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	streamtest.Ensure(t, js, topology.Config{Layout: siteLayout})
	store, err := jssnapshots.New(js, jssnapshots.Config{Layout: siteLayout})
	if err != nil {
		t.Fatal(err)
	}
	s := &rebuildEnv{t: t, url: srv.URL, js: js, store: store, draft: storetest.NewLog()}
	for n := range 6 {
		root := chunk.RootSession([]string{"default", "other"}[n%2], fmt.Sprintf("s%d", n))
		s.all = append(s.all, root, root.Child("sub"))
	}
	for n, session := range s.all {
		s.write(session, uint64(n), 60)
	}
	return s
}

// write publishes records of a random session.
func (s *rebuildEnv) write(session chunk.Session, seed uint64, n int) {
	s.t.Helper()
	a := storetest.NewSessionGenerator(s.draft, session, seed)
	a.WithCleanups = false
	for _, rec := range a.Write(s.t, n) {
		subject, err := siteLayout.Subject(session)
		if err != nil {
			s.t.Fatal(err)
		}
		m := codec.EncodeJSON(codec.Envelope{Session: session, Epoch: rec.Epoch, Ordinal: rec.Ordinal},
			codec.Header{Type: rec.Type, Timestamp: rec.StoredAt.UnixMilli()}, rec.Data)
		if _, err := s.js.PublishMsg(s.t.Context(), &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// startAs begins a session of an owner.
func (s *rebuildEnv) startAs(owner, session string) {
	s.t.Helper()
	writer, err := producers.New(s.js, producers.Config{Layout: siteLayout, Positions: jssnapshots.NewPositions(s.js, siteLayout)})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = writer.Start(s.t.Context(), chunk.RootSession("default", session), chunk.RunStarted{Input: []chunk.InputMessage{{Content: "hi"}}, By: &chunk.Principal{Subject: owner}})
	if err := errors.Join(err, writer.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a command and returns its output.
func (s *rebuildEnv) run(want int, args ...string) (out, errs string) {
	s.t.Helper()
	code, out, errs := runCommand(s.t, "", append(args, "--nats-url", s.url, "--partitions", "2")...)
	if code != want {
		s.t.Fatalf("%q: exit code %d, want %d:\n%s%s", args, code, want, out, errs)
	}
	return out, errs
}

// results runs a command with --json and counts its results.
func (s *rebuildEnv) results(want int, args ...string) map[string]int {
	s.t.Helper()
	out, _ := s.run(want, append(args, "--json")...)
	count := make(map[string]int)
	for text := range strings.Lines(out) {
		var l struct {
			Result string `json:"result"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			s.t.Fatalf("%q: %v", text, err)
		}
		count[l.Result]++
	}
	return count
}

func (s *rebuildEnv) expect(got map[string]int, want string) {
	s.t.Helper()
	if text := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(got), "map["), "]"); text != want {
		s.t.Fatalf("%s, want %s", text, want)
	}
}

// falsify stores the fold of another log at the position of the snapshot of a
// session.
func (s *rebuildEnv) falsify(session chunk.Session) {
	s.t.Helper()
	head, revision, err := s.store.Load(s.t.Context(), session)
	if err != nil {
		s.t.Fatal(err)
	}
	other := storetest.NewLog()
	a := storetest.NewSessionGenerator(other, session, 1000)
	a.WithCleanups = false
	a.Write(s.t, int(head.Position.Ordinal))
	wrong := fold.New(session)
	for _, rec := range other.Records(session) {
		if rec.Ordinal > head.Position.Ordinal {
			break
		}
		if rec.Ordinal == head.Position.Ordinal {
			rec.Seq = head.Position.Seq
		}
		rec.StoredAt = time.UnixMilli(head.Created) // a snapshot that began before the log cannot be compared with it
		err := wrong.Apply(rec)
		if errors.Is(err, fold.ErrInvalidRecord) {
			err = wrong.Skip(rec, "poison")
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.store.Save(s.t.Context(), wrong.Snapshot(), revision); err != nil {
		s.t.Fatal(err)
	}
}

// expire removes all but the last records of a session from the log.
func (s *rebuildEnv) expire(session chunk.Session, keep uint64) {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), siteLayout.Stream(siteLayout.Partition(session)))
	if err != nil {
		s.t.Fatal(err)
	}
	subject, err := siteLayout.Subject(session)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := stream.Purge(s.t.Context(), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeKeep(keep)); err != nil {
		s.t.Fatal(err)
	}
}

// Sessions without snapshots are folded, a wrong snapshot is found and
// replaced, a snapshot whose log has expired is kept; a second run changes
// nothing.
func TestVerifyAndRebuild(t *testing.T) {
	s := newRebuildEnv(t)
	s.expect(s.results(exitOK, "verify", "--all"), "unsaved:12")
	s.expect(s.results(exitOK, "rebuild", "--all"), "replaced:12")
	s.expect(s.results(exitOK, "verify", "--all"), "same:12")
	s.expect(s.results(exitOK, "rebuild", "--all"), "unchanged:12")

	s.falsify(s.all[2])
	out, errs := s.run(exitError, "verify", "--all")
	if !strings.Contains(out, "different   "+s.all[2].String()) || !strings.Contains(out, "\n  records\n    stored \"") || !strings.Contains(errs, "12 sessions, 11 same, 1 different") {
		t.Errorf("verify prints %s%s", out, errs)
	}
	s.run(exitOK, "verify", "--session", "s0")
	if out, _ := s.run(exitOK, "rebuild", "--session", "s1", "--tenant", "other"); !strings.Contains(out, "replaced    "+s.all[2].String()) || !strings.Contains(out, "unchanged   "+s.all[3].String()) {
		t.Errorf("rebuild prints %s", out)
	}
	s.expect(s.results(exitOK, "verify", "--all"), "same:12")

	s.expire(s.all[4], 5)
	s.expire(s.all[5], 0)
	s.expect(s.results(exitOK, "verify", "--all"), "same:10 unprovable:2")
	s.expect(s.results(exitOK, "rebuild", "--all"), "kept:2 unchanged:10")

	s.run(exitError, "verify", "--session", "unknown")
	s.run(exitError, "rebuild", "--session", "unknown")
	for _, wrong := range [][]string{{"verify"}, {"rebuild"}, {"verify", "--all", "--session", "s1"}, {"rebuild", "--all", "--to", "TR_SNAPSHOTS"}, {"rebuild", "--all", "--to", "a.b"}, {"rebuild", "--all", "--to", "TR_SNAPSHOTS_7"}, {"rebuild", "--drop", "TR_SNAPSHOTS"}, {"rebuild", "--drop", "TR_SNAPSHOTS_1"}, {"rebuild", "--all", "--drop", "B"}} {
		s.run(exitUsage, wrong...)
	}
}

// Another bucket is filled while the live one is in use, and the projectors
// switch to it.
func TestRebuildIntoAnotherBucket(t *testing.T) {
	s := newRebuildEnv(t)
	s.run(exitOK, "rebuild", "--all")
	s.expire(s.all[4], 5)
	s.expire(s.all[5], 0)
	switched := writeStreams(t, `{"snapshots": {"bucket": "TR_SNAPSHOTS2"}}`)
	_, errs := s.run(exitOK, "rebuild", "--all", "--to", "TR_SNAPSHOTS2")
	if !strings.Contains(errs, "12 sessions, 10 replaced, 2 copied") || !strings.Contains(errs, `TAILRACE_STREAMS file that has {"snapshots": {"bucket": "TR_SNAPSHOTS2"}}`) {
		t.Errorf("rebuild prints %s", errs)
	}
	s.expect(s.results(exitOK, "rebuild", "--all", "--to", "TR_SNAPSHOTS2"), "unchanged:12")
	s.expect(s.results(exitOK, "verify", "--all", "--streams", switched), "same:10 unprovable:2")

	// A projector with the new bucket continues at the positions stored there.
	s.write(chunk.RootSession("default", "late"), 99, 40)
	p := startProcess(t, "projector", "--nats-url", s.url, "--partitions", "2", "--streams", switched, "--ops-listen", "127.0.0.1:0")
	layout := siteLayout
	layout.SnapshotBucket = "TR_SNAPSHOTS2"
	store, err := jssnapshots.New(s.js, jssnapshots.Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the snapshot of the late session", func(ctx context.Context) error {
		v, _, err := store.Load(ctx, chunk.RootSession("default", "late"))
		if err == nil && int(v.Position.Ordinal) != len(s.draft.Records(chunk.RootSession("default", "late"))) {
			err = fmt.Errorf("at record %d", v.Position.Ordinal)
		}
		return err
	})
	if got := p.end(); got != exitOK {
		t.Errorf("projector: exit code %d", got)
	}
	s.expect(s.results(exitOK, "verify", "--all", "--streams", switched), "same:11 unprovable:2")
	if _, _, err := s.store.Load(t.Context(), chunk.RootSession("default", "late")); err == nil {
		t.Error("the old bucket has the late session")
	}

	// The old bucket can be deleted; the bucket that the projectors save to
	// cannot, whatever the settings of the command are.
	if _, errs := s.run(exitError, "rebuild", "--drop", "TR_SNAPSHOTS2"); !strings.Contains(errs, `"TR_SNAPSHOTS2", want an unused bucket`) {
		t.Errorf("rebuild prints %s", errs)
	}
	if _, errs := s.run(exitOK, "rebuild", "--drop", "TR_SNAPSHOTS", "--streams", switched); !strings.Contains(errs, "deleted bucket TR_SNAPSHOTS ") {
		t.Errorf("rebuild prints %s", errs)
	}
	for p := range siteLayout.PartitionCount() {
		if _, err := s.js.KeyValue(t.Context(), names.Layout(siteLayout).SnapshotsOf(p)); !errors.Is(err, jetstream.ErrBucketNotFound) {
			t.Errorf("the old bucket %s: %v", names.Layout(siteLayout).SnapshotsOf(p), err)
		}
		if heads, err := s.heads(names.Layout(layout).SnapshotsOf(p)); err != nil || heads == 0 {
			t.Errorf("%d heads in %s, %v", heads, names.Layout(layout).SnapshotsOf(p), err)
		}
	}
	s.expect(s.results(exitOK, "verify", "--all", "--streams", switched), "same:11 unprovable:2")
}

// heads returns the number of snapshots in a bucket.
func (s *rebuildEnv) heads(bucket string) (int, error) {
	stream, err := s.js.Stream(s.t.Context(), "KV_"+bucket)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(s.t.Context(), jetstream.WithSubjectFilter("$KV."+bucket+"."+names.SnapshotHeadKeys()))
	if err != nil {
		return 0, err
	}
	return len(info.State.Subjects), nil
}
