package embed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockName is the file in a store directory that its owner keeps locked. It is
// not removed at the end: a removed lock file could be locked twice, once by
// its old and once by its new inode.
const lockName = "tailrace.lock"

// errHeld is the error of tryLock if another process holds the lock.
var errHeld = errors.New("locked by another process")

type storeLock struct{ file *os.File }

// lockStore creates the directory if it does not exist and takes its lock. This
// also checks that the directory is writable.
func lockStore(dir string) (*storeLock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create data directory %q: choose another directory or create it for this user: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chose the directory
	if err != nil {
		return nil, fmt.Errorf("data directory %q is not writable: choose another, or give this user write permission: %w", dir, err)
	}
	if err := tryLock(file); err != nil {
		err = heldError(dir, file, err)
		return nil, errors.Join(err, file.Close())
	}
	lock := &storeLock{file: file}
	if err := lock.writePID(); err != nil {
		err = fmt.Errorf("write lock in data directory %q: %w", dir, err)
		return nil, errors.Join(err, lock.release())
	}
	return lock, nil
}

// heldError returns an error with the id of the process that holds the lock, if
// the lock file contains it.
func heldError(dir string, file *os.File, err error) error {
	if !errors.Is(err, errHeld) {
		return fmt.Errorf("lock data directory %q: use a directory on a local disk: %w", dir, err)
	}
	owner := "another process"
	if text, readErr := io.ReadAll(io.LimitReader(file, 20)); readErr == nil {
		if pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text))); parseErr == nil {
			owner = fmt.Sprintf("process %d", pid)
		}
	}
	return fmt.Errorf("data directory %q is in use by %s: stop that one, or choose another directory: %w", dir, owner, err)
}

// writePID writes the id of this process into the lock file, for the error
// message of other processes.
func (l *storeLock) writePID() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// release releases the lock by closing the file.
func (l *storeLock) release() error { return l.file.Close() }
