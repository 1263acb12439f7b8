package authn

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
)

func TestCovers(t *testing.T) {
	now := time.Now()
	base := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{All: true}, Views: []string{"customer", "staff"}, ExpiresAt: now}
	for _, tt := range []struct {
		name        string
		mine, other func(*auth.Grant)
		want        bool
	}{
		{"equal", nil, nil, true},
		{"another subject", nil, func(g *auth.Grant) { g.Subject = "bob" }, true},
		{"another tenant", nil, func(g *auth.Grant) { g.Tenant = "umbrella" }, false},
		{"fewer scopes", nil, func(g *auth.Grant) { g.Scopes = auth.ScopeRead }, true},
		{"another scope", nil, func(g *auth.Grant) { g.Scopes |= auth.ScopeStop }, false},
		{"admin implies nothing", func(g *auth.Grant) { g.Scopes = auth.ScopeAdmin }, func(g *auth.Grant) { g.Scopes = auth.ScopeRead }, false},
		{"own of another, all", nil, func(g *auth.Grant) { g.Subject, g.Sessions = "bob", auth.Sessions{Own: true} }, true},
		{"own, own", func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, true},
		{"own of another, own", func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, func(g *auth.Grant) { g.Subject, g.Sessions = "bob", auth.Sessions{Own: true} }, false},
		{"own, ids", func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a"}} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, false},
		{"own, prefix", func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a-"} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, false},
		{"id, own", func(g *auth.Grant) { g.Sessions = auth.Sessions{Own: true} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a"}} }, false},
		{"all, ids", func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a"}} }, nil, false},
		{"ids, ids", func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a", "b"}} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"b"}} }, true},
		{"ids, other ids", func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a", "b"}} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"b", "c"}} }, false},
		{"ids, prefix", func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a-"} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a-1", "a-2"}} }, true},
		{"ids, another prefix", func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a-"} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a-1", "b"}} }, false},
		{"prefix, shorter prefix", func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a"} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a-"} }, true},
		{"prefix, longer prefix", func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a-"} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a"} }, false},
		{"prefix, ids", func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"a"}} }, func(g *auth.Grant) { g.Sessions = auth.Sessions{Prefix: "a"} }, false},
		{"fewer views", nil, func(g *auth.Grant) { g.Views = []string{"staff"} }, true},
		{"another view", nil, func(g *auth.Grant) { g.Views = []string{"staff", "operator"} }, false},
		{"every view", nil, func(g *auth.Grant) { g.Views = []string{auth.AnyView} }, false},
		{"every view of every view", func(g *auth.Grant) { g.Views = []string{auth.AnyView} }, func(g *auth.Grant) { g.Views = []string{auth.AnyView} }, true},
		{"a view of every view", func(g *auth.Grant) { g.Views = []string{auth.AnyView} }, nil, true},
		{"the default view of every view", func(g *auth.Grant) { g.Views = []string{auth.AnyView} }, func(g *auth.Grant) { g.Views = nil }, true},
		{"the default view", nil, func(g *auth.Grant) { g.Views = nil }, false},
		{"a view of the default view", func(g *auth.Grant) { g.Views = nil }, nil, false},
		{"the default views", func(g *auth.Grant) { g.Views = nil }, func(g *auth.Grant) { g.Views = nil }, true},
		{"a second longer", nil, func(g *auth.Grant) { g.ExpiresAt = now.Add(time.Second) }, false},
		{"without an end", nil, func(g *auth.Grant) { g.ExpiresAt = time.Time{} }, false},
		{"of one without an end", func(g *auth.Grant) { g.ExpiresAt = time.Time{} }, nil, true},
	} {
		mine, other := base, base
		if tt.mine != nil {
			tt.mine(&mine)
		}
		if tt.other != nil {
			tt.other(&other)
		}
		if got := Covers(&mine, &other); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

// Whatever a Grant allows is allowed by every Grant that covers it, and every Grant covers itself.
func TestCoversMeansEverythingIsAllowed(t *testing.T) {
	const seed = 12
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	some := func(list ...string) (of []string) {
		for _, name := range list {
			if random.IntN(3) == 0 {
				of = append(of, name)
			}
		}
		return of
	}
	ids := []string{"a", "ab", "abc", "b", "bc"}
	now := time.Now()
	grant := func() *auth.Grant {
		g := &auth.Grant{Tenant: pick("t", "t", "u"), Subject: pick("ann", "bob"), Scopes: auth.Scope(random.IntN(4)), Views: some("v", "w", auth.AnyView)}
		g.Sessions = auth.Sessions{All: random.IntN(5) == 0, Own: random.IntN(2) == 0, IDs: some(ids...), Prefix: pick("", "a", "ab")}
		if random.IntN(2) == 0 {
			g.ExpiresAt = now.Add(time.Duration(random.IntN(3)) * time.Second)
		}
		return g
	}
	covered := 0
	for range 50_000 {
		g, other := grant(), grant()
		if !Covers(g, g) {
			t.Fatalf("%+v does not cover itself", g)
		}
		if !Covers(g, other) {
			continue
		}
		covered++
		for _, id := range ids {
			for _, owner := range []string{"ann", "bob", ""} {
				if other.AllowsSession(id, owner) && !g.AllowsSession(id, owner) {
					t.Fatalf("seed %d: session %s of %q: %+v covers %+v", seed, id, owner, g, other)
				}
			}
		}
		for _, view := range []string{"v", "w", "x"} {
			_, ok := other.View(view)
			if _, mine := g.View(view); ok && !mine {
				t.Fatalf("seed %d: view %s: %+v covers %+v", seed, view, g, other)
			}
		}
		if at := now.Add(time.Second); g.Tenant != other.Tenant || other.Scopes&^g.Scopes != 0 || g.Expired(at) && !other.Expired(at) {
			t.Fatalf("seed %d: %+v covers %+v", seed, g, other)
		}
	}
	if covered < 500 {
		t.Errorf("only %d pairs", covered)
	}
}
