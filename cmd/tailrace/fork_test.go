package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// shownOf describes the messages of a snapshot. Calls without an outcome fail in a fork.
func shownOf(s fold.Snapshot) string {
	var b strings.Builder
	for _, m := range s.AllMessages() {
		fmt.Fprintf(&b, "%s in %d, replaced %t\n", m.ID(), m.Shown, m.Replaced)
		for i := range m.Parts {
			p := &m.Parts[i]
			p.Streaming = false
			if c := p.Call; c != nil && c.Output == nil && (c.State == fold.CallFailed && c.Error == "no answer to the call" || c.State == fold.CallStreaming || c.State == fold.CallOpen || c.State == fold.CallAwaitingApproval || c.State == fold.CallApproved) {
				fmt.Fprintf(&b, "  %s has no outcome\n", c.ID)
				continue
			}
			fmt.Fprintf(&b, "  %s\n", p.AppendJSON(nil))
		}
	}
	return b.String()
}

// Forks at random positions of random logs have the messages and the state of the point, their snapshots are those that the log has, and rebuilding them changes nothing.
func TestForksAreVerified(t *testing.T) {
	t.Parallel()
	s := newRebuildEnv(t)
	log, err := consumers.New(s.js, consumers.Config{Layout: siteLayout})
	if err != nil {
		t.Fatal(err)
	}
	reader := projector.NewReader(s.store, log)
	random := rand.New(rand.NewPCG(1, 2))
	const forks = 60
	for n := range forks {
		origin := s.all[2*(n%6)]
		var records []chunk.Record
		for rec, err := range log.Replay(t.Context(), chunk.Range{Session: origin}) {
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, rec)
		}
		at := records[random.IntN(len(records))].Cursor()
		fork := chunk.RootSession(origin.Tenant, fmt.Sprintf("f%d", n))
		out, _ := s.run(0, "fork", origin.ID, "--tenant", origin.Tenant, "--at", at.String(), "--session", fork.ID)
		var forked conversation.Forked
		if err := json.Unmarshal([]byte(out), &forked); err != nil || forked.Session != fork.ID {
			t.Fatalf("%s: %v", out, err)
		}
		want := fold.New(origin).Snapshot()
		if point, ok := chunk.ParseCursor(forked.At); ok {
			if want, err = reader.SnapshotAt(t.Context(), origin, point.Seq); err != nil || point.Seq > at.Seq {
				t.Fatalf("%s at %s: %v", out, at, err)
			}
		}
		got, err := reader.Snapshot(t.Context(), fork)
		if err != nil {
			t.Fatal(err)
		}
		if shownOf(got) != shownOf(want) || string(got.State) != string(want.State) {
			t.Fatalf("%s at %s: %s\n%s%s\nwant\n%s%s", origin, at, out, shownOf(got), got.State, shownOf(want), want.State)
		}
	}
	if events, _ := s.run(0, "audit", "--no-follow", "--format", "json", "--tenant", "default"); strings.Count(events, `"act":"fork"`) != forks/2 || !strings.Contains(events, `"target":"f0"`) {
		t.Errorf("the audit log:\n%s", events)
	}
	s.run(0, "rebuild", "--all")
	s.expect(s.results(0, "verify", "--all"), fmt.Sprintf("same:%d", len(s.all)+forks))
	heads := func() (all string) {
		for n := range forks {
			head, _, err := s.store.Load(t.Context(), chunk.RootSession(s.all[2*(n%6)].Tenant, fmt.Sprintf("f%d", n)))
			if err != nil {
				t.Fatal(err)
			}
			all += string(head.AppendHead(nil))
		}
		return all
	}
	before := heads()
	s.run(0, "rebuild", "--all")
	if after := heads(); after != before {
		t.Error("the snapshots were rebuilt differently")
	}
}

func TestForkArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"s1", "s2"}, {"s1", "--edit", "c1"}, {"s1", "--edit", "c1={"}, {"s1", "--edit", "c1=@none"}, {"a b"}} {
		if code, _, errs := runCommand(t, "", append([]string{"fork"}, args...)...); code != exitUsage {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
}
