//go:build unix

package embed

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes a lock that the kernel releases when the process ends.
func tryLock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
