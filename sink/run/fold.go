package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// FoldError reports a record whose rows cannot be computed: a fault of this program, which concerns one tree. The batch has no rows of the record.
type FoldError struct {
	Session chunk.Session
	Seq     chunk.Seq
	Cause   any // of the panic
	Stack   []byte
}

func (e *FoldError) Error() string {
	return fmt.Sprintf("session %s, sequence %d: %v\n%s", e.Session, e.Seq, e.Cause, e.Stack)
}

// Fold appends a record to f, after the earlier records of its tree if f does not have them: it reads them from the log. Records that the log has lost between others are
// left out: the gap is reported where the firehose finds it. After a *FoldError f has forgotten the tree, and the records of other trees may follow.
func Fold(ctx context.Context, log *consumers.Reader, f *observe.Folder, b *row.Batch, rec chunk.Record) (err error) {
	before := *b
	defer func() {
		if cause := recover(); cause != nil {
			*b = before
			f.Forget(rec.Session.Tree())
			err = &FoldError{rec.Session, rec.Seq, cause, debug.Stack()}
		}
	}()
	if f.Missing(rec) {
		if err := loadTree(ctx, log, f, rec); err != nil {
			return err
		}
	}
	f.Append(b, rec)
	return nil
}

// loadTree appends the records of the tree of rec before rec.
func loadTree(ctx context.Context, log *consumers.Reader, f *observe.Folder, rec chunk.Record) error {
	root := rec.Session.Tree()
	f.Load(root)
	for after := chunk.Seq(0); after+1 < rec.Seq; {
		last, err := loadRange(ctx, log, f, chunk.Range{
			Session: root, Tree: true, After: chunk.Position{Seq: after}, Through: rec.Seq - 1, FromOldest: true, AllowCleanup: true,
		})
		switch {
		case err == nil, errors.Is(err, chunk.ErrUnknownSession), errors.Is(err, chunk.ErrTruncated) && last == 0:
			return nil
		case !errors.Is(err, chunk.ErrTruncated):
			return fmt.Errorf("read the records of %s before %d: %w", root, rec.Seq, err)
		}
		after = last
	}
	return nil
}

// loadRange appends the records of a range up to the first gap, and returns the last one.
func loadRange(ctx context.Context, log *consumers.Reader, f *observe.Folder, of chunk.Range) (last chunk.Seq, err error) {
	for earlier, err := range log.Replay(ctx, of) {
		if err != nil {
			return last, err
		}
		f.Append(nil, earlier)
		last = earlier.Seq
	}
	return last, nil
}
