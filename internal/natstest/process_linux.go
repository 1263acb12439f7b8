package natstest

import "syscall"

// dieWithParent makes the kernel kill a child whose parent is gone, also one
// that SIGSTOP has put to sleep and that cannot see its standard input end.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
