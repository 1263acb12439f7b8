package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

var (
	errExists  = errors.New("object exists")
	errChanged = errors.New("object was changed by another process")
)

// objects are named files. Names have slashes. A call that fails may have had its effect.
type objects interface {
	// begin waits until no other process writes, where the kind of objects can know that, and removes what dead writers have left. The second call has no effect.
	begin(ctx context.Context) error

	// create stores an object, or returns errExists if there is one with this name.
	create(ctx context.Context, name string, data []byte) error

	// replace stores an object in place of the one with this version, or returns errChanged if it has another version.
	replace(ctx context.Context, name, version string, data []byte) error

	// open returns an object, or fs.ErrNotExist.
	open(ctx context.Context, name string) (object, error)

	// list returns the objects below a directory.
	list(ctx context.Context, directory string) ([]entry, error)

	// remove removes an object, if it exists.
	remove(ctx context.Context, name string) error

	// url returns where DuckDB finds the objects.
	url() string

	close() error
}

// entry is an object in a list.
type entry struct {
	name     string
	size     int64
	modified time.Time
}

// object is an open object. A read fails if the object was replaced meanwhile, or returns the replaced one.
type object interface {
	io.ReaderAt
	io.Closer
	size() int64
	version() string
}

// put stores an object, whether it exists or not. It does nothing if the object has this content.
func put(ctx context.Context, o objects, name string, data []byte) error {
	for {
		old, version, err := read(ctx, o, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = o.create(ctx, name, data)
		case err == nil && !bytes.Equal(old, data):
			err = o.replace(ctx, name, version, data)
		}
		if errors.Is(err, errExists) || errors.Is(err, errChanged) {
			continue // another process has stored it, perhaps with this content
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		return nil
	}
}

// read returns the content and the version of an object.
func read(ctx context.Context, o objects, name string) (data []byte, version string, err error) {
	in, err := o.open(ctx, name)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	data = make([]byte, in.size())
	if n, err := in.ReadAt(data, 0); n < len(data) {
		return nil, "", err
	}
	return data, in.version(), nil
}
