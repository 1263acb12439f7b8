package names

import (
	"errors"
	"hash/fnv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

func anyToken() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`) }

// anyID generates ids of sessions: tokens, and names of other systems.
func anyID() *rapid.Generator[string] {
	return rapid.OneOf(anyToken(), rapid.StringMatching(`(_x-)?[A-Za-z0-9._~:/?#@!$&'()+,;=%\[\]-]{1,61}`)).Filter(func(id string) bool { return CheckID("id", id) == nil })
}

func anySession() *rapid.Generator[chunk.Session] {
	return rapid.Custom(func(t *rapid.T) chunk.Session {
		return chunk.Session{
			Tenant: anyToken().Draw(t, "tenant"),
			Root:   anyID().Draw(t, "root"),
			ID:     anyID().Draw(t, "session"),
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

// nearSubject generates untrusted input: a valid subject, truncated, extended or with exchanged parts, or any other text.
func nearSubject() *rapid.Generator[string] {
	part := rapid.SampledFrom([]string{"tr", "chunks", "commands", "0", "00", "+0", "1", "acme", "s1", "*", ">", "", " ", "$JS", "_INBOX", "\r\n", "ü", "\x00", "h", "m"})
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(part, 0, 9), func(parts []string) string { return strings.Join(parts, ".") }),
		rapid.Map(anySession(), func(s chunk.Session) string { return "tr.chunks.0." + s.Tenant + "." + s.Root + "." + s.ID }),
	)
}

// Parse is the inverse of Subject in every layout.
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

// Parse accepts only the output of Subject: a session has exactly one subject.
func TestParseAcceptsOnlySubjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, subject := anyLayout().Draw(t, "layout"), nearSubject().Draw(t, "subject")
		s, err := l.Parse(subject)
		if err != nil {
			if _, ok := errors.AsType[*ParseError](err); !ok {
				t.Fatalf("Parse(%q) = %v, want a *ParseError", subject, err)
			}
			return
		}
		if again, err := l.Subject(s); err != nil || again != subject {
			t.Fatalf("Parse(%q) = %v, whose subject is %q, %v", subject, s, again, err)
		}
	})
}

// For any name of a tenant, a root, a session or an agent type, the result is a literal subject of six tokens (five for a command) with the prefix and of
// bounded length, or an error.
func TestAnyNameIsOneToken(t *testing.T) {
	hostile := rapid.OneOf(nearSubject(), anyToken(), rapid.StringN(0, 200, 5000))
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout().Draw(t, "layout")
		a, b, c := hostile.Draw(t, "a"), hostile.Draw(t, "b"), hostile.Draw(t, "c")
		prefix := l.withDefaults().Prefix
		if subject, err := l.Subject(chunk.Session{Tenant: a, Root: b, ID: c}); err == nil {
			wantLiteral(t, subject, prefix, 4)
		}
		if subject, err := l.Command(a, b, c); err == nil {
			wantLiteral(t, subject, prefix, 3)
		}
		if filter, err := l.Tree(chunk.Session{Tenant: a, Root: b, ID: c}); err == nil {
			literal, ok := strings.CutSuffix(filter, ".*")
			if !ok {
				t.Fatalf("Tree = %q, want the last token to be a star", filter)
			}
			wantLiteral(t, literal, prefix, 3)
		}
		if filter, err := l.TenantFilter(0, a); err == nil {
			literal, ok := strings.CutSuffix(filter, ".*.*")
			if !ok {
				t.Fatalf("TenantFilter = %q, want two stars at the end", filter)
			}
			wantLiteral(t, literal, prefix, 2)
		}
	})
}

// wantLiteral checks the prefix, "chunks" or "commands", and the number of tokens, none of which is a wildcard.
func wantLiteral(t *rapid.T, subject, prefix string, n int) {
	t.Helper()
	rest, ok := strings.CutPrefix(subject, prefix+".")
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != n+1 || tokens[0] != "chunks" && tokens[0] != "commands" {
		t.Fatalf("subject %q: want %s.(chunks|commands) and %d tokens", subject, prefix, n)
	}
	for _, tok := range tokens {
		if tok == "" || len(tok) > len(idtoken.Mark)+3*MaxToken || strings.ContainsFunc(tok, func(r rune) bool { return idtoken.Problem(string(r)) != "" }) {
			t.Fatalf("subject %q: token %q", subject, tok)
		}
	}
	if len(subject) > 620 {
		t.Fatalf("subject has %d bytes", len(subject))
	}
}

// Two sessions never have the same subject, and no filter of a tenant or tree matches subjects of another one.
func TestSessionsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout().Draw(t, "layout")
		a, b := anySession().Draw(t, "a"), anySession().Draw(t, "b")
		if rapid.Bool().Draw(t, "same tenant") {
			b.Tenant = a.Tenant
		}
		if rapid.Bool().Draw(t, "same root") {
			b.Root = a.Root
		}
		subjectA, subjectB := must(l.Subject(a)), must(l.Subject(b))
		if (subjectA == subjectB) != (a == b) {
			t.Fatalf("%v has %q and %v has %q", a, subjectA, b, subjectB)
		}
		if tree := must(l.Tree(a)); matches(tree, subjectB) != (a.Tree() == b.Tree()) {
			t.Fatalf("the tree %q of %v and %q of %v", tree, a, subjectB, b)
		}
		filter := must(l.TenantFilter(l.Partition(b), a.Tenant))
		if matches(filter, subjectB) != (a.Tenant == b.Tenant) {
			t.Fatalf("the filter %q of tenant %q and %q", filter, a.Tenant, subjectB)
		}
		if all := l.AllFilter(l.Partition(a)); !matches(all, subjectA) {
			t.Fatalf("the filter %q misses %q", all, subjectA)
		}
		if !matches(l.AllChunks(), subjectA) {
			t.Fatalf("the filter %q misses %q", l.AllChunks(), subjectA)
		}
	})
}

// matches compares a filter with a literal subject as a server does.
func matches(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	if n := len(f) - 1; f[n] == ">" && len(s) > n {
		f, s = f[:n], s[:n]
	}
	if len(f) != len(s) {
		return false
	}
	for i := range f {
		if f[i] != "*" && f[i] != s[i] {
			return false
		}
	}
	return true
}

func must(s string, err error) string {
	if err != nil {
		panic(err)
	}
	return s
}

// Partition returns the result of the obvious implementation.
func TestPartitionIsFNV1a(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s := anyLayout().Draw(t, "layout"), anySession().Draw(t, "session")
		h := fnv.New32a()
		if _, err := h.Write([]byte(s.Tenant + "." + idtoken.Of(s.Root))); err != nil {
			t.Fatal(err)
		}
		if got, want := l.Partition(s), int(h.Sum32()%uint32(l.PartitionCount())); got != want {
			t.Fatalf("Partition(%v) = %d, want %d", s, got, want)
		}
	})
}

// The errors name the received and the expected value.
func TestParseErrors(t *testing.T) {
	four := Layout{Partitions: 4}
	s := chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"} // partition 2 of 4
	tests := map[string]struct {
		subject, want string
	}{
		"another prefix":    {"xx.chunks.0.acme.r1.s1", `subject "xx.chunks.0.acme.r1.s1": want tr.chunks.<p>.<tenant>.<root>.<session>`},
		"empty":             {"", `subject "": want tr.chunks.<p>.<tenant>.<root>.<session>`},
		"only the prefix":   {"tr.chunks.1", `subject "tr.chunks.1": ends after the partition`},
		"a token missing":   {"tr.chunks.1.acme.r1", `subject "tr.chunks.1.acme.r1": want three tokens after the partition: tenant, root, session`},
		"a token too many":  {"tr.chunks.1.acme.r1.s1.x", `subject "tr.chunks.1.acme.r1.s1.x": session "s1.x": has '.' at byte 2, want only A-Z a-z 0-9 _ -`},
		"a star":            {"tr.chunks.1.acme.*.s1", `subject "tr.chunks.1.acme.*.s1": root "*": has '*' at byte 0, want only A-Z a-z 0-9 _ -`},
		"an empty tenant":   {"tr.chunks.1..r1.s1", `subject "tr.chunks.1..r1.s1": tenant "": is empty, want 1 to 64 of A-Z a-z 0-9 _ -`},
		"another partition": {"tr.chunks.3.acme.r1.s1", `subject "tr.chunks.3.acme.r1.s1": this session belongs to partition 2 of 4`},
		"zero in front":     {"tr.chunks.02.acme.r1.s1", `subject "tr.chunks.02.acme.r1.s1": this session belongs to partition 2 of 4`},
		"a sign in front":   {"tr.chunks.+2.acme.r1.s1", `subject "tr.chunks.+2.acme.r1.s1": this session belongs to partition 2 of 4`},
	}
	if p := four.Partition(s); p != 2 {
		t.Fatalf("the example lies in partition %d, want 2", p)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := four.Parse(test.subject)
			if err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	_, err := four.Parse("tr.chunks.1." + strings.Repeat("x", 100_000) + ".r.s")
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("the error about a long subject has %d bytes: it goes into logs and answers", len(err.Error()))
	}
	if tok, ok := errors.AsType[*TokenError](err); !ok || tok.Field != "tenant" || !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("error %v: want the *TokenError of the tenant inside, which is ErrInvalid", err)
	}
}

func TestCommandErrors(t *testing.T) {
	for _, subject := range []string{"", "tr.commands", "tr.commands.a.b", "tr.commands.a.b.c.d", "tr.commands.*.b.c", "tr.chunks.0.a.b.c", "tr.commands.a..c"} {
		if _, _, _, err := (Layout{}).ParseCommand(subject); err == nil {
			t.Errorf("ParseCommand(%q) succeeds", subject)
		}
	}
	if _, err := (Layout{}).CommandFilter(">"); err == nil {
		t.Error("CommandFilter accepts >")
	}
}

func TestCommandIsReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLayout().Draw(t, "layout")
		a, b, c := anyToken().Draw(t, "tenant"), anyToken().Draw(t, "agent type"), anyID().Draw(t, "session")
		subject := must(l.Command(a, b, c))
		gotA, gotB, gotC, err := l.ParseCommand(subject)
		if err != nil || gotA != a || gotB != b || gotC != c {
			t.Fatalf("ParseCommand(%q) = %q, %q, %q, %v", subject, gotA, gotB, gotC, err)
		}
		if filter := must(l.CommandFilter(b)); !matches(filter, subject) || !matches(l.AllCommands(), subject) {
			t.Fatalf("%q or %q misses %q", filter, l.AllCommands(), subject)
		}
	})
}

// Every dead letter has a subject of its own, which one of the filters matches.
func TestDeadLettersAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, s, id := anyLayout().Draw(t, "layout"), anySession().Draw(t, "session"), anyToken().Draw(t, "id")
		of, err := l.DeadLetter(s, id)
		if err != nil {
			t.Fatal(err)
		}
		stray, err := l.DeadLetterWithoutSession(l.PartitionCount()-1, id)
		if err != nil {
			t.Fatal(err)
		}
		if !matches(must(l.DeadLetters(s)), of) {
			t.Fatalf("the filter of the session misses %q", of)
		}
		filters := l.AllDeadLetters()
		if !matches(filters[0], of) || matches(filters[1], of) || matches(filters[0], stray) || !matches(filters[1], stray) {
			t.Fatalf("filters %q, subjects %q and %q: want one each", filters, of, stray)
		}
	})
	if _, err := (Layout{}).DeadLetter(chunk.RootSession("t", "s"), "1.2"); err == nil {
		t.Error("an id with a dot is taken")
	}
	if _, err := (Layout{}).DeadLetterWithoutSession(0, "*"); err == nil {
		t.Error("a wildcard is taken")
	}
}
