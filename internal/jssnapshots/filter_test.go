package jssnapshots

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// folded returns a session of a user with a title, and with a failed call or one that waits. Each model used fewer tokens than the one before it.
func folded(t *testing.T, s chunk.Session, owner, title, failure string, waits bool, models ...string) fold.Snapshot {
	t.Helper()
	log := storetest.NewLog()
	started := chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: title}}}
	if owner != "" {
		started.By = &chunk.Principal{Subject: owner}
	}
	log.Append(t, s, 0, started)
	if failure != "" {
		log.Append(t, s, 1, chunk.ToolStart{ToolCallID: "c1", ToolName: "get_order", Arguments: chunk.Value(`{}`)})
		log.Append(t, s, 1, chunk.ToolEnd{ToolCallID: "c1", ToolName: "get_order", Result: chunk.Value(`null`), Error: &failure})
	}
	for n, model := range models {
		log.Append(t, s, 1, chunk.StepEnd{Model: &model, Usage: &chunk.Usage{InputTokens: chunk.Number(fmt.Sprint(100 - n)), OutputTokens: "1"}})
	}
	if waits {
		log.Append(t, s, 1, chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "delete", ApprovalID: "a", Input: chunk.Value(`{}`)})
		log.Append(t, s, 1, chunk.StreamPaused{})
	}
	return storetest.Fold(t, log, s)
}

// Each filter selects what a simple function selects of the whole list, with any size of a page.
func TestFilters(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			testFilters(t, open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: partitions}))
		})
	}
}

func testFilters(t *testing.T, st *Store) {
	t.Helper()
	rng := seedtest.Rand(t)
	usedModels := []string{"m-1", "m-2", "m-3", "m-4", "m-5"}
	oneOf := func(list ...string) string { return list[rng.IntN(len(list))] }
	revisions := make(map[chunk.Session]projector.Revision)
	for n := range 300 {
		s := chunk.RootSession(oneOf("acme", "acme", "other"), fmt.Sprintf("s%d", rng.IntN(100)))
		if rng.IntN(5) == 0 {
			s = s.Child("kid")
		}
		snap := folded(t, s, oneOf("", "ann", "bob"), oneOf("Where is my PARCEL?", "Delete files", ""), oneOf("", fmt.Sprintf("no answer after %d ms", n), "Ärger"), rng.IntN(4) == 0, usedModels[:rng.IntN(6)]...)
		if rng.IntN(4) == 0 {
			snap.Origin = &chunk.ForkOrigin{Session: oneOf("s1", "s2")}
		}
		if rng.IntN(10) == 0 {
			snap = fold.NewTombstone(s, chunk.Position{Seq: chunk.Seq(n + 1), Ordinal: chunk.Ordinal(n + 1)}, 1)
		}
		revisions[s] = mustSave(t, st, snap, revisions[s])
	}
	all := pages(t, st, "acme", projector.SessionQuery{Limit: 50})
	if len(all) < 30 {
		t.Fatalf("%d sessions", len(all))
	}
	failure := fold.LatestError{Code: "tool_failed", Text: "no answer after 1 ms", Tool: "get_order"}
	early, late := all[3*len(all)/4].SavedAt, all[len(all)/4].SavedAt
	contains := func(text string, of ...string) bool {
		return strings.Contains(strings.ToLower(strings.Join(of, "\n")), strings.ToLower(text))
	}
	errorOf := func(l projector.SessionInfo) fold.LatestError {
		if l.Summary.Error == nil {
			return fold.LatestError{}
		}
		return *l.Summary.Error
	}
	for _, tt := range []struct {
		q    projector.SessionQuery
		want func(projector.SessionInfo) bool
	}{
		{projector.SessionQuery{Limit: 7, Owner: "ann"}, func(l projector.SessionInfo) bool { return l.Owner == "ann" }},
		{projector.SessionQuery{Limit: 4, Origin: "s2"}, func(l projector.SessionInfo) bool { return l.Origin == "s2" }},
		{projector.SessionQuery{Limit: 3, Model: "m-2"}, func(l projector.SessionInfo) bool { return len(l.Summary.Models) > 1 }},
		{projector.SessionQuery{Limit: 3, Model: "m-5"}, func(projector.SessionInfo) bool { return false }}, // a head names four
		{projector.SessionQuery{Limit: 3, Model: "M-1"}, func(projector.SessionInfo) bool { return false }},
		{projector.SessionQuery{Limit: 3, Waiting: true}, func(l projector.SessionInfo) bool { return l.Summary.Approvals > 0 }},
		{projector.SessionQuery{Limit: 3, ErrorGroup: failure.Group()}, func(l projector.SessionInfo) bool { return contains("no answer", errorOf(l).Text) }},
		{projector.SessionQuery{Limit: 200, Since: late}, func(l projector.SessionInfo) bool { return !l.SavedAt.Before(late) }},
		{projector.SessionQuery{Limit: 1, Since: late}, func(l projector.SessionInfo) bool { return !l.SavedAt.Before(late) }},
		{projector.SessionQuery{Limit: 4, Until: early}, func(l projector.SessionInfo) bool { return l.SavedAt.Before(early) }},
		{projector.SessionQuery{Limit: 4, Since: early, Until: late}, func(l projector.SessionInfo) bool { return !l.SavedAt.Before(early) && l.SavedAt.Before(late) }},
		{projector.SessionQuery{Limit: 5, Text: "parcel"}, func(l projector.SessionInfo) bool { return contains("parcel", l.Summary.Title) }},
		{projector.SessionQuery{Limit: 5, Text: "äRGER"}, func(l projector.SessionInfo) bool { return contains("ärger", errorOf(l).Text) }},
		{projector.SessionQuery{Limit: 5, Text: "an"}, func(l projector.SessionInfo) bool { return contains("an", l.Owner, l.Session.ID, errorOf(l).Text) }},
		{projector.SessionQuery{Limit: 5, Text: "an", TitleOnly: true}, func(projector.SessionInfo) bool { return false }},
		{projector.SessionQuery{Limit: 1, Text: all[len(all)-1].Session.ID}, func(l projector.SessionInfo) bool { return contains(all[len(all)-1].Session.ID, l.Session.ID) }},
		{projector.SessionQuery{Limit: 5, Text: "s7", Shows: func(id, _ string) bool { return id != "s70" }}, func(l projector.SessionInfo) bool {
			return contains("s7", l.Session.ID) && l.Session.ID != "s70"
		}},
		{projector.SessionQuery{Limit: 5, Text: "s1", TitleOnly: true}, func(projector.SessionInfo) bool { return false }},
		{projector.SessionQuery{Limit: 5, Text: "s7"}, func(l projector.SessionInfo) bool { return contains("s7", l.Session.ID) }},
		{projector.SessionQuery{Limit: projector.MaxScan}, func(projector.SessionInfo) bool { return true }},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(l projector.SessionInfo) bool { return !tt.want(l) })
		if at := slices.IndexFunc(want, func(l projector.SessionInfo) bool { return l.Session.ID == tt.q.Text }); at > 0 && !tt.q.TitleOnly && tt.q.Shows == nil {
			exact := want[at]
			want = slices.Insert(slices.Delete(want, at, at+1), 0, exact)
		}
		got := pages(t, st, "acme", tt.q)
		same := func(a, b projector.SessionInfo) bool {
			return a.Session == b.Session && a.Summary.Title == b.Summary.Title && a.SavedAt.Equal(b.SavedAt)
		}
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%+v:\n got %v\nwant %v", tt.q, got, want)
		}
	}
	testSelect(t, st, all)
	page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Limit: 5})
	if err != nil || !page.Through.Equal(all[5].SavedAt) || page.Scanned < 5 {
		t.Errorf("the page reaches %s with %d heads, want %s, %v", page.Through, page.Scanned, all[5].SavedAt, err)
	}
	if page, err = st.Sessions(t.Context(), "acme", projector.SessionQuery{Limit: 500}); err != nil || !page.Through.IsZero() || page.Next != "" {
		t.Errorf("the whole list reaches %s, %v", page.Through, err)
	}
}

// A session is found from a time on although the end of the bucket has only heads of other tenants.
func TestSinceBehindOtherTenants(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{Partitions: partitions})
			begun := time.Now().Add(-time.Minute)
			mustSave(t, st, fold.New(chunk.RootSession("acme", "s1")).Snapshot(), 0)
			for n := range 40 * partitions {
				mustSave(t, st, fold.New(chunk.RootSession("other", fmt.Sprint("s", n))).Snapshot(), 0)
			}
			if all := pages(t, st, "acme", projector.SessionQuery{Limit: 1, Since: begun}); len(all) != 1 || all[0].Session.ID != "s1" {
				t.Errorf("the list has %v, want s1", all)
			}
		})
	}
}

// Select gets each session once, in order, also if pages end before a session that it refuses, and pages have what it selects.
func testSelect(t *testing.T, st *Store, all []projector.SessionInfo) {
	t.Helper()
	var seen, listed []string
	for before := ""; ; {
		calls := 0
		page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Limit: 3, Before: before, Select: func(l projector.SessionInfo) (selected, more bool) {
			if calls++; calls > 7 {
				return true, false
			}
			seen = append(seen, l.Session.ID)
			return strings.HasSuffix(l.Session.ID, "3"), true
		}})
		if err != nil || len(page.Sessions) > 3 || calls == 0 {
			t.Fatalf("%d calls, page %+v, %v", calls, page, err)
		}
		for _, l := range page.Sessions {
			listed = append(listed, l.Session.ID)
		}
		if before = page.Next; before == "" {
			break
		}
	}
	ids, selected := []string(nil), []string(nil)
	for _, l := range all {
		ids = append(ids, l.Session.ID)
		if strings.HasSuffix(l.Session.ID, "3") {
			selected = append(selected, l.Session.ID)
		}
	}
	if !slices.Equal(seen, ids) || !slices.Equal(listed, selected) {
		t.Errorf("Select gets %v, want %v;\nlisted are %v, want %v", seen, ids, listed, selected)
	}
}

// A scan of about MaxScan heads ends a page that has found too few, with the time that it has reached.
func TestScanEnds(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	const heads = 2*projector.MaxScan + 10_000
	value := header(fold.New(chunk.RootSession("acme", "s")).Snapshot())
	for n := range heads {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("$KV.TR_SNAPSHOTS.h.acme.s%d.s%d", n, n), Header: value}); err != nil {
			t.Fatal(err)
		}
		if n%1000 == 0 {
			<-js.PublishAsyncComplete()
		}
	}
	<-js.PublishAsyncComplete()
	seen, q := 0, projector.SessionQuery{Text: "s17", Limit: projector.MaxScan}
	for n := 0; ; n++ {
		page, err := st.Sessions(t.Context(), "acme", q)
		if err != nil || n > 5 {
			t.Fatal(n, err)
		}
		if page.Scanned > 2*projector.MaxScan || page.Through.IsZero() != (page.Next == "") {
			t.Errorf("%d heads, through %s", page.Scanned, page.Through)
		}
		seen += len(page.Sessions)
		if q.Before = page.Next; q.Before == "" {
			break
		}
	}
	calls := 0
	page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Select: func(projector.SessionInfo) (bool, bool) {
		calls++
		return false, calls <= 2000
	}})
	if err != nil || calls != 2001 || page.Scanned > projector.MaxScan || page.Next == "" || len(page.Sessions) > 0 {
		t.Errorf("%d calls and %d heads, %v", calls, page.Scanned, err)
	}
	want := 0
	for n := range heads {
		if strings.Contains(fmt.Sprint("s", n), "s17") {
			want++
		}
	}
	if seen != want {
		t.Errorf("%d sessions, want %d", seen, want)
	}
}

// A head that an earlier build has written is listed, and found by its id, and its waiting approvals are counted.
func TestEarlierHeader(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	m := nats.NewMsg("$KV.TR_SNAPSHOTS.h.acme.old.old")
	m.Header.Set(indexHeader, `{"status":"paused","agentType":"a","owner":"ann","seq":7,"ordinal":7,"epoch":1,"bytes":9,"created":5,"began":6,"approvals":2}`)
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	mustSave(t, st, folded(t, chunk.RootSession("acme", "new"), "bob", "old age", "", false), 0)
	page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Text: "OLD"})
	if err != nil || len(page.Sessions) != 2 || page.Sessions[1].Owner != "ann" || page.Sessions[1].Summary.Approvals != 2 || page.Sessions[1].Summary.Title != "" {
		t.Errorf("page %+v, %v", page, err)
	}
	if page, err = st.Sessions(t.Context(), "acme", projector.SessionQuery{Model: "m"}); err != nil || len(page.Sessions) != 0 {
		t.Errorf("the page of a model is %+v, %v", page, err)
	}
	if n, err := st.NewApprovals().Count(t.Context()); err != nil || n != 2 {
		t.Errorf("%d approvals, %v", n, err)
	}
}

// A deletion removes title and error from the list with the session.
func TestDeletedSummary(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	s := chunk.RootSession("acme", "s")
	mustSave(t, st, folded(t, s, "ann", "a secret", "failure", false), 0)
	snap, r, err := st.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, st, fold.NewTombstone(s, snap.Position, snap.Epoch), r)
	bucket, err := st.bucketOf(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	m, err := bucket.stream.GetLastMsgForSubject(t.Context(), bucket.subject("h.acme.s.s"))
	if err != nil || strings.Contains(fmt.Sprint(m.Header), "secret") || strings.Contains(fmt.Sprint(m.Header), "failure") {
		t.Errorf("the header is %v, %v", m.Header, err)
	}
	if page, err := st.Sessions(t.Context(), "acme", projector.SessionQuery{Text: "secret"}); err != nil || len(page.Sessions) != 0 {
		t.Errorf("page %+v, %v", page, err)
	}
}

// A header has at most maxIndex bytes, for any texts, and can be read again.
func TestHeaderSize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		runes := func(name string, most int) string {
			return rapid.StringOfN(rapid.RuneFrom([]rune("aä\"\\<&\u65e5😀é")), most, most, -1).Draw(rt, name)
		}
		snap := fold.New(chunk.RootSession("acme", "s")).Snapshot()
		snap.Owner = &chunk.Principal{Subject: strings.Repeat("o", rapid.IntRange(0, 255).Draw(rt, "owner"))}
		snap.AgentType = strings.Repeat("t", rapid.IntRange(0, 128).Draw(rt, "type"))
		log := storetest.NewLog()
		log.Append(t, snap.Session, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: runes("title", 90)}}})
		for n := range rapid.IntRange(0, 6).Draw(rt, "models") {
			model := fmt.Sprint(n) + strings.Repeat("m", 60)
			log.Append(t, snap.Session, 1, chunk.StepEnd{Model: &model, Provider: &model, Usage: &chunk.Usage{InputTokens: "123456789012345", OutputTokens: "9"}})
		}
		log.Append(t, snap.Session, 1, chunk.Error{Error: runes("error", 130), Code: new(runes("code", 70))})
		made := storetest.Fold(t, log, snap.Session)
		made.Owner, made.AgentType = snap.Owner, snap.AgentType
		h := header(made)
		index, ok := ReadIndex(h)
		text := strings.Join(h.Values(indexHeader), "")
		if s := readSummary(h, index); len(text) > maxIndex || !ok || index.Owner != snap.Owner.Subject || s.Runs != 1 || s.Error == nil || strings.ContainsAny(text, "\r\n") {
			rt.Fatalf("%d bytes: %q", len(text), text)
		}
	})
}
