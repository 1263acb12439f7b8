package auth

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseScope(t *testing.T) {
	for text, want := range map[string]Scope{
		"read":           ScopeRead,
		"read chat":      ScopeRead | ScopeChat,
		"chat read":      ScopeRead | ScopeChat,
		"read chat read": ScopeRead | ScopeChat,
		"delete admin":   ScopeDelete | ScopeAdmin,
		"read chat answer stop ingest delete admin fork": AllScopes,

		"":            0,
		" ":           0,
		"read ":       0,
		" read":       0,
		"read  chat":  0,
		"Read":        0,
		"read,chat":   0,
		"read\tchat":  0,
		"rеad":        0, // a Cyrillic letter
		"all":         0,
		"*":           0,
		"read sudo":   0,
		"read\x00":    0,
		"session:all": 0,
	} {
		got, err := ParseScope(text)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: got %v and %v, want %v", text, got, err, want)
		}
	}
	if got := AllScopes.String(); got != "read chat answer stop ingest delete admin fork" {
		t.Errorf("got %q", got)
	}
	if got := Scope(0).String(); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestAllows(t *testing.T) {
	g := Grant{Scopes: ScopeRead | ScopeChat}
	for s, want := range map[Scope]bool{
		ScopeRead: true, ScopeRead | ScopeChat: true, ScopeAnswer: false, ScopeRead | ScopeAnswer: false,
		0: false, // a route without a policy
	} {
		if got := g.Allows(s); got != want {
			t.Errorf("%s: got %t, want %t", s, got, want)
		}
	}
}

func TestAllowsSession(t *testing.T) {
	for _, c := range []struct {
		name      string
		sessions  Sessions
		id, owner string
		want      bool
	}{
		{"the zero value is empty", Sessions{}, "s1", "ann", false},
		{"all", Sessions{All: true}, "s1", "bob", true},
		{"all, but not what cannot be an id", Sessions{All: true}, "a b", "bob", false},
		{"all, but not the empty id", Sessions{All: true}, "", "bob", false},
		{"own", Sessions{Own: true}, "s1", "ann", true},
		{"own, of another subject", Sessions{Own: true}, "s1", "bob", false},
		{"own, in another case", Sessions{Own: true}, "s1", "Ann", false},
		{"own, without an owner", Sessions{Own: true}, "s1", "", false},
		{"listed", Sessions{IDs: []string{"s1", "s2"}}, "s2", "", true},
		{"not listed", Sessions{IDs: []string{"s1", "s2"}}, "s22", "", false},
		{"prefix", Sessions{Prefix: "ann-"}, "ann-1", "", true},
		{"other prefix", Sessions{Prefix: "ann-"}, "ann", "", false},
		{"own or listed", Sessions{Own: true, IDs: []string{"s9"}}, "s9", "bob", true},
	} {
		g := Grant{Subject: "ann", Sessions: c.sessions}
		if got := g.AllowsSession(c.id, c.owner); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
	if (&Grant{Sessions: Sessions{Own: true}}).AllowsSession("s1", "") {
		t.Error("a Grant without a subject has sessions without an owner")
	}
}

func TestView(t *testing.T) {
	for _, c := range []struct {
		views     []string
		requested string
		want      string
		ok        bool
	}{
		{nil, "", "", true},
		{nil, "operator", "", false},
		{nil, AnyView, "", false},
		{[]string{"customer"}, "", "customer", true},
		{[]string{"customer"}, "customer", "customer", true},
		{[]string{"customer"}, "operator", "", false},
		{[]string{"customer"}, "Customer", "", false},
		{[]string{"customer", "operator"}, "operator", "operator", true},
		{[]string{AnyView}, "", "", true},
		{[]string{AnyView}, "operator", "operator", true},
		{[]string{AnyView}, AnyView, "", false},
		{[]string{"customer", AnyView}, "", "customer", true},
		{[]string{"customer", AnyView}, "operator", "operator", true},
	} {
		g := Grant{Views: c.views}
		if got, ok := g.View(c.requested); got != c.want || ok != c.ok {
			t.Errorf("%q asked for %q: got %q %t, want %q %t", c.views, c.requested, got, ok, c.want, c.ok)
		}
	}
}

func TestExpired(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g := Grant{ExpiresAt: at}
	if g.Expired(at.Add(-time.Nanosecond)) || !g.Expired(at) {
		t.Error("want valid before the time and expired from it on")
	}
	if (&Grant{}).Expired(at) {
		t.Error("a Grant without a time expires")
	}
}

func TestCheck(t *testing.T) {
	valid := Grant{Tenant: "acme", Subject: "Änne O'Neil@example", Scopes: ScopeRead, Sessions: Sessions{IDs: []string{"s1"}}, Views: []string{"customer"}, TokenID: "t1"}
	if err := valid.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Grant){
		"no tenant":              func(g *Grant) { g.Tenant = "" },
		"tenant with a dot":      func(g *Grant) { g.Tenant = "acme.x" },
		"tenant with a wildcard": func(g *Grant) { g.Tenant = "*" },
		"tenant with Cyrillic":   func(g *Grant) { g.Tenant = "аcme" },
		"tenant too long":        func(g *Grant) { g.Tenant = strings.Repeat("a", 65) },
		"no subject":             func(g *Grant) { g.Subject = "" },
		"subject too long":       func(g *Grant) { g.Subject = strings.Repeat("a", 256) },
		"subject of two lines":   func(g *Grant) { g.Subject = "ann\nbob" },
		"subject turned around":  func(g *Grant) { g.Subject = "ann\u202ebob" },
		"subject not UTF-8":      func(g *Grant) { g.Subject = "ann\xff" },
		"unknown scope":          func(g *Grant) { g.Scopes = 1 << 12 },
		"session with a slash":   func(g *Grant) { g.Sessions.IDs = []string{"../s1"} },
		"17 sessions":            func(g *Grant) { g.Sessions.IDs = slices.Repeat([]string{"s"}, 17) },
		"prefix with a wildcard": func(g *Grant) { g.Sessions.Prefix = "s*" },
		"empty view":             func(g *Grant) { g.Views = []string{""} },
		"view with a control":    func(g *Grant) { g.Views = []string{"a\x00"} },
		"token id of two lines":  func(g *Grant) { g.TokenID = "a\r\nb" },
	} {
		g := valid
		change(&g)
		if err := g.Check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
