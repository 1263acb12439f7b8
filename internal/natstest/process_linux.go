package natstest

import "syscall"

// dieWithParent makes the kernel kill a child whose parent is gone, also one
// that SIGSTOP has put to sleep and that cannot see its standard input end. The
// kernel means the thread that started the child; Go ends threads only under
// goroutines that end while locked to theirs, so tests that lock must unlock.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
