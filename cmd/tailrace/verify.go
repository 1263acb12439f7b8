package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// runVerify compares stored snapshots with the log. It changes nothing.
func runVerify(ctx context.Context, t terminal, args []string) error {
	var c chosen
	cfg, rest, err := arguments(t, "verify", args, c.register)
	if err != nil {
		return err
	}
	if err := c.check(rest); err != nil {
		return usageError{err}
	}
	b, err := connect(cfg, cfg.logger(t.err))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.verifyTopology(ctx); err != nil {
		return err
	}
	f, err := b.newFolds()
	if err != nil {
		return err
	}
	found := &tally{out: t.out, progress: t.err, json: c.json}
	stop := found.report(ctx)
	err = f.each(ctx, c.under(cfg.Tenant), func(ctx context.Context, s chunk.Session) error {
		v, err := projector.Verify(ctx, f.store, f.log, s)
		switch {
		case errors.Is(err, chunk.ErrUnknownSession), ctx.Err() != nil:
			return ctx.Err() // deleted meanwhile; or we stop
		case err != nil:
			return found.add(failed(s, err))
		}
		return found.add(verdict(v, c.session != ""))
	})
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintln(t.err, found.summary())
	switch bad := found.count["different"] + found.count["unreadable"]; {
	case bad > 0:
		return fmt.Errorf("%d snapshots are not what the log says; `tailrace rebuild` folds them anew", bad)
	case found.count["failed"] > 0:
		return fmt.Errorf("%d sessions could not be looked at", found.count["failed"])
	case found.done == 0 && c.session != "":
		return fmt.Errorf("no session %q of tenant %q", c.session, cfg.Tenant)
	}
	return nil
}

// failed is the line of a session that could not be worked on.
func failed(s chunk.Session, err error) line {
	type failure struct {
		Session string `json:"session"`
		Result  string `json:"result"`
		Error   string `json:"error"`
	}
	return line{Session: s.String(), Result: "failed", Worth: true, Text: err.Error(), JSON: failure{s.String(), "failed", err.Error()}}
}

func verdict(v projector.Verdict, always bool) line {
	type compared struct {
		Session     string            `json:"session"`
		Result      string            `json:"result"`
		Seq         chunk.Seq         `json:"seq"`
		Ordinal     chunk.Ordinal     `json:"ordinal"`
		Chain       string            `json:"chain"`
		ChainSince  chunk.Ordinal     `json:"chainSince"`
		Why         string            `json:"why,omitempty"`
		Differences []fold.Difference `json:"differences,omitempty"`
	}
	text := []string{fmt.Sprintf("sequence %d, record %d", v.At.Seq, v.At.Ordinal)}
	if v.At.Ordinal > 0 {
		text = append(text, fmt.Sprintf("chain %s since %d", v.Chain, v.Chain.Since))
	}
	if v.Why != "" {
		text = append(text, v.Why)
	}
	for _, d := range v.Differences {
		text = append(text, fmt.Sprintf("\n  %s\n    stored %s\n    log    %s", d.Member, orNothing(d.Stored), orNothing(d.Now)))
	}
	return line{
		Session: v.Session.String(), Result: v.Finding.String(), Text: strings.Join(text, ", "),
		Worth: always || v.Finding != projector.Same && v.Finding != projector.Unsaved,
		JSON: compared{
			v.Session.String(), v.Finding.String(), v.At.Seq, v.At.Ordinal, v.Chain.String(), v.Chain.Since, v.Why, v.Differences,
		},
	}
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
