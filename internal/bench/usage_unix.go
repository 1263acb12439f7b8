//go:build unix

package bench

import (
	"fmt"
	"syscall"
	"time"
)

// processorTime returns the processor time of this process so far, in user and
// kernel mode.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// checkDescriptors checks that a process may open so many connections plus some
// files. The Go runtime has raised the soft limit to the hard limit.
func checkDescriptors(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if want := uint64(connections) + 500; uint64(limit.Cur) < want { //nolint:unconvert // signed on some systems
		return fmt.Errorf("limit of open files is %d, want %d for %d clients in each process: raise the hard limit (ulimit -Hn)", limit.Cur, want, connections)
	}
	return nil
}
