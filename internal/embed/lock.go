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

// lockName is the file in a store directory that its owner holds locked. It
// stays when the owner ends: a lock file that is removed can be locked twice,
// once by its old and once by its new inode.
const lockName = "tailrace.lock"

// errHeld is what tryLock returns when another process has the lock.
var errHeld = errors.New("locked by another process")

type storeLock struct{ file *os.File }

// lockStore makes the directory if need be and takes its lock. It proves on
// the way that the directory can be written.
func lockStore(dir string) (*storeLock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory %q cannot be made: choose another, or create it for this user: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chose the directory
	if err != nil {
		return nil, fmt.Errorf("data directory %q is not writable: choose another, or give this user the right to write there: %w", dir, err)
	}
	if err := tryLock(file); err != nil {
		err = heldError(dir, file, err)
		return nil, errors.Join(err, file.Close())
	}
	lock := &storeLock{file: file}
	if err := lock.sign(); err != nil {
		err = fmt.Errorf("data directory %q is not writable: is its disk full?: %w", dir, err)
		return nil, errors.Join(err, lock.release())
	}
	return lock, nil
}

// heldError names the process that holds the lock, as far as it said.
func heldError(dir string, file *os.File, err error) error {
	if !errors.Is(err, errHeld) {
		return fmt.Errorf("data directory %q cannot be locked: use one on a local disk: %w", dir, err)
	}
	owner := "another process"
	if text, readErr := io.ReadAll(io.LimitReader(file, 20)); readErr == nil {
		if pid, parseErr := strconv.Atoi(strings.TrimSpace(string(text))); parseErr == nil {
			owner = fmt.Sprintf("process %d", pid)
		}
	}
	return fmt.Errorf("data directory %q is in use by %s: stop that one, or choose another directory: %w", dir, owner, err)
}

// sign writes our process id into the lock, for the message of the next.
func (l *storeLock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// release gives the lock back: closing the file does.
func (l *storeLock) release() error { return l.file.Close() }
