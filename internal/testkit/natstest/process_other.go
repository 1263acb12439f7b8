//go:build !linux

package natstest

import "syscall"

// dieWithParent returns nil: these systems have no equivalent. The child exits
// when its standard input ends.
func dieWithParent() *syscall.SysProcAttr { return nil }
