package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/subjects"
)

// limitsFile is the file of limits, see docs/guides/limits.md. A limit of an address, a session or a run that is missing is the default.
type limitsFile struct {
	Address struct {
		Rate    httpkit.Rate `json:"rate"`    // requests to one edge
		Streams count        `json:"streams"` // open streams on one edge
	} `json:"address"`
	Session struct {
		Streams count    `json:"streams"` // open streams on one edge
		Chunks  count    `json:"chunks"`  // over all its runs
		Bytes   byteSize `json:"bytes"`   // of its bodies, over all its runs
	} `json:"session"`
	Default tenantLimits            `json:"default"`
	Tenants map[string]tenantLimits `json:"tenants"`
	Prices  httpedge.Prices         `json:"prices"` // of models, for the costs in lists of sessions
}

// tenantLimits are the limits of one tenant. A member that is 0 is not limited.
type tenantLimits struct {
	Rate        httpkit.Rate `json:"rate"`        // requests of all its clients to one edge
	SubjectRate httpkit.Rate `json:"subjectRate"` // requests of one subject to one edge
	Streams     int          `json:"streams"`     // open streams on one edge
	Runs        int          `json:"runs"`        // runs at the same time, of all workers

	TokensPerDay int64 `json:"tokensPerDay"` // of all workers, in a day in UTC
}

// count is 1 or more in the file, or "unlimited". 0 is the default.
type count int64

// UnmarshalJSON parses a count.
func (n *count) UnmarshalJSON(text []byte) error {
	if string(text) == `"`+unlimited+`"` {
		*n = -1
		return nil
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || v < 1 {
		return fmt.Errorf("%s, want 1 or more, or %q", text, unlimited)
	}
	*n = count(v)
	return nil
}

const unlimited = "unlimited"

// parseRate parses requests per second, and how many may come at once. An empty text is the default.
func parseRate(text string) (r httpkit.Rate, err error) {
	switch text {
	case "":
		return r, nil
	case unlimited:
		return httpkit.Unlimited, nil
	}
	perSecond, burst, _ := strings.Cut(text, "/")
	if r.PerSecond, err = strconv.ParseFloat(perSecond, 64); err == nil {
		r.Burst, err = strconv.Atoi(burst)
	}
	if err != nil || r.Validate() != nil {
		return r, errors.New("want requests per second and burst, such as 20/60, or unlimited")
	}
	return r, nil
}

// readLimits reads the file of limits. Without one tenants have none.
func (c config) readLimits() (limitsFile, error) {
	var f limitsFile
	if c.Limits == "" {
		return f, nil
	}
	err := readSettings(c.Limits, &f)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return f, fmt.Errorf("limits %s: %w", c.Limits, err)
	}
	return f, nil
}

func (f limitsFile) check() error {
	if err := f.Default.check(); err != nil {
		return fmt.Errorf("default: %w", err)
	}
	if err := f.Prices.Validate(); err != nil {
		return err
	}
	for tenant, l := range f.Tenants {
		if err := subjects.CheckToken("tenant", tenant); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return fmt.Errorf("tenant %s: %w", tenant, err)
		}
	}
	return nil
}

func (l tenantLimits) check() error {
	if l.Streams < 0 || l.Runs < 0 || l.TokensPerDay < 0 {
		return errors.New("a limit is negative, want 1 or more; without the member there is no limit")
	}
	return nil
}

// of returns the limits of a tenant: its own, and the default for each that it does not have.
func (f limitsFile) of(tenant string) tenantLimits {
	l := f.Tenants[tenant]
	if l.Rate == (httpkit.Rate{}) {
		l.Rate = f.Default.Rate
	}
	if l.SubjectRate == (httpkit.Rate{}) {
		l.SubjectRate = f.Default.SubjectRate
	}
	l.Streams = cmp.Or(l.Streams, f.Default.Streams)
	l.Runs = cmp.Or(l.Runs, f.Default.Runs)
	l.TokensPerDay = cmp.Or(l.TokensPerDay, f.Default.TokensPerDay)
	return l
}

// streams returns the places on an edge.
func (f limitsFile) streams(c config) httpkit.Limits {
	tenants := make(map[string]int, len(f.Tenants))
	for tenant := range f.Tenants {
		tenants[tenant] = cmp.Or(f.of(tenant).Streams, -1)
	}
	return httpkit.Limits{
		Streams: c.MaxStreams, PerTenant: cmp.Or(f.Default.Streams, -1), Tenants: tenants, PerAddress: int(f.Address.Streams), PerSession: int(f.Session.Streams),
	}
}

// runs returns the limit of the runs of a tenant.
func (f limitsFile) runs(tenant string) int { return f.of(tenant).Runs }

// tokensPerDay returns the budget of a tenant.
func (f limitsFile) tokensPerDay(tenant string) int64 { return f.of(tenant).TokensPerDay }

// rates returns the rates of an edge. Without authenticators all clients are one subject, so that it has no rate.
func (f limitsFile) rates(c config) httpkit.Rates {
	r := httpkit.Rates{Address: f.Address.Rate, Tenant: func(tenant string) httpkit.Rate { return f.of(tenant).Rate }}
	if c.Auth != "" {
		r.Subject = func(tenant string) httpkit.Rate { return f.of(tenant).SubjectRate }
	}
	return r
}
