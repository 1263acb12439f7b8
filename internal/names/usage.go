package names

import (
	"strings"
	"time"
)

// Usage returns the name of the key-value bucket with the tokens that tenants have used: TR_USAGE.
func (l Layout) Usage() string { return l.name("_USAGE") }

// UsageKey returns the key of the usage of a tenant on a day in UTC: <tenant>.<year>-<month>-<day>. The error is a *TokenError.
func UsageKey(tenant string, day time.Time) (string, error) {
	return valid(tenant+"."+day.UTC().Format(time.DateOnly), CheckToken("tenant", tenant))
}

// UsageKeys returns the filter of the usage of a tenant on all days: <tenant>.*, or *.* for all tenants if it is empty. The error is a *TokenError.
func UsageKeys(tenant string) (string, error) {
	if tenant == "" {
		return "*.*", nil
	}
	return valid(tenant+".*", CheckToken("tenant", tenant))
}

// ParseUsageKey returns the tenant and the day of a key of UsageKey, and false for another key.
func ParseUsageKey(key string) (tenant string, day time.Time, ok bool) {
	tenant, date, _ := strings.Cut(key, ".")
	day, err := time.Parse(time.DateOnly, date)
	return tenant, day, err == nil && CheckToken("tenant", tenant) == nil
}
