//go:build unix

package main

import "golang.org/x/sys/unix"

// descriptors returns the limit of open files: the soft limit, which the Go
// runtime has raised to the hard limit. 0 means unknown.
func descriptors() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}
