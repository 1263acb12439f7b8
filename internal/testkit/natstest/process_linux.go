package natstest

import "syscall"

// dieWithParent makes the kernel kill a child whose parent has exited,
// including a child that is stopped by SIGSTOP and cannot read the end of its
// standard input. The kernel watches the thread that started the child. Go ends
// a thread only if its goroutine ends while locked to it, so tests that lock a
// thread must unlock it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
