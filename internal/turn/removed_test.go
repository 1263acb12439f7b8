package turn

import (
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var session = chunk.RootSession("acme", "s1")

// removedLog generates records of the session and of sub-agents that start each other, of which truncated records remove any ranges.
func removedLog(t *rapid.T) (log []chunk.Record) {
	sessions := []chunk.Session{session}
	for _, id := range []string{"k1", "k2", "k3"} {
		sessions = append(sessions, chunk.Session{Tenant: session.Tenant, Root: session.Root, ID: id})
	}
	last := map[string]chunk.Ordinal{}
	for range rapid.IntRange(1, 30).Draw(t, "records") {
		of := rapid.SampledFrom(sessions).Draw(t, "session")
		last[of.ID] += chunk.Ordinal(rapid.SampledFrom([]int{1, 1, 1, 2, 0}).Draw(t, "ordinals"))
		var body chunk.Body = chunk.TextDelta{Delta: "x"}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			var removed chunk.Truncated
			for range rapid.IntRange(0, 3).Draw(t, "ranges") {
				first := rapid.Int64Range(0, 12).Draw(t, "first")
				removed.Removed = append(removed.Removed, chunk.OrdinalRange{First: first, Last: first + rapid.Int64Range(-1, 6).Draw(t, "more")})
			}
			body = removed
		case 1, 2:
			body = chunk.SubagentStart{SubAgentType: "x", CallID: "c", SubSessionID: rapid.SampledFrom(sessions[1:]).Draw(t, "started").ID}
		}
		log = append(log, removedRecord(t, len(log)+1, of, last[of.ID], body))
	}
	return log
}

func removedRecord(t rapid.TB, n int, of chunk.Session, at chunk.Ordinal, body chunk.Body) chunk.Record {
	t.Helper()
	c := chunk.Chunk{AgentID: of.ID, AgentType: "x", Timestamp: 1, Step: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return chunk.Record{Seq: chunk.Seq(n), Session: of, Epoch: 1, Ordinal: at, Type: c.Type(), Data: data}
}

// TestRemovedRecords compares what a replay leaves out with all removals of a log: a record is removed by name, or with the start of its sub-agent.
func TestRemovedRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := removedLog(t)
		m := New(nil, Rules{}, Config{})
		m.bind(&chunk.Record{Session: session})
		r := m.BeginReplay()
		r.whole = rapid.Bool().Draw(t, "whole")
		for _, rec := range log {
			r.FindRemoved(rec)
		}
		for i := range log {
			if got, want := r.IsRemoved(&log[i]), isRemovedFrom(log, &log[i], r.whole); got != want {
				t.Fatalf("the removal of record %d is %v, want %v", i+1, got, want)
			}
		}
	})
}

// isRemovedFrom reports whether a log removes a record.
func isRemovedFrom(log []chunk.Record, rec *chunk.Record, whole bool) bool {
	started := map[string]chunk.Record{}
	for _, r := range log {
		if b, ok := chunk.BodyOf[chunk.SubagentStart](r); ok && r.Type == chunk.TypeSubagentStart {
			if _, known := started[b.SubSessionID]; !known {
				started[b.SubSessionID] = r
			}
		}
		b, ok := chunk.BodyOf[chunk.Truncated](r)
		if !ok || r.Type != chunk.TypeTruncated {
			continue
		}
		names := func(of *chunk.Record) bool {
			return of.Session == r.Session && of.Ordinal < r.Ordinal && b.Removes(of.Ordinal)
		}
		for id, start := range started {
			if names(&start) {
				delete(started, id)
			}
		}
		if names(rec) || whole && rec.Seq < r.Seq && !hasStart(rec.Session, started) {
			return true
		}
	}
	return false
}

// hasStart reports whether the starts of a session, and of those that started it, are not removed.
func hasStart(s chunk.Session, started map[string]chunk.Record) bool {
	for range len(started) + 1 {
		if s == session {
			return true
		}
		s = started[s.ID].Session
	}
	return false
}

// TestManyRemovals checks that a replay of a turn with many sub-agents and cleanups, which a client can write, keeps nothing of the sub-agents for each cleanup.
func TestManyRemovals(t *testing.T) {
	var log []chunk.Record
	add := func(body chunk.Body) {
		n := len(log) + 1
		log = append(log, removedRecord(t, n, session, chunk.Ordinal(n), body))
	}
	add(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	for i := range 4000 {
		add(chunk.SubagentStart{SubAgentType: "x", SubSessionID: fmt.Sprint("k", i), CallID: fmt.Sprint("c", i)})
		add(chunk.TextDelta{Delta: "a"})
		text := int64(len(log))
		add(chunk.Truncated{FromSequence: text, AtSequence: text, Removed: []chunk.OrdinalRange{{First: text, Last: text}}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := New(nil, Rules{}, Config{}).BeginReplay()
	for i := range log {
		r.FindRemoved(log[i])
	}
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 32<<20 {
		t.Errorf("%d records took %d bytes", len(log), bytes)
	}
}
