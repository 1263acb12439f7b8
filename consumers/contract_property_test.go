package consumers_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// After the same operations, the log in memory and the log of a server return the same records and errors.
func TestMemoryAnswersAsTheServerDoes(t *testing.T) {
	server := newEnv(t)
	memory := memlog.New()
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		// All rounds use the same two logs, each with new sessions, because creating a stream for each round is slow.
		round++
		p := &pair{memory: memory, server: server, base: memory.End()}
		root := chunk.RootSession("acme", fmt.Sprint("root", round))
		p.sessions = []chunk.Session{root, chunk.RootSession("acme", fmt.Sprint("other", round))}
		for kid := range rapid.IntRange(1, 6).Draw(rt, "sub-agents") { // trees with few and with many sub-agents are read in different ways
			p.sessions = append(p.sessions, root.Child(fmt.Sprint("kid", kid)))
		}
		p.script(rt)
		for range 6 {
			p.ask(rt)
		}
	})
}

type pair struct {
	memory   *memlog.Log
	server   *env
	sessions []chunk.Session
	ever     []chunk.Record
	base     chunk.Seq // where the round began
}

// script executes the same random operations on both.
func (p *pair) script(rt *rapid.T) {
	begun := make(map[chunk.Session]bool)
	for range rapid.IntRange(1, 25).Draw(rt, "steps") {
		s := rapid.SampledFrom(p.sessions).Draw(rt, "session")
		minSeq := p.base + chunk.Seq(rapid.IntRange(0, len(p.ever)+3).Draw(rt, "minSeq"))
		switch what := rapid.IntRange(0, 99).Draw(rt, "what"); {
		case !begun[s]:
			begun[s] = true
			p.append(rt, s, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"start"`)
		case what < 72:
			p.append(rt, s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"%d"`, what))
		case what < 80:
			p.append(rt, s, chunk.TypeStreamEnd, "")
		case what < 95:
			p.memory.Cleanup(s, 0, minSeq)
			p.server.Cleanup(s, 0, minSeq)
		default:
			through := min(minSeq, p.memory.End())
			p.memory.Expire(through)
			p.server.Expire(through)
		}
	}
}

func (p *pair) append(rt *rapid.T, s chunk.Session, typ chunk.Type, members string) {
	rec := p.memory.Append(s, typ, members)
	if err := memlog.Same([]chunk.Record{p.server.Append(s, typ, members)}, []chunk.Record{rec}); err != nil {
		rt.Fatalf("stored: %v", err)
	}
	p.ever = append(p.ever, rec)
}

// ask reads the same random ranges and cursors of both and compares the results.
func (p *pair) ask(rt *rapid.T) {
	ctx := p.server.t.Context()
	s := rapid.SampledFrom(p.sessions).Draw(rt, "of")
	after := p.position(rt, s)
	of := chunk.Range{Session: s, After: after}
	if rapid.Bool().Draw(rt, "bounded") {
		of.Through = after.Seq + chunk.Seq(rapid.IntRange(1, 15).Draw(rt, "through"))
	}
	p.replay(rt, of)
	of.Tree, of.After.Ordinal = true, 0
	p.replay(rt, of)

	for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
		pos, gotErr := p.memory.CheckCursor(ctx, s, scope, chunk.Cursor{Seq: after.Seq})
		wantPos, wantErr := p.server.CheckCursor(ctx, s, scope, chunk.Cursor{Seq: after.Seq})
		p.compare(rt, fmt.Sprintf("verify %d of %s in scope %d", after.Seq, s, scope), nil, nil, gotErr, wantErr)
		if pos != wantPos {
			rt.Fatalf("verify %d of %s: %+v, the server %+v", after.Seq, s, pos, wantPos)
		}
	}
}

func (p *pair) replay(rt *rapid.T, of chunk.Range) {
	got, gotErr := memlog.Collect(p.memory.Replay(p.server.t.Context(), of))
	want, wantErr := memlog.Collect(p.server.Replay(p.server.t.Context(), of))
	p.compare(rt, fmt.Sprintf("replay of %+v", of), got, want, gotErr, wantErr)
}

// position returns the zero position, any bare sequence, or the position of a record of s.
func (p *pair) position(rt *rapid.T, s chunk.Session) chunk.Position {
	switch rapid.IntRange(0, 3).Draw(rt, "position") {
	case 0:
		return chunk.Position{}
	case 1:
		return chunk.Position{Seq: p.base + chunk.Seq(rapid.IntRange(1, int(p.memory.End()-p.base)+2).Draw(rt, "bare"))}
	}
	var own []chunk.Record
	for _, rec := range p.ever {
		if rec.Session == s {
			own = append(own, rec)
		}
	}
	if len(own) == 0 {
		return chunk.Position{}
	}
	return rapid.SampledFrom(own).Draw(rt, "had").Position()
}

func (p *pair) compare(rt *rapid.T, what string, got, want []chunk.Record, gotErr, wantErr error) {
	if class(gotErr) != class(wantErr) {
		rt.Fatalf("%s: memory has records %v, error %v; the server %v, %v", what, got, gotErr, want, wantErr)
	}
	if err := memlog.Same(got, want); err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
}

func class(err error) string {
	var truncated *chunk.TruncatedError
	switch {
	case err == nil:
		return "nil"
	case errors.As(err, &truncated):
		return string(truncated.Reason)
	case errors.Is(err, chunk.ErrUnknownSession):
		return "unknown session"
	}
	return err.Error()
}
