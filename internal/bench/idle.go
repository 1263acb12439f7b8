package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// idle measures what one more client costs that waits for something to happen.
// In the end something does, and every one of them must hear of it.
type idle struct{ live }

func (l *lab) idle() []pair {
	i := idle{live{lab: l, sessions: 1, clients: l.cfg.size(10_000), events: 1}}
	return []pair{{
		name: fmt.Sprintf("idle-%d-clients", i.clients), floor: "net/http, a handler that waits",
		aims: []aim{{figure: heap, aboveTheFloorAtMost: 16}, {figure: resident, aboveTheFloorAtMost: 16}},
		ours: func(ctx context.Context, _ int) (figures, error) { return i.hold(ctx, i.watchEdge) },
		raw:  func(ctx context.Context, _ int) (figures, error) { return i.hold(ctx, i.watchBare) },
	}}
}

// The figures of clients that do nothing.
const (
	heap     = "heap+stacks KiB/client" // MemStats.HeapInuse + StackInuse
	resident = "resident KiB/client"    // of the process, as the kernel counts it
)

// hold opens the clients and says what this process has grown by for each.
func (i idle) hold(ctx context.Context, watch func(context.Context, func() error) (outcome, error)) (figures, error) {
	before, err := memoryInUse()
	if err != nil {
		return nil, err
	}
	var held memory
	_, err = watch(ctx, func() (err error) {
		held, err = memoryInUse()
		return err
	})
	each := func(before, held int64) float64 { return float64(held-before) / 1024 / float64(i.clients) }
	return figures{{heap, each(before.heap, held.heap)}, {resident, each(before.resident, held.resident)}}, err
}

type memory struct{ heap, resident int64 } // bytes

// memoryInUse collects what is garbage and gives back what is free, then looks.
func memoryInUse() (memory, error) {
	runtime.GC() // what finalizers keep goes in the second
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m := memory{heap: int64(stats.HeapInuse + stats.StackInuse)}
	statm, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, os.ErrNotExist) {
		return m, nil // not Linux: the figure stays 0
	}
	if err != nil {
		return m, err
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return m, fmt.Errorf("/proc/self/statm is %q, want sizes in pages", statm)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	m.resident = pages * int64(os.Getpagesize())
	return m, err
}
