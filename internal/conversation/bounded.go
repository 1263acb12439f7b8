package conversation

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// ReadWithin makes within call all reads of snapshots, which may call each several times: that of a surface bounds the memory of them. It must be called before
// the first request.
func (s *Service) ReadWithin(within func(ctx context.Context, read func(context.Context) error) error) {
	s.ports.Snapshots, s.within = bounded{s.ports.Snapshots, within}, within
}

// read calls f within the memory of reads.
func (s *Service) read(ctx context.Context, f func(context.Context) error) error {
	if s.within == nil {
		return f(ctx)
	}
	return s.within(ctx, f)
}

// bounded implements Snapshots.
type bounded struct {
	of     Snapshots
	within func(ctx context.Context, read func(context.Context) error) error
}

// readBounded calls read within the memory of reads.
func readBounded[T any](ctx context.Context, b bounded, read func(context.Context) (T, error)) (v T, err error) {
	err = b.within(ctx, func(ctx context.Context) (err error) {
		v, err = read(ctx)
		return err
	})
	return v, err
}

// Snapshot implements Snapshots.
func (b bounded) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	return readBounded(ctx, b, func(ctx context.Context) (fold.Snapshot, error) { return b.of.Snapshot(ctx, s) })
}

// Head implements Snapshots.
func (b bounded) Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	return readBounded(ctx, b, func(ctx context.Context) (fold.Snapshot, error) { return b.of.Head(ctx, s) })
}

// MessagePage implements Snapshots.
func (b bounded) MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	return readBounded(ctx, b, func(ctx context.Context) (*fold.MessagePage, error) { return b.of.MessagePage(ctx, s, q) })
}
