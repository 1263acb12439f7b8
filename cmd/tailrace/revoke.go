package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/tailrace/tailrace/internal/jscredentials"
	"github.com/tailrace/tailrace/internal/revocation"
)

// revokeFlags holds the flags of `tailrace revoke`. The tenant is that of the settings.
type revokeFlags struct {
	token   string
	subject string
	list    bool
	undo    bool
}

func (f *revokeFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.token, "token", "", "id (jti) of the token to revoke")
	flags.StringVar(&f.subject, "subject", "", "user or program whose credentials to revoke, up to now")
	flags.BoolVar(&f.list, "list", false, "list the revocations of the tenant")
	flags.BoolVar(&f.undo, "undo", false, "end the revocation of --token or --subject")
}

func (f *revokeFlags) check(c config) error {
	switch {
	case f.list && (f.token != "" || f.subject != "" || f.undo):
		return errors.New("list: want no --token, --subject or --undo")
	case !f.list && (f.token == "") == (f.subject == ""):
		return errors.New("want --token, --subject or --list")
	case f.list:
		return nil
	}
	_, err := f.revocation(c).Key()
	return err
}

// runRevoke revokes a token, or the credentials of a subject, on all edges.
func runRevoke(ctx context.Context, t terminal, args []string) error {
	var f revokeFlags
	return operate(ctx, t, "revoke", args, &f, func(b *app) error {
		store, err := b.credentials()
		if err != nil {
			return err
		}
		if f.list {
			return listRevocations(ctx, t.out, store, b.cfg.Tenant)
		}
		if err := store.Revoke(ctx, f.revocation(b.cfg)); err != nil {
			return err
		}
		done := "revoked"
		if f.undo {
			done = "not revoked any more"
		}
		fmt.Fprintf(t.out, "tenant %s: %s\n", b.cfg.Tenant, done)
		return nil
	})
}

func (f *revokeFlags) revocation(c config) revocation.Revocation {
	return revocation.Revocation{Tenant: c.Tenant, TokenID: f.token, Subject: f.subject, Lifted: f.undo}
}

func listRevocations(ctx context.Context, out io.Writer, store *jscredentials.Store, tenant string) error {
	all, err := store.List(ctx, tenant)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "OF\tID\tREVOKED\tUNTIL\tBY")
	for _, r := range all {
		of, id, by := "token", r.TokenID, "operator"
		if id == "" {
			of, id = "subject", r.Subject
		}
		if r.By != nil {
			by = fmt.Sprintf("%q", r.By.Subject)
		}
		fmt.Fprintf(tw, "%s\t%q\t%s\t%s\t%s\n", of, id, r.At.UTC().Format(time.RFC3339), r.Until.UTC().Format(time.RFC3339), by)
	}
	return tw.Flush()
}

// credentials returns the bucket of revocations and tickets.
func (b *app) credentials() (*jscredentials.Store, error) {
	return jscredentials.New(b.js, jscredentials.Config{Layout: b.cfg.layout(), Log: b.log})
}
