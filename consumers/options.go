package consumers

import "github.com/tailrace/tailrace/chunk"

// Option changes one read.
type Option func(*options)

type options struct {
	fromFirst bool
	keepOpen  bool
	bounded   bool
	through   chunk.Seq
}

// FromFirstAvailable lets a read begin at the first record after its position that the log still has, whatever is missing in between. Without it, a
// session whose beginning has expired yields a *chunk.TruncatedError before any record, and so does a read at the edge of a gap.
func FromFirstAvailable() Option { return func(o *options) { o.fromFirst = true } }

// KeepOpen lets Follow and FollowTree continue after a terminal record, also of a failure, and wait for the next run of the session.
func KeepOpen() Option { return func(o *options) { o.keepOpen = true } }

// Through ends Replay and ReplayTree at seq, inclusive, or at the present end if that is earlier. Follow and FollowTree ignore it.
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
