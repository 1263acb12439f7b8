package natsauth_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
)

// An edge with mirrors may read in the domain of the leaf node, and do there nothing else. What it may do at home is the same as without mirrors.
func TestMirrorsAreReadOnly(t *testing.T) {
	cfg := natsauth.Config{Domain: "home", AllowDelete: true, AllowIngest: true}
	plain, err := natsauth.Of(natsauth.Edge, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MirrorDomain = "leaf"
	p, err := natsauth.Of(natsauth.Edge, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range plain.Pub.Allow {
		if !strings.HasPrefix(subject, "$JS.API.") && !slices.Contains(p.Pub.Allow, subject) {
			t.Errorf("may not publish to %s", subject)
		}
	}
	reads := 0
	for _, subject := range p.Pub.Allow {
		call, ok := strings.CutPrefix(subject, "$JS.API.")
		if !ok {
			call, ok = strings.CutPrefix(subject, "$JS.leaf.API.")
		}
		if !ok {
			continue
		}
		reads++
		if !slices.ContainsFunc([]string{"STREAM.INFO.", "STREAM.MSG.GET.", "DIRECT.GET.", "CONSUMER.CREATE.", "CONSUMER.MSG.NEXT.", "CONSUMER.DELETE."}, func(read string) bool {
			return strings.HasPrefix(call, read)
		}) {
			t.Errorf("may call %s on the leaf node", subject)
		}
	}
	if reads == 0 {
		t.Error("may read nothing on the leaf node")
	}
	cfg.Domain = ""
	if _, err := natsauth.Of(natsauth.Edge, cfg); err == nil {
		t.Error("mirrors without the domain of home are accepted")
	}
}
