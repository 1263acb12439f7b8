package parquet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
)

var errFault = errors.New("fault of the test")

// faulty are the objects of one of several writers: they do not exclude each other, and calls may fail.
type faulty struct {
	objects

	// fault is called before each call with its number from 0, and returns whether it fails, and whether it fails after its effect only.
	fault func(call int) (before, after bool)
	calls int
}

func (f *faulty) begin(context.Context) error { return nil }
func (f *faulty) close() error                { return nil }

func (f *faulty) call(do func() error) error {
	var before, after bool
	if f.fault != nil {
		before, after = f.fault(f.calls)
	}
	f.calls++
	if before {
		return errFault
	}
	err := do()
	if after {
		return errFault
	}
	return err
}

func (f *faulty) create(ctx context.Context, name string, data []byte) error {
	return f.call(func() error { return f.objects.create(ctx, name, data) })
}

func (f *faulty) replace(ctx context.Context, name, version string, data []byte) error {
	return f.call(func() error { return f.objects.replace(ctx, name, version, data) })
}

func (f *faulty) remove(ctx context.Context, name string) error {
	return f.call(func() error { return f.objects.remove(ctx, name) })
}

func (f *faulty) open(ctx context.Context, name string) (in object, err error) {
	err = f.call(func() error {
		in, err = f.objects.open(ctx, name)
		return err
	})
	if errors.Is(err, errFault) && in != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, err
}

func (f *faulty) list(ctx context.Context, directory string) (found []entry, err error) {
	err = f.call(func() error {
		found, err = f.objects.list(ctx, directory)
		return err
	})
	return found, err
}

// versioned is a directory that replaces an object only in place of the version that was read, as S3 does, so that several processes may maintain it.
type versioned struct{ *directory }

func (v *versioned) open(ctx context.Context, name string) (object, error) {
	in, err := v.directory.open(ctx, name)
	if err != nil {
		return nil, err
	}
	data := make([]byte, in.size())
	if _, err := in.ReadAt(data, 0); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return versionedObject{in, fmt.Sprintf("%x", sha256.Sum256(data))}, nil
}

type versionedObject struct {
	object

	hash string
}

func (o versionedObject) version() string { return o.hash }

func (v *versioned) replace(ctx context.Context, name, version string, data []byte) error {
	in, err := v.open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	if in.version() != version {
		return errChanged
	}
	return v.directory.replace(ctx, name, version, data)
}
