package chunk_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// The schemas name exactly the members of chunks: a full sample has each of them, a minimal sample the required ones, and a sample with an empty value in place
// of a member is valid.
func TestShapes(t *testing.T) {
	types := chunktest.Types()
	slices.Sort(types)
	if got := chunk.Types(); !slices.Equal(got, types) {
		t.Fatalf("types %v, want %v", got, types)
	}
	base := []string{"type", "agentId", "agentType", "timestamp", "step", "x-trace", "Delta"}
	for _, typ := range types {
		var all, required []string
		for _, s := range chunk.Schema(typ) {
			all = append(all, s.Name)
			if s.Required {
				required = append(required, s.Name)
			}
			if s.Empty != nil {
				checkBlank(t, typ, s)
			}
		}
		slices.Sort(all)
		slices.Sort(required)
		if got := names(t, chunktest.Full(typ), base); !slices.Equal(got, all) {
			t.Errorf("%s: members %v, shapes of %v", typ, got, all)
		}
		if got := names(t, chunktest.Minimal(typ), base); !slices.Equal(got, required) {
			t.Errorf("%s: required members %v, shapes say %v", typ, got, required)
		}
	}
	if s := chunk.Schema("from_the_future"); s != nil {
		t.Errorf("shapes %v of an unknown type", s)
	}
}

func names(t *testing.T, c chunk.Chunk, but []string) []string {
	t.Helper()
	var names []string
	for name := range maps.Keys(object(t, c)) {
		if !slices.Contains(but, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func checkBlank(t *testing.T, typ chunk.Type, s chunk.MemberSchema) {
	t.Helper()
	members := object(t, chunktest.Full(typ))
	members[s.Name] = json.RawMessage(s.Empty)
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chunk.Decode(text); err != nil {
		t.Errorf("%s with %s for %s: %v", typ, s.Empty, s.Name, err)
	}
}

func object(t *testing.T, c chunk.Chunk) map[string]json.RawMessage {
	t.Helper()
	text, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]json.RawMessage{}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&members); err != nil {
		t.Fatal(err)
	}
	return members
}
