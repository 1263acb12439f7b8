package names

import (
	"errors"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// kvKey matches the keys that the client library accepts.
var kvKey = regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`)

func TestKeysAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := anySession().Draw(t, "session"), rapid.Uint64().Draw(t, "n")
		head := must(SnapshotHeadKey(s))
		if got, err := ParseSnapshotHeadKey(head); err != nil || got != s {
			t.Fatalf("ParseSnapshotHeadKey(%q) = %v, %v", head, got, err)
		}
		pack := must(SnapshotPackKey(s, n))
		if !kvKey.MatchString(head) || !kvKey.MatchString(pack) {
			t.Fatalf("%q or %q is no key", head, pack)
		}
		if !matches(must(SnapshotPackKeys(s)), pack) || !matches(must(SnapshotTreeHeadKeys(s)), head) {
			t.Fatalf("a filter misses %q or %q", head, pack)
		}
		if got, ok := SnapshotPackOf(pack); got != n || !ok {
			t.Fatalf("SnapshotPackOf(%q) = %d, %t", pack, got, ok)
		}
		if _, ok := SnapshotPackOf(head); ok {
			t.Fatalf("%q is a pack's", head)
		}
		object := must(SnapshotObjectKey(s, "head-0af1"))
		if !kvKey.MatchString(object) || !matches(must(SnapshotObjectKeys(s)), object) {
			t.Fatalf("%q is no key, or a filter misses it", object)
		}
		if name, ok := SnapshotObjectOf(object); !ok || name != "head-0af1" {
			t.Fatalf("SnapshotObjectOf(%q) = %q, %t", object, name, ok)
		}
		if _, ok := SnapshotObjectOf(pack); ok || IsLeaseKey(pack) || !IsLeaseKey(must(LeaseKey("sweep"))) {
			t.Fatalf("%q is a pack's", pack)
		}
		lease := must(LeaseKey("sweep"))
		if name, ok := LeaseName(lease); !ok || name != "sweep" || !matches(LeaseKeys(), lease) || matches(LeaseKeys(), pack) {
			t.Fatalf("LeaseName(%q) = %q, %t", lease, name, ok)
		}
		owner := must(SnapshotOwnerKey(s, "0af1"))
		if !kvKey.MatchString(owner) || !matches(must(SnapshotOwnerKeys(s)), owner) || !matches(must(SnapshotTreeKeys(s)), owner) {
			t.Fatalf("%q is no key, or a filter misses it", owner)
		}
		if got, err := ParseSnapshotKey(owner); err != nil || got != s.Tree() {
			t.Fatalf("ParseSnapshotKey(%q) = %v, %v", owner, got, err)
		}
		fork := must(SnapshotForkKey(s, s.ID))
		if !kvKey.MatchString(fork) || !matches(must(SnapshotForkKeys(s)), fork) || !matches(must(SnapshotTreeKeys(s)), fork) {
			t.Fatalf("%q is no key, or a filter misses it", fork)
		}
		if got, err := ParseSnapshotKey(fork); err != nil || got != s.Tree() {
			t.Fatalf("ParseSnapshotKey(%q) = %v, %v", fork, got, err)
		}
		if !matches(must(SnapshotTenantHeadKeys(s.Tenant)), head) {
			t.Fatalf("the filter of the tenant misses %q", head)
		}
		for _, key := range []string{head, pack, object} {
			if got, err := ParseSnapshotKey(key); err != nil || got != s {
				t.Fatalf("ParseSnapshotKey(%q) = %v, %v", key, got, err)
			}
			if !matches(must(SnapshotTreeKeys(s)), key) {
				t.Fatalf("the filter of the tree misses %q", key)
			}
		}
	})
}

func TestKeysRefuse(t *testing.T) {
	for _, key := range []string{"", "h", "h.a.b", "h.a.b.c.d", "h.a..c", "x.a.b.c", "m.a.b.c.1", "h.a.b.*"} {
		if s, err := ParseSnapshotHeadKey(key); err == nil {
			t.Errorf("ParseSnapshotHeadKey(%q) = %v, want an error", key, s)
		}
	}
	for _, key := range []string{"", "h", "h.a.b", "m.a.b.c", "o.a.b", "x.a.b.c", "o.a.b.c.d.e", "m", "owner.a.b", "owner.a.b.c.d", "owner.a.*.c", "fork.a.b", "fork.a.b.c.d", "fork.a.b.*", "fork.a.b._x-c"} {
		if s, err := ParseSnapshotKey(key); err == nil {
			t.Errorf("ParseSnapshotKey(%q) = %v, want an error", key, s)
		}
	}
	for _, key := range []string{"", "turn", "turn.", "turn.a.b", "turn.*", "h.a"} {
		if name, ok := LeaseName(key); ok {
			t.Errorf("LeaseName(%q) = %q, want none", key, name)
		}
	}
	bad := chunk.Session{Tenant: "a", Root: "a b", ID: "c"}
	for name, key := range map[string]func() (string, error){
		"head":       func() (string, error) { return SnapshotHeadKey(bad) },
		"pack":       func() (string, error) { return SnapshotPackKey(bad, 1) },
		"packs":      func() (string, error) { return SnapshotPackKeys(bad) },
		"tree heads": func() (string, error) { return SnapshotTreeHeadKeys(bad) },
		"object":     func() (string, error) { return SnapshotObjectKey(bad, "x") },
		"no object":  func() (string, error) { return SnapshotObjectKey(chunk.RootSession("a", "b"), "a.b") },
		"objects":    func() (string, error) { return SnapshotObjectKeys(bad) },
		"owner":      func() (string, error) { return SnapshotOwnerKey(bad, "x") },
		"no owner":   func() (string, error) { return SnapshotOwnerKey(chunk.RootSession("a", "b"), "a.b") },
		"owners":     func() (string, error) { return SnapshotOwnerKeys(bad) },
		"fork":       func() (string, error) { return SnapshotForkKey(bad, "x") },
		"no fork":    func() (string, error) { return SnapshotForkKey(chunk.RootSession("a", "b"), "*") },
		"forks":      func() (string, error) { return SnapshotForkKeys(bad) },
		"tree":       func() (string, error) { return SnapshotTreeKeys(bad) },
		"turn":       func() (string, error) { return LeaseKey("a.b") },
		"tenant":     func() (string, error) { return SnapshotTenantHeadKeys("*") },
	} {
		if got, err := key(); !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%s of %v = %q, %v; want ErrInvalid", name, bad, got, err)
		}
	}
}
