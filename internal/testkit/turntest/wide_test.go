package turntest

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestWide checks that wide logs have what their description says.
func TestWide(t *testing.T) {
	missing := map[string]bool{}
	for _, what := range []string{
		"repeated", "fenced", "gap", "malformed", "spelled", "unknown type", "part", "file", "preliminary", "metadata", "workflow", "network", "kortyx", "whole state",
		"usage", "outcome without a start", "outcome of an earlier turn", "ranges", "committed step", "end twice", "failed after the end", "resumed", "after the end", "many",
	} {
		missing[what] = true
	}
	for _, typ := range chunk.Types() {
		missing[string(typ)] = true
	}
	logs := Logs(Config{Turns: 3, SubAgents: true, Crashes: true, Reuse: true, Wide: true})
	for seed := 0; seed < 3000 && len(missing) > 0; seed++ {
		log := logs.Example(seed)
		for _, found := range features(log) {
			delete(missing, found)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no log has %q", slices.Sorted(maps.Keys(missing)))
	}
}

// features returns what is rare of a log.
func features(log Log) (found []string) {
	if len(log) > 300 {
		found = append(found, "many")
	}
	seen, last, stepEnds := map[chunk.Position]bool{}, map[chunk.Session]chunk.Record{}, map[chunk.Ordinal]bool{}
	turn, began, ended := 0, map[string]int{}, chunk.Type("")
	for _, rec := range log {
		before, known := last[rec.Session]
		at := chunk.Position{Ordinal: rec.Ordinal}
		switch {
		case known && rec.Epoch < before.Epoch:
			found = append(found, "fenced")
		case rec.Session == Session && seen[at]:
			found = append(found, "repeated")
		case known && rec.Ordinal > before.Ordinal+1:
			found = append(found, "gap")
		}
		if rec.Session == Session {
			seen[at] = true
		}
		last[rec.Session] = rec
		found = append(found, string(rec.Type))
		if bytes.HasPrefix(rec.Data, []byte("{\n ")) {
			found = append(found, "spelled")
		}
		c, err := rec.Decode()
		if err != nil {
			found = append(found, "malformed")
			continue
		}
		if slices.ContainsFunc(c.Extra, func(m chunk.Member) bool { return m.Name == chunk.PartMember }) {
			found = append(found, "part")
		}
		if rec.Session == Session && ended != "" {
			switch {
			case rec.Type == chunk.TypeStreamEnd:
				found = append(found, "end twice")
			case rec.Type == chunk.TypeStreamFailed && ended == chunk.TypeStreamEnd:
				found = append(found, "failed after the end")
			case rec.Type == chunk.TypeTextDelta:
				found = append(found, "after the end")
			}
		}
		switch b := c.Body.(type) {
		case chunk.Opaque:
			found = append(found, "unknown type")
		case chunk.File:
			found = append(found, "file")
		case chunk.Custom:
			switch {
			case b.EventName == chunk.PreliminaryEvent:
				found = append(found, "preliminary")
			case b.EventName == chunk.MetadataEvent:
				found = append(found, "metadata")
			case strings.HasPrefix(b.EventName, "mastra.workflow"):
				found = append(found, "workflow")
			case strings.HasPrefix(b.EventName, "mastra.routing"):
				found = append(found, "network")
			case strings.HasPrefix(b.EventName, "kortyx."):
				found = append(found, "kortyx")
			}
		case chunk.StatePatch:
			if len(b.Patches) == 1 && b.Patches[0].Path == "" {
				found = append(found, "whole state")
			}
		case chunk.RunStarted:
			if rec.Session == Session {
				ended = ""
				if b.Mode == "execute" {
					turn++
				}
			}
		case chunk.RunResumed:
			if ended == chunk.TypeRunInterrupted {
				found = append(found, "resumed")
			}
		case chunk.ToolStart:
			began[rec.Session.ID+"/"+b.ToolCallID] = turn
		case chunk.ToolEnd:
			switch of, known := began[rec.Session.ID+"/"+b.ToolCallID]; {
			case !known:
				found = append(found, "outcome without a start")
			case of < turn:
				found = append(found, "outcome of an earlier turn")
			}
		case chunk.StepEnd:
			stepEnds[rec.Ordinal] = rec.Session == Session
			if b.Usage != nil && b.Usage.CachedTokens != nil {
				found = append(found, "usage")
			}
		case chunk.Truncated:
			if len(b.Removed) > 1 {
				found = append(found, "ranges")
			}
			for at, own := range stepEnds {
				if own && rec.Session == Session && b.Removes(at) {
					found = append(found, "committed step")
				}
			}
		case chunk.StreamEnd, chunk.StreamFailed, chunk.RunInterrupted:
			if rec.Session == Session {
				ended = rec.Type
			}
		}
	}
	return found
}
