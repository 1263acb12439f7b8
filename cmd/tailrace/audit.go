package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/metrics"
)

// The values of the setting AUDIT.
const (
	auditOn       = "on"
	auditRequired = "required"
	auditOff      = "off"
)

// newAudit returns the audit log of an edge, nil if it is off.
func (b *app) newAudit() (*audit.Log, error) {
	if b.cfg.Audit == auditOff {
		return nil, nil //nolint:nilnil // the nil *Log records nothing
	}
	store, err := jscontrol.NewAudit(b.js, b.cfg.layout())
	if err != nil {
		return nil, err
	}
	var l *audit.Log
	stored, lost := metrics.RegisterAudit(b.metrics, func() int { return l.Queued() })
	cfg := audit.Config{Store: store, RefusalsPerSecond: b.refusals, RefusalBurst: 5 * b.refusals, OnStored: stored.Inc, OnLost: lost.Inc, Log: b.log}
	if b.cfg.Audit == auditRequired {
		cfg.Mode = audit.Required
	}
	l = audit.New(cfg)
	return l, nil
}

// auditFlags holds the flags of `tailrace audit`.
type auditFlags struct {
	tenant   string
	session  string
	since    time.Duration
	noFollow bool
	format   string
}

func (f *auditFlags) register(flags *flag.FlagSet) {
	flags.StringVar(&f.tenant, "tenant", "", "events of this tenant only; if empty, of all tenants and of clients that are not authenticated")
	flags.StringVar(&f.session, "session", "", "events of this session, and of the sub-agents of this root, only")
	flags.DurationVar(&f.since, "since", 0, "events of the last time, such as 24h; 0s is all of the log")
	flags.BoolVar(&f.noFollow, "no-follow", false, "end when all stored events are printed")
	flags.StringVar(&f.format, "format", "", "json (one CloudEvent a line) or text; if empty, text on a terminal")
}

func runAudit(ctx context.Context, t terminal, args []string) error {
	var f auditFlags
	return operate(ctx, t, "audit", args, &f, func(b *app) error { return f.show(ctx, t, b) })
}

func (f *auditFlags) check(config) error {
	switch {
	case f.since < 0:
		return fmt.Errorf("since is %s, want 0s or more", f.since)
	case f.format != "" && f.format != "json" && f.format != "text":
		return fmt.Errorf("format is %q, want json or text", f.format)
	}
	return cmp.Or(checkIfSet("tenant", f.tenant), checkIfSet("session", f.session))
}

// show prints the events. A signal is not an error.
func (f *auditFlags) show(ctx context.Context, t terminal, b *app) error {
	if f.format == "" {
		f.format = "json"
		if t.isInteractive() {
			f.format = "text"
		}
	}
	store, err := jscontrol.NewAudit(b.js, b.cfg.layout())
	if err != nil {
		return err
	}
	q := jscontrol.AuditQuery{Tenant: f.tenant, Live: !f.noFollow}
	if f.since > 0 {
		q.Since = time.Now().Add(-f.since)
	}
	for e, err := range store.Events(ctx, q) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case e.Err != nil:
			b.log.Warn("malformed audit event skipped", "sequence", e.Seq, "error", e.Err)
			continue
		case f.session != "" && e.Session.ID != f.session && e.Session.Root != f.session:
			continue
		}
		if err := f.print(t, e); err != nil {
			return err
		}
	}
	return nil
}

func (f *auditFlags) print(t terminal, e jscontrol.StoredEvent) error {
	if f.format == "text" {
		_, err := fmt.Fprintln(t.out, auditLine(e.Event))
		return err
	}
	data, err := e.Encode()
	if err != nil {
		return err
	}
	line := map[string]any{"sequence": e.Seq, "data": json.RawMessage(data)}
	for name, values := range e.Header() {
		line[strings.TrimPrefix(name, "ce-")] = values[0]
	}
	return errors.Join(err, json.NewEncoder(t.out).Encode(line))
}

// auditLine returns an event as one line: time, act, outcome, and the members that are not empty. Members with spaces or characters that are not printable
// are quoted: they are the text of clients, and could look like other members, or like a line of another event.
func auditLine(e audit.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-12s %-9s", e.Time.UTC().Format(time.RFC3339), e.Act, e.Outcome)
	add := func(name, value string) {
		if value == "" {
			return
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || r == '"' || !strconv.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, " %s=%s", name, value)
	}
	add("tenant", e.Tenant)
	if e.By != nil {
		add("subject", e.By.Subject)
		if e.By.Issuer != nil {
			add("issuer", *e.By.Issuer)
		}
		add("token", e.By.TokenID)
	}
	add("session", e.Session.ID)
	if e.Session.Root != e.Session.ID {
		add("root", e.Session.Root)
	}
	add("run", e.Run)
	add("call", e.Call)
	add("target", e.Target)
	add("route", e.Route)
	add("address", e.Address)
	if e.Status != 0 {
		fmt.Fprintf(&b, " status=%d", e.Status)
	}
	add("reason", e.Reason)
	if e.Count != 0 {
		fmt.Fprintf(&b, " count=%d", e.Count)
	}
	return b.String()
}
