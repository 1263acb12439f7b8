package subjects

import (
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

func anyToken() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`) }

func anySession() *rapid.Generator[chunk.Session] {
	return rapid.Custom(func(t *rapid.T) chunk.Session {
		return chunk.Session{
			Tenant: anyToken().Draw(t, "tenant"),
			Root:   anyToken().Draw(t, "root"),
			ID:     anyToken().Draw(t, "session"),
		}
	})
}

func anyLayout() *rapid.Generator[Layout] {
	return rapid.Custom(func(t *rapid.T) Layout {
		return Layout{
			Prefix:     rapid.SampledFrom([]string{"", "tr", "acme", "a.b-c.d_e", "tr.chunks"}).Draw(t, "prefix"),
			Partitions: rapid.IntRange(0, maxPartitions).Draw(t, "partitions"),
		}
	})
}

// Parse is the inverse of Subject in every layout, and nothing of another
// layout passes for one of ours by accident of the prefix.
func TestParseIsTheInverseOfSubject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLayout().Draw(t, "layout"), anySession().Draw(t, "session")
		subject, err := l.Subject(s)
		if err != nil {
			t.Fatalf("Subject: %v", err)
		}
		got, err := l.Parse(subject)
		if err != nil || got != s {
			t.Fatalf("Parse(%q) = %v, %v; want %v", subject, got, err, s)
		}
	})
}

// The obvious way to compute a partition agrees with ours.
func TestPartitionIsFNV1a(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLayout().Draw(t, "layout"), anySession().Draw(t, "session")
		h := fnv.New32a()
		if _, err := h.Write([]byte(s.Tenant + "." + s.Root)); err != nil {
			t.Fatal(err)
		}
		if got, want := l.Partition(s), int(h.Sum32()%uint32(l.PartitionCount())); got != want {
			t.Fatalf("Partition(%v) = %d, want %d", s, got, want)
		}
	})
}
