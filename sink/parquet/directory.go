package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"
)

// Names in a directory that are not objects. The names of tables have no dot.
const (
	lockName    = ".lock"
	scratchName = ".scratch"
)

// lockInterval is the time between two attempts to lock a directory.
const lockInterval = 200 * time.Millisecond

// directory is a directory in a file system with hard links and flock. One process writes to it.
type directory struct {
	path string
	lock *os.File // nil before begin

	// fault is called before each step, for tests. An error ends the operation there, as the end of the process would.
	fault func(step string) error
}

// OpenDirectory returns the lake in a directory, which need not exist. One process writes to a directory: Begin waits for the others.
func OpenDirectory(name string) (*Store, error) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("lake %q: %w", name, err)
	}
	return newStore(&directory{path: absolute, fault: func(string) error { return nil }}), nil
}

func (d *directory) url() string { return filepath.ToSlash(d.path) }

func (d *directory) begin(ctx context.Context) error {
	if d.lock != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(d.path, scratchName), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(d.path, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := wait(ctx, file); err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", d.path, err), file.Close())
	}
	if err := d.recover(); err != nil {
		return errors.Join(err, file.Close())
	}
	d.lock = file
	return nil
}

// wait locks a file. It tries again at intervals, because a call of flock that blocks does not end with the context.
func wait(ctx context.Context, file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockInterval):
		}
	}
}

// recover completes what a writer that ended had begun: its temporary files are removed, and all its names are made durable, because what is stored next follows them.
func (d *directory) recover() error {
	scratch := filepath.Join(d.path, scratchName)
	left, err := os.ReadDir(scratch)
	if err != nil {
		return err
	}
	for _, entry := range left {
		if err := os.Remove(filepath.Join(scratch, entry.Name())); err != nil {
			return err
		}
	}
	return filepath.WalkDir(d.path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncDirectory(name)
	})
}

func (d *directory) create(_ context.Context, name string, data []byte) error {
	final := filepath.Join(d.path, filepath.FromSlash(name))
	if err := d.makeParents(path.Dir(name)); err != nil {
		return err
	}
	temporary, err := d.writeTemporary(data)
	if err != nil {
		return err
	}
	if err := d.fault("link"); err != nil {
		return err
	}
	linkErr := os.Link(temporary, final)
	if err := d.fault("remove"); err != nil {
		return err
	}
	if err := os.Remove(temporary); err != nil {
		return err
	}
	if linkErr != nil && !errors.Is(linkErr, fs.ErrExist) {
		return linkErr
	}
	if err := d.fault("sync directory"); err != nil {
		return err
	}
	// An existing name may be of a call that ended before it was durable.
	if err := syncDirectory(filepath.Dir(final)); err != nil {
		return err
	}
	if linkErr != nil {
		return errExists
	}
	return nil
}

// replace renames a temporary file. The version is not used: no other process writes, and the calls of this one are not concurrent.
func (d *directory) replace(_ context.Context, name, _ string, data []byte) error {
	final := filepath.Join(d.path, filepath.FromSlash(name))
	temporary, err := d.writeTemporary(data)
	if err != nil {
		return err
	}
	if err := d.fault("rename"); err != nil {
		return err
	}
	if err := os.Rename(temporary, final); err != nil {
		return err
	}
	if err := d.fault("sync directory"); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(final))
}

// writeTemporary writes a durable file to the directory of temporary ones, and returns its path.
func (d *directory) writeTemporary(data []byte) (name string, err error) {
	if err := d.fault("write"); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Join(d.path, scratchName), "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Chmod(0o640); err != nil {
		return "", err
	}
	if _, err := file.Write(data); err != nil {
		return "", err
	}
	if err := d.fault("sync"); err != nil {
		return "", err
	}
	return file.Name(), file.Sync()
}

// makeParents makes a directory for objects, and the ones above it, durable.
func (d *directory) makeParents(name string) error {
	full := filepath.Join(d.path, filepath.FromSlash(name))
	if _, err := os.Stat(full); err == nil || name == "." {
		return err
	}
	if err := d.makeParents(path.Dir(name)); err != nil {
		return err
	}
	if err := d.fault("mkdir"); err != nil {
		return err
	}
	if err := os.Mkdir(full, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(filepath.Dir(full))
}

func (d *directory) open(_ context.Context, name string) (object, error) {
	file, err := os.Open(filepath.Join(d.path, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return openFile{File: file, bytes: info.Size()}, nil
}

// openFile is an open file of a directory.
type openFile struct {
	*os.File

	bytes int64
}

func (f openFile) size() int64     { return f.bytes }
func (f openFile) version() string { return "" }

func (d *directory) list(_ context.Context, name string) (found []entry, err error) {
	err = filepath.WalkDir(filepath.Join(d.path, name), func(full string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && e == nil {
			return nil // the table has no file
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(d.path, full)
		found = append(found, entry{filepath.ToSlash(relative), info.Size(), info.ModTime()})
		return err
	})
	return found, err
}

// remove does not wait until the removal is durable: a file that is there again after a crash is removed again.
func (d *directory) remove(_ context.Context, name string) error {
	final := filepath.Join(d.path, filepath.FromSlash(name))
	if err := d.fault("remove object"); err != nil {
		return err
	}
	if err := os.Remove(final); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *directory) close() error {
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close() // unlocks
	d.lock = nil
	return err
}

func syncDirectory(name string) (err error) {
	dir, err := os.Open(name) //nolint:gosec // a directory of the lake
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.Sync()
}
