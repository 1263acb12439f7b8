//go:build e2e

package mastra

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/mastra"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestMessages loads the messages of a thread: they are those that Mastra itself stores of the messages of a page, and the adapter makes those of the page of them.
func TestMessages(t *testing.T) {
	all := recordings(t)
	seed := seedtest.Seed(t)
	for n := range *logs {
		g := newGenerator(t, seed, uint64(n))
		g.turn()
		all[fmt.Sprintf("-seed %d, log %d", seed, n)] = g.log
	}
	for name, l := range all {
		folder := fold.New(root)
		for _, rec := range l.records {
			if rec.Session == root {
				if err := folder.Apply(rec); err != nil {
					t.Fatal(err)
				}
			}
		}
		f := aisdk.Snapshot(folder.Snapshot(), aisdk.SnapshotOptions{Partial: true, Timestamp: 1767225600037})
		var page []json.RawMessage
		for _, m := range f.Messages {
			page = append(page, m.AppendJSON(nil))
		}
		body := mastra.AppendSnapshot(nil, f)
		v := ask(t, "stored", map[string]any{"body": body, "page": page})
		if got, want := partsStored(v.Stored), partsStored(v.Wanted); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: stored\n got %s\nwant %s", name, asJSON(got), asJSON(want))
		}
		if len(v.Messages) != len(page) {
			t.Fatalf("%s: %d messages, want %d", name, len(v.Messages), len(page))
		}
		for i, raw := range page {
			var want map[string]any
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			got := v.Messages[i]
			if a, b := compared(partsOf(got)), compared(partsOf(want)); got["id"] != want["id"] || got["role"] != want["role"] || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: message %d\n got %s\nwant %s", name, i, asJSON(got), asJSON(want))
			}
		}
	}
}

// partsStored returns the parts of messages, without the id and the title of a source, which Mastra loses when it stores a page, and without the state of a text, which
// it keeps if the page has one message only.
func partsStored(messages []map[string]any) (out [][]part) {
	for _, m := range messages {
		content, _ := m["content"].(map[string]any)
		parts := partsOf(content)
		for _, p := range parts {
			if p["type"] == "text" {
				delete(p, "state")
			}
			if source, ok := p["source"].(map[string]any); ok {
				p["source"] = source["url"]
			}
		}
		out = append(out, append(parts, part{"id": m["id"], "role": m["role"], "format": content["format"], "metadata": content["metadata"]}))
	}
	return out
}
