package names

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

func TestNames(t *testing.T) {
	acme := Layout{Prefix: "acme.prod", Partitions: 2}
	for name, got := range map[string]string{
		"TR_CHUNKS_0":        Layout{}.Stream(0),
		"TR_COMMANDS":        Layout{}.CommandStream(),
		"TR_SNAPSHOTS":       Layout{}.Snapshots(),
		"Other_2":            Layout{SnapshotBucket: "Other_2"}.Snapshots(),
		"TR_OBJECTS":         Layout{}.Objects(),
		"TR_DEADLETTERS":     Layout{}.DeadLetterStream(),
		"TR_AUDIT":           Layout{}.AuditStream(),
		"TR_USAGE":           Layout{}.Usage(),
		"tr.chunks.0.*.*.*":  Layout{}.AllFilter(0),
		"tr.chunks.*.*.*.*":  Layout{}.AllChunks(),
		"tr.commands.*.*.*":  Layout{}.AllCommands(),
		"ACME_PROD_CHUNKS_1": acme.Stream(1),
	} {
		if got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	}
}

// The error of an invalid layout names the field, and every method that can return an error returns it.
func TestLayoutIsRefused(t *testing.T) {
	tests := map[string]struct {
		layout Layout
		want   string
	}{
		"reserved by the server":  {Layout{Prefix: "$JS"}, `Prefix "$JS": token "$JS" has '$' at byte 0`},
		"inbox of a client":       {Layout{Prefix: "_INBOX"}, `Prefix "_INBOX": subjects that begin with _ are reserved by NATS`},
		"a bucket with a dot":     {Layout{SnapshotBucket: "a.b"}, `SnapshotBucket "a.b" has '.' at byte 1`},
		"a wildcard":              {Layout{Prefix: "tr.*"}, `Prefix "tr.*": token "*" has '*' at byte 0`},
		"a dot at the end":        {Layout{Prefix: "tr."}, `Prefix "tr.": token "" is empty`},
		"a space":                 {Layout{Prefix: "t r"}, `Prefix "t r": token "t r" has ' ' at byte 1`},
		"too long":                {Layout{Prefix: strings.Repeat("a.", 100) + "a"}, "Prefix has 201 bytes, want at most 128"},
		"fewer than no partition": {Layout{Partitions: -1}, "Partitions is -1, want 1 to 64"},
		"too many partitions":     {Layout{Partitions: 65}, "Partitions is 65, want 1 to 64"},
	}
	s := chunk.RootSession("acme", "s1")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for method, err := range map[string]error{
				"Validate":      test.layout.Validate(),
				"Subject":       second(test.layout.Subject(s)),
				"Tree":          second(test.layout.Tree(s)),
				"TenantFilter":  second(test.layout.TenantFilter(0, "acme")),
				"Command":       second(test.layout.Command("acme", "writer", "s1")),
				"CommandFilter": second(test.layout.CommandFilter("writer")),
			} {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s = %v, want %s", method, err, test.want)
				}
			}
			_ = test.layout.Partition(s) // has no error to return, but does not panic
		})
	}
	if _, err := (Layout{Partitions: 2}).TenantFilter(2, "acme"); err == nil || err.Error() != "partition 2: want 0 to 1" {
		t.Errorf("TenantFilter of partition 2 of 2: %v", err)
	}
}

func second(_ string, err error) error { return err }

// Parse runs for every message of the log.
func TestParseAllocatesNothing(t *testing.T) {
	l := Layout{Partitions: 4}
	subject := must(l.Subject(chunk.RootSession("acme", "s1")))
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := l.Parse(subject); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Parse allocates %v times", allocs)
	}
}

func BenchmarkParse(b *testing.B) {
	l := Layout{Partitions: 4}
	subject := must(l.Subject(chunk.RootSession("acme", "0198c0de-4f7d-7cc2-9d3e-5a1b2c3d4e5f")))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Parse(subject); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSubject(b *testing.B) {
	l := Layout{Partitions: 4}
	s := chunk.RootSession("acme", "0198c0de-4f7d-7cc2-9d3e-5a1b2c3d4e5f")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Subject(s); err != nil {
			b.Fatal(err)
		}
	}
}
