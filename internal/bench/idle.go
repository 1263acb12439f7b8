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

// idle measures the cost of a client that waits for an event. At the end one
// event is sent, and every client must receive it.
type idle struct{ live }

func (l *harness) idle() []pair {
	i := idle{live{harness: l, sessions: 1, clients: l.cfg.size(10_000), events: 1}}
	return []pair{{
		name: fmt.Sprintf("idle-%d-clients", i.clients), baseline: "net/http, a handler that waits",
		targets: []target{{figure: heap, aboveBaselineAtMost: 16}, {figure: resident, aboveBaselineAtMost: 16}},
		ours:    func(ctx context.Context, _ int) (figures, error) { return i.measure(ctx, i.watchEdge) },
		raw:     func(ctx context.Context, _ int) (figures, error) { return i.measure(ctx, i.watchBare) },
	}}
}

// The figures of idle clients.
const (
	heap     = "heap+stacks KiB/client" // MemStats.HeapInuse + StackInuse
	inUse    = "live KiB/client"        // HeapAlloc + StackInuse: without the free parts of pages, which the next clients use
	resident = "resident KiB/client"    // of the process, as the kernel counts it
)

// measure connects the clients and returns the growth of this process per
// client.
func (i idle) measure(ctx context.Context, watch func(context.Context, func() error) (outcome, error)) (figures, error) {
	before, err := memoryInUse()
	if err != nil {
		return nil, err
	}
	var loaded memory
	_, err = watch(ctx, func() (err error) {
		loaded, err = memoryInUse()
		return err
	})
	each := func(before, loaded int64) float64 { return float64(loaded-before) / 1024 / float64(i.clients) }
	return figures{{heap, each(before.heap, loaded.heap)}, {inUse, each(before.live, loaded.live)}, {resident, each(before.resident, loaded.resident)}}, err
}

type memory struct{ heap, live, resident int64 } // bytes

// memoryInUse collects garbage, returns free memory to the system and reads the
// memory in use.
func memoryInUse() (memory, error) {
	runtime.GC() // FreeOSMemory collects again, after the finalizers
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m := memory{heap: int64(stats.HeapInuse + stats.StackInuse), live: int64(stats.HeapAlloc + stats.StackInuse)}
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
