package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/topology"
)

// runGrow lets sessions begin in the partitions of the newest generation, which `tailrace setup` has created.
func runGrow(ctx context.Context, t terminal, args []string) error {
	cfg, err := flagsOnly(t, "grow", args, nil)
	if err != nil {
		return err
	}
	layout := cfg.layout()
	if layout.Generations() == 1 {
		return usageError{errors.New("partitions is " + layout.PartitionList() + ", want the numbers of all generations such as 1,4")}
	}
	b, err := connectCommand(ctx, t, natsauth.Operator, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	closed, err := topology.Grow(ctx, b.js, b.topology())
	for _, stream := range closed {
		fmt.Fprintf(t.out, "%s is closed: no session begins there any more\n", stream)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "sessions begin in %d partitions\n", layout.Partitions)
	return nil
}
