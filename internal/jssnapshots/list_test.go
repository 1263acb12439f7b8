package jssnapshots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// pages reads a list page by page.
func pages(t *testing.T, st *Store, tenant string, q projector.SessionQuery) (all []projector.SessionInfo) {
	t.Helper()
	for n := 0; ; n++ {
		page, err := st.Sessions(t.Context(), tenant, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Sessions) > q.Limit {
			t.Fatalf("a page of %d, want at most %d", len(page.Sessions), q.Limit)
		}
		all = append(all, page.Sessions...)
		if q.Before = page.Next; q.Before == "" {
			return all
		}
		if n > 10_000 {
			t.Fatal("no end of pages")
		}
	}
}

// The list equals that of a simple reference implementation, for any order of the saves of tenants, roots and children, every filter and every size of a page.
func TestListAgainstAReference(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			testListAgainstAReference(t, open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: partitions}))
		})
	}
}

func testListAgainstAReference(t *testing.T, st *Store) {
	t.Helper()
	rng := seedtest.Rand(t)
	var reference []fold.Snapshot // as saved, the latest at the end
	revisions := make(map[chunk.Session]projector.Revision)
	for n := range 400 {
		s := chunk.RootSession([]string{"acme", "other"}[rng.IntN(2)], fmt.Sprintf("s%d", rng.IntN(120)))
		if rng.IntN(4) == 0 {
			s = s.Child("kid")
		}
		snap := fold.New(s).Snapshot()
		snap.Position = chunk.Position{Seq: chunk.Seq(n + 1), Ordinal: chunk.Ordinal(n + 1)}
		snap.Status = []fold.Status{fold.Active, fold.Ended, fold.Failed}[rng.IntN(3)]
		snap.AgentType = []string{"planner", "writer", ""}[rng.IntN(3)]
		snap.Created, snap.Run.StartedAt = int64(n+1), int64(n+2)
		if rng.IntN(20) == 0 {
			snap = fold.NewTombstone(s, snap.Position, 1)
		}
		revisions[s] = mustSave(t, st, snap, revisions[s])
		reference = append(slices.DeleteFunc(reference, func(old fold.Snapshot) bool { return old.Session == s }), snap)
	}
	for _, q := range []projector.SessionQuery{
		{Limit: 1}, {Limit: 7}, {Limit: 200}, {Limit: 3, Status: fold.Failed}, {Limit: 50, AgentType: "writer"},
		{Limit: 2, Status: fold.Active, AgentType: "planner"}, {Limit: 5, Status: fold.Paused},
	} {
		var want, got []string
		for _, snap := range slices.Backward(reference) {
			s := snap.Session
			if s.Tenant == "acme" && s.ID == s.Root && !snap.Deleted() && (q.Status == "" || q.Status == snap.Status) && (q.AgentType == "" || q.AgentType == snap.AgentType) {
				want = append(want, fmt.Sprint(s, snap.Status, snap.AgentType, snap.Position, snap.Created, snap.Run.StartedAt))
			}
		}
		for _, l := range pages(t, st, "acme", q) {
			got = append(got, fmt.Sprint(l.Session, l.Status, l.AgentType, l.Position, l.Created.UnixMilli(), l.StartedAt.UnixMilli()))
			if age := time.Since(l.SavedAt); age < 0 || age > time.Minute {
				t.Errorf("saved %s ago", age)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v:\n got %v\nwant %v", q, got, want)
		}
	}
}

// Sessions that are saved between two pages are not returned twice.
func TestListWhileSaving(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			testListWhileSaving(t, open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: partitions}))
		})
	}
}

func testListWhileSaving(t *testing.T, st *Store) {
	t.Helper()
	revisions := make(map[string]projector.Revision)
	touch := func(id string) {
		t.Helper()
		snap := fold.New(chunk.RootSession("acme", id)).Snapshot()
		revisions[id] = mustSave(t, st, snap, revisions[id])
	}
	for n := range 40 {
		touch(fmt.Sprintf("s%d", n))
	}
	seen := make(map[string]bool)
	q := projector.SessionQuery{Limit: 5}
	for {
		page, err := st.Sessions(t.Context(), "acme", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Sessions {
			if seen[l.Session.ID] {
				t.Errorf("%s twice", l.Session)
			}
			seen[l.Session.ID] = true
			touch(l.Session.ID)
		}
		if q.Before = page.Next; q.Before == "" {
			break
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 sessions", len(seen))
	}
}

// Other keys and invalid names are ignored, and an invalid cursor is rejected.
func TestListRefuses(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 3).Write(t, 50)
	mustSave(t, st, storetest.Fold(t, log, s1), 0)
	for subject, header := range map[string]string{"h.acme.x.x": "", "h.acme.y.y": "{", "h.acme.z": `{"status":"ended"}`, "h.acme.v.v": `{"status":7}`} {
		m := nats.NewMsg("$KV.TR_SNAPSHOTS." + subject)
		m.Header.Set(indexHeader, header)
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].Session != s1 || page.Next != "" {
		t.Errorf("page %+v, %v", page, err)
	}
	for _, cursor := range []string{"x", "-1", "01", "1.5", strings.Repeat("9", 30)} {
		if _, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Before: cursor}); !errors.Is(err, projector.ErrBadCursor) {
			t.Errorf("cursor %s: %v, want ErrCursor", cursor, err)
		}
	}
	for _, cursor := range []string{"0", "1"} {
		if page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Before: cursor}); err != nil || len(page.Sessions) != 0 || page.Next != "" {
			t.Errorf("before %s: %+v, %v", cursor, page, err)
		}
	}
	for _, tenant := range []string{"", "*", "a.b", ">"} {
		if _, err := st.Sessions(t.Context(), tenant, projector.SessionQuery{}); !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("tenant %q: %v, want ErrInvalid", tenant, err)
		}
	}
}

// BenchmarkSessions reads one page out of many sessions: the first, one from the middle, one whose filter matches at most one session in two hundred, one with a
// text, the sessions of a summary, and for comparison all sessions, as a list without an index would.
func BenchmarkSessions(b *testing.B) {
	for _, c := range []struct{ sessions, partitions int }{{1000, 1}, {100_000, 1}, {100_000, 4}, {100_000, 8}, {100_000, 16}} {
		b.Run(fmt.Sprintf("sessions=%d/partitions=%d", c.sessions, c.partitions), func(b *testing.B) {
			js := natstest.Start(b).JetStream(b)
			layout := subjects.Layout{Partitions: c.partitions}
			st := openFor(b, js, layout)
			fill(b, js, layout, c.sessions)
			all, err := st.buckets(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			var places []string
			for _, bk := range all {
				info, err := bk.stream.Info(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				places = append(places, fmt.Sprint(info.State.LastSeq/2))
			}
			middle := strings.Join(places, cursorSeparator)
			for _, c := range []struct {
				name string
				q    projector.SessionQuery
			}{{"first", projector.SessionQuery{}}, {"middle", projector.SessionQuery{Before: middle}}, {"rare", projector.SessionQuery{Status: fold.Failed}}, {"text", projector.SessionQuery{Text: "PARCEL 9"}}, {"summary", projector.SessionQuery{Limit: projector.MaxScan}}} {
				b.Run(c.name, func(b *testing.B) {
					for b.Loop() {
						page, err := st.Sessions(b.Context(), "acme", c.q)
						if err != nil || len(page.Sessions) == 0 {
							b.Fatal(len(page.Sessions), err)
						}
					}
				})
			}
			b.Run("all", func(b *testing.B) {
				filter, err := names.SnapshotTenantHeadKeys("acme")
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					n := 0
					for _, bk := range all {
						for _, err := range st.heads(b.Context(), bk, filter, 1) {
							if err != nil {
								b.Fatal(err)
							}
							n++
						}
					}
					b.ReportMetric(float64(n), "heads")
				}
			})
		})
	}
}

// fill stores heads of 4 KB with a message of 1 KB each, a tenth of them of other tenants and of children.
func fill(b *testing.B, js jetstream.JetStream, layout subjects.Layout, sessions int) {
	b.Helper()
	value := []byte(strings.Repeat("x", 4<<10))
	for n := range sessions {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		switch n % 20 {
		case 1:
			s.Tenant = "other"
		case 2:
			s = s.Child("kid")
		}
		index, summary := indexOf(fold.New(s).Snapshot()), fold.Summary{Runs: 2, Messages: 7}
		index.AgentType, index.Owner = "planner", "user-17"
		summary.Title = fmt.Sprintf("Where is my parcel %d? I have ordered it two weeks ago", n)
		summary.Models = []fold.ModelUsage{{Model: "gpt-5-mini", Provider: "openai", Usage: fold.Usage{Input: 11_000, Output: 1100, Cached: 500}}}
		if n%200 == 0 {
			index.Status = string(fold.Failed)
			summary.Error = &fold.LatestError{Code: "tool_failed", Tool: "get_order", Text: fmt.Sprintf("no answer from \"orders\" after %d ms", n), At: 1764230000000}
		}
		key, err := names.SnapshotHeadKey(s)
		if err != nil {
			b.Fatal(err)
		}
		prefix := "$KV." + names.Layout(layout).SnapshotsOf(layout.Partition(s)) + "."
		for _, m := range []*nats.Msg{
			{Subject: prefix + key, Header: nats.Header{indexHeader: {encode(index), encode(summary)}}, Data: value},
			{Subject: prefix + "m" + key[1:] + ".0", Data: value[:1<<10]},
		} {
			if _, err := js.PublishMsgAsync(m); err != nil {
				b.Fatal(err)
			}
		}
		if n%500 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
}
