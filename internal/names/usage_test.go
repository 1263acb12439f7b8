package names

import (
	"errors"
	"testing"
	"time"
)

// A key has the day in UTC, and is read back. The names of tenants are checked: one with a wildcard or a dot would be the key of others.
func TestUsageKey(t *testing.T) {
	at := time.Date(2026, 11, 25, 1, 30, 0, 0, time.FixedZone("", 2*60*60))
	key, err := UsageKey("acme", at)
	if err != nil || key != "acme.2026-11-24" {
		t.Errorf("key %q, %v", key, err)
	}
	if tenant, day, ok := ParseUsageKey(key); !ok || tenant != "acme" || !day.Equal(time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%q, %v, %t", tenant, day, ok)
	}
	for _, bad := range []string{"", "acme", "acme.", ".2026-11-24", "acme.2026-13-01", "acme.2026-11-24.x", "*.2026-11-24"} {
		if _, _, ok := ParseUsageKey(bad); ok {
			t.Errorf("%q is a key", bad)
		}
	}
	for want, tenant := range map[string]string{"acme.*": "acme", "*.*": ""} {
		if got, err := UsageKeys(tenant); err != nil || got != want {
			t.Errorf("filter %q, %v, want %q", got, err, want)
		}
	}
	for _, tenant := range []string{"*", ">", "a.b"} {
		_, err := UsageKey(tenant, at)
		_, err2 := UsageKeys(tenant)
		for _, err := range []error{err, err2} {
			if _, ok := errors.AsType[*TokenError](err); !ok {
				t.Errorf("tenant %q: %v", tenant, err)
			}
		}
	}
}
