//go:build !linux

package natstest

import "syscall"

// dieWithParent has no equal here: the end of standard input must do.
func dieWithParent() *syscall.SysProcAttr { return nil }
