package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
)

// runVerify compares stored snapshots with the log. It changes nothing.
func runVerify(ctx context.Context, t terminal, args []string) error {
	var c sessionSelection
	return operate(ctx, t, "verify", args, &c, func(b *app) error {
		f, err := b.newSessionWalker()
		if err != nil {
			return err
		}
		found, err := c.work(ctx, t, f, func(ctx context.Context, s chunk.Session) (line, error) {
			v, err := projector.VerifySnapshot(ctx, f.store, f.reader, s)
			return verifyLine(v), err
		})
		if err != nil {
			return err
		}
		if bad := found.count["different"] + found.count["unreadable"]; bad > 0 {
			return fmt.Errorf("%d snapshots differ from the log; `tailrace rebuild` refolds them", bad)
		}
		if n := found.count["failed"]; n > 0 {
			return fmt.Errorf("%d sessions failed", n)
		}
		return nil
	})
}

func verifyLine(v projector.VerifyResult) line {
	type compared struct {
		Session     string                 `json:"session"`
		Result      string                 `json:"result"`
		Seq         chunk.Seq              `json:"seq"`
		Ordinal     chunk.Ordinal          `json:"ordinal"`
		Chain       string                 `json:"chain"`
		ChainSince  chunk.Ordinal          `json:"chainSince"`
		Why         string                 `json:"why,omitempty"`
		Differences []projector.Difference `json:"differences,omitempty"`
	}
	text := []string{fmt.Sprintf("sequence %d, record %d", v.At.Seq, v.At.Ordinal)}
	if v.At.Ordinal > 0 {
		text = append(text, fmt.Sprintf("chain %s since %d", v.Chain, v.Chain.FirstOrdinal))
	}
	if v.Reason != "" {
		text = append(text, v.Reason)
	}
	for _, d := range v.Differences {
		text = append(text, fmt.Sprintf("\n  %s\n    stored %s\n    log    %s", d.Member, cmp.Or(d.Stored, "nothing"), cmp.Or(d.Now, "nothing")))
	}
	return line{
		Session: v.Session.String(), Result: v.Finding.String(), Text: strings.Join(text, ", "),
		Notable: v.Finding != projector.Same && v.Finding != projector.Unsaved,
		JSON:    compared{v.Session.String(), v.Finding.String(), v.At.Seq, v.At.Ordinal, v.Chain.String(), v.Chain.FirstOrdinal, v.Reason, v.Differences},
	}
}
