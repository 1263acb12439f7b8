//go:build unix

package bench

import (
	"fmt"
	"syscall"
	"time"
)

// processorTime is what this process has used so far, in its own code and in
// the kernel on its behalf.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// checkDescriptors makes sure that a process may hold as many connections, with
// some files beside. The Go runtime has raised the soft limit to the hard one.
func checkDescriptors(connections int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if want := uint64(connections) + 500; uint64(limit.Cur) < want { //nolint:unconvert // signed on some systems
		return fmt.Errorf("%d clients need %d descriptors in each process, and %d are allowed: raise the hard limit (ulimit -Hn)", connections, want, limit.Cur)
	}
	return nil
}
