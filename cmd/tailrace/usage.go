package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tailrace/tailrace/internal/jsusage"
)

// usageFlags holds the flags of `tailrace usage`.
type usageFlags struct {
	tenant string
	days   int
}

func (f *usageFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.tenant, "tenant", "", "usage of this tenant only; if empty, of all tenants")
	flags.IntVar(&f.days, "days", 7, "number of days, with today (UTC); those of the last 40 days are stored")
}

func (f *usageFlags) check(config) error {
	if f.days < 1 {
		return fmt.Errorf("days is %d, want 1 or more", f.days)
	}
	return checkIfSet("tenant", f.tenant)
}

// runUsage prints the tokens that tenants have used.
func runUsage(ctx context.Context, t terminal, args []string) error {
	var f usageFlags
	return operate(ctx, t, "usage", args, &f, func(b *app) error { return f.print(ctx, t.out, b) })
}

// print prints the tokens by tenant and day.
func (f *usageFlags) print(ctx context.Context, out io.Writer, b *app) error {
	store, err := jsusage.NewStore(b.js, b.cfg.layout())
	if err != nil {
		return err
	}
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-f.days)
	var all []jsusage.Entry
	for e, err := range store.List(ctx, f.tenant) {
		switch {
		case err != nil:
			return err
		case e.Err != nil:
			b.log.Warn("malformed usage record skipped", "key", e.Key, "error", e.Err)
		case !e.Day.Before(first):
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b jsusage.Entry) int {
		if order := strings.Compare(a.Tenant, b.Tenant); order != 0 {
			return order
		}
		return a.Day.Compare(b.Day)
	})
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TENANT\tDAY\tTOKENS")
	for _, e := range all {
		fmt.Fprintf(tw, "%s\t%s\t%d\n", e.Tenant, e.Day.Format(time.DateOnly), e.Tokens)
	}
	return tw.Flush()
}
