package consumers

import "github.com/tailrace/tailrace/chunk"

// Option changes one read.
type Option func(*options)

type options struct {
	fromFloor bool
	keepOpen  bool
	bounded   bool
	through   chunk.Seq
}

// FromFloor lets a read begin at the first record after its position that is
// still there, whatever is missing in between. Without it a session whose
// beginning has expired yields a *chunk.TruncatedError before any record, and so
// does a read at the edge of a gap.
func FromFloor() Option { return func(o *options) { o.fromFloor = true } }

// KeepOpen lets Follow and Tree go on after the terminal record and wait for
// the next run of the session; a failure ends them no more than an end does.
func KeepOpen() Option { return func(o *options) { o.keepOpen = true } }

// Through ends Replay and ReplayTree at seq, inclusive, or at the present end
// when that is earlier. Follow and Tree pass over it.
func Through(seq chunk.Seq) Option {
	return func(o *options) { o.bounded, o.through = true, seq }
}

func optionsOf(opts []Option) options {
	var o options
	for _, set := range opts {
		set(&o)
	}
	return o
}
