package embed

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes a lock that the kernel releases when the process ends. It
// covers a byte far after the text, so that other processes can read the owner.
func tryLock(file *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(file.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
