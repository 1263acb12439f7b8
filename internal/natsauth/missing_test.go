package natsauth

import (
	"slices"
	"testing"

	"github.com/nats-io/jwt/v2"
)

func TestMissing(t *testing.T) {
	want := jwt.Permissions{
		Pub: jwt.Permission{Allow: jwt.StringList{"a.one", "b.*", "c.>"}, Deny: jwt.StringList{"c.secret"}},
		Sub: jwt.Permission{Allow: jwt.StringList{"inbox.>"}},
	}
	all := func(change func(*jwt.Permissions)) *jwt.Permissions {
		p := jwt.Permissions{
			Pub: jwt.Permission{Allow: slices.Clone(want.Pub.Allow), Deny: slices.Clone(want.Pub.Deny)},
			Sub: jwt.Permission{Allow: slices.Clone(want.Sub.Allow)},
		}
		change(&p)
		return &p
	}
	for name, tc := range map[string]struct {
		have      *jwt.Permissions
		pub, subs []string
	}{
		"no restrictions":    {},
		"the same":           {have: all(func(*jwt.Permissions) {})},
		"more":               {have: all(func(p *jwt.Permissions) { p.Pub.Allow, p.Pub.Deny = jwt.StringList{">"}, nil })},
		"only a denial":      {have: all(func(p *jwt.Permissions) { p.Pub.Allow, p.Pub.Deny = nil, jwt.StringList{"x.>"} })},
		"one fewer":          {have: all(func(p *jwt.Permissions) { p.Pub.Allow = p.Pub.Allow[1:] }), pub: []string{"a.one"}},
		"a narrower pattern": {have: all(func(p *jwt.Permissions) { p.Pub.Allow[2] = "c.x.>" }), pub: []string{"c.>"}},
		"a part is denied":   {have: all(func(p *jwt.Permissions) { p.Pub.Deny = append(p.Pub.Deny, "b.two") }), pub: []string{"b.*"}},
		"patterns overlap":   {have: all(func(p *jwt.Permissions) { p.Pub.Deny = append(p.Pub.Deny, "*.two") }), pub: []string{"b.*", "c.>"}},
		"another subject":    {have: all(func(p *jwt.Permissions) { p.Pub.Deny = append(p.Pub.Deny, "b.two.three", "d.>") })},
		"all is denied":      {have: all(func(p *jwt.Permissions) { p.Pub.Deny = jwt.StringList{"a.>"} }), pub: []string{"a.one"}},
		"no inbox":           {have: all(func(p *jwt.Permissions) { p.Sub.Allow = jwt.StringList{"other.>"} }), subs: []string{"inbox.>"}},
	} {
		pub, subs := Missing(want, tc.have)
		if !slices.Equal(pub, tc.pub) || !slices.Equal(subs, tc.subs) {
			t.Errorf("%s: %q and %q, want %q and %q", name, pub, subs, tc.pub, tc.subs)
		}
	}
}
