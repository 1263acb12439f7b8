package names

import (
	"strings"
	"testing"
)

// Parse never panics and accepts only the output of Subject, for any number of partitions. The same holds for commands and keys.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"tr.chunks.0.acme.r1.s1",
		"tr.chunks.00.acme.r1.s1",
		"tr.chunks.0.acme.*.s1",
		"tr.chunks.0.acme.r1.>",
		"tr.chunks.0.acme.r1.s1.s2",
		"tr.chunks.0..r1.s1",
		"tr.chunks.-1.acme.r1.s1",
		"tr.chunks.18446744073709551616.a.b.c",
		"tr.commands.acme.writer.s1",
		"h.acme.r1.s1",
		"m.acme.r1.s1.p7",
		"m.acme.r1.s1.p07",
		"m.acme.r1.s1.p18446744073709551616",
		"$JS.API.INFO",
		"_INBOX.x",
		"tr.chunks.0.a b.c\r\nPUB.d",
		strings.Repeat("tr.", 2000),
	} {
		f.Add(seed, uint16(0))
		f.Add(seed, uint16(7))
	}
	f.Fuzz(func(t *testing.T, s string, partitions uint16) {
		l := Layout{Partitions: int(partitions) % (maxPartitions + 1)}
		if session, err := l.Parse(s); err == nil {
			if again, err := l.Subject(session); err != nil || again != s {
				t.Errorf("Parse(%q) = %v, whose subject is %q, %v", s, session, again, err)
			}
		}
		if tenant, agent, session, err := l.ParseCommand(s); err == nil {
			if again, err := l.Command(tenant, agent, session); err != nil || again != s {
				t.Errorf("ParseCommand(%q): its subject is %q, %v", s, again, err)
			}
		}
		if session, err := ParseSnapshotHeadKey(s); err == nil {
			if again, err := SnapshotHeadKey(session); err != nil || again != s {
				t.Errorf("ParseSnapshotHeadKey(%q) = %v, whose key is %q, %v", s, session, again, err)
			}
		}
	})
}
