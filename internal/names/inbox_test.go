package names

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var inboxSession1 = chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"}

// The keys of the inbox are spelt as documented; any call id of a model becomes one token.
func TestInboxKeys(t *testing.T) {
	answer, err := InboxAnswerKey(inboxSession1, "run-1", "call_1")
	if want := "acme.r1.s1.run-1.answer.74196fe72e4cdc135c1033e05a2e020c"; answer != want || err != nil {
		t.Errorf("%s, %v, want %s", answer, err, want)
	}
	odd, err := InboxAnswerKey(inboxSession1, "run-1", "call.*.> \x00💥")
	if strings.Count(odd, ".") != 5 || err != nil || strings.ContainsAny(odd, "*> ") {
		t.Errorf("%s, %v", odd, err)
	}
	for want, got := range map[string]func() (string, error){
		"acme.r1.s1.run-1.answer.*":        func() (string, error) { return InboxAnswerKeys(inboxSession1, "run-1") },
		"acme.r1.s1.run-1.stop":            func() (string, error) { return InboxStopKey(inboxSession1, "run-1") },
		"acme.r1.s1.>":                     func() (string, error) { return InboxSessionKeys(inboxSession1) },
		"tr.inbox.acme.r1.s1.run-1.>":      func() (string, error) { return Layout{}.InboxHints(inboxSession1, "run-1") },
		"eu.x.inbox.acme.r1.s1.run-1.>":    func() (string, error) { return Layout{Prefix: "eu.x"}.InboxHints(inboxSession1, "run-1") },
		"tr.commands.acme.*.s1":            func() (string, error) { return Layout{}.SessionCommands(inboxSession1) },
		"tr.deadlines.*.acme.*.s1.*.*":     func() (string, error) { return Layout{}.SessionDeadlines(inboxSession1) },
		"tr.deadlines.due.*.support.*.*.*": func() (string, error) { return Layout{}.DueFilter("support") },
	} {
		if key, err := got(); key != want || err != nil {
			t.Errorf("%s, %v, want %s", key, err, want)
		}
	}
	for want, got := range map[string]string{
		"TR_INBOX": Layout{}.Inbox(), "EU_X_INBOX": Layout{Prefix: "eu.x"}.Inbox(), "tr.inbox.>": Layout{}.AllInboxHints(),
		"TR_DEADLINES": Layout{}.DeadlineStream(), "tr.deadlines.*.*.*.*.*.*": Layout{}.AllDeadlines(),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A name that is not a token is rejected at every position but those of the ids of sessions, where it is escaped if it is an id.
func TestInboxRefusesBadNames(t *testing.T) {
	for _, bad := range []string{"", "*", ">", "a.b", "a b", strings.Repeat("x", MaxToken+1), "ü"} {
		sessions := []chunk.Session{{Tenant: bad, Root: "r", ID: "s"}}
		isID := bad == "a.b"
		if !isID {
			sessions = append(sessions, chunk.Session{Tenant: "t", Root: bad, ID: "s"}, chunk.Session{Tenant: "t", Root: "r", ID: bad})
		}
		for _, s := range sessions {
			for _, f := range []func() (string, error){
				func() (string, error) { return InboxAnswerKey(s, "run", "c") },
				func() (string, error) { return InboxAnswerKeys(s, "run") },
				func() (string, error) { return InboxStopKey(s, "run") },
				func() (string, error) { return InboxSessionKeys(s) },
				func() (string, error) { return Layout{}.InboxHints(s, "run") },
				func() (string, error) { return Layout{}.SessionCommands(s) },
				func() (string, error) { return Layout{}.SessionDeadlines(s) },
			} {
				wantInvalid(t, f)
			}
		}
		for _, f := range []func() (string, error){
			func() (string, error) { return InboxAnswerKey(inboxSession1, bad, "c") },
			func() (string, error) { return InboxAnswerKeys(inboxSession1, bad) },
			func() (string, error) { return InboxStopKey(inboxSession1, bad) },
			func() (string, error) { return Layout{}.InboxHints(inboxSession1, bad) },
			func() (string, error) { return Layout{}.DueFilter(bad) },
		} {
			wantInvalid(t, f)
		}
		good := Deadline{Tenant: "t", AgentType: "a", Session: "s", RunID: "r", At: time.UnixMilli(1)}
		for _, change := range []func(*Deadline){
			func(d *Deadline) { d.Tenant = bad }, func(d *Deadline) { d.AgentType = bad },
			func(d *Deadline) {
				if d.Session = bad; isID {
					d.RunID = bad
				}
			},
			func(d *Deadline) { d.RunID = bad }, func(d *Deadline) { d.At = time.Time{} },
		} {
			d := good
			change(&d)
			wantInvalid(t, func() (string, error) { s, _, err := Layout{}.Deadline(d); return s, err })
		}
	}
}

func wantInvalid(t *testing.T, f func() (string, error)) {
	t.Helper()
	if key, err := f(); !errors.Is(err, chunk.ErrInvalid) || key != "" {
		t.Errorf("%q, %v, want chunk.ErrInvalid", key, err)
	}
}

// Two calls have the same key only if they are the same call.
func TestInboxKeysDoNotMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[a-c_-]{1,2}`)
		type call struct {
			s         chunk.Session
			run, call string
		}
		draw := func(name string) call {
			s := chunk.Session{Tenant: token.Draw(t, name), Root: token.Draw(t, name), ID: token.Draw(t, name)}
			return call{s, token.Draw(t, name), rapid.StringN(0, 2, -1).Draw(t, name)}
		}
		a, b := draw("a"), draw("b")
		one, err := InboxAnswerKey(a.s, a.run, a.call)
		if err != nil {
			t.Fatal(err)
		}
		other, err := InboxAnswerKey(b.s, b.run, b.call)
		if err != nil || (one == other) != (a == b) {
			t.Fatalf("%s of %v and %s of %v: %v", one, a, other, b, err)
		}
	})
}

// ParseDue parses the output of Deadline and rejects everything else.
func TestDeadlineRoundTrip(t *testing.T) {
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		d := Deadline{
			Tenant: token.Draw(t, "tenant"), AgentType: token.Draw(t, "agent type"), Session: token.Draw(t, "session"),
			RunID: token.Draw(t, "run"), At: time.UnixMilli(rapid.Int64Range(1, 1<<45).Draw(t, "at")),
		}
		l := Layout{Prefix: rapid.SampledFrom([]string{"", "tr", "eu.x"}).Draw(t, "prefix")}
		set, due, err := l.Deadline(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.ParseDue(due); err != nil || got != d {
			t.Fatalf("%+v, %v, want %+v", got, err, d)
		}
		if got, err := l.ParseDue(set); err == nil {
			t.Fatalf("%s is read as %+v", set, got)
		}
	})
}

func FuzzParseDue(f *testing.F) {
	f.Add("tr.deadlines.due.acme.support.s1.r1.1700000000123")
	f.Add("tr.deadlines.due.a.b.c.d.-1")
	f.Add("tr.deadlines.due.a.b.c.d.99999999999999999999")
	f.Add("tr.deadlines.set.a.b.c.d.1")
	f.Fuzz(func(t *testing.T, subject string) {
		d, err := Layout{}.ParseDue(subject)
		if err != nil {
			if _, ok := errors.AsType[*ParseError](err); !ok {
				t.Fatalf("err = %v", err)
			}
			return
		}
		if _, due, err := (Layout{}).Deadline(d); err != nil || due != subject {
			t.Fatalf("%q became %q, %v", subject, due, err)
		}
	})
}
