package helix

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// Resync appends the event for a reader whose cursor cannot be served: the reason, and the position of the snapshot at which the same response continues.
// The reader discards what it has and loads the snapshot, which includes all events up to its own sequence. With the id of the event a reconnect continues
// from that position.
func Resync(dst []byte, cause *chunk.TruncatedError, from chunk.Cursor) []byte {
	dst = open(dst, from)
	dst = append(dst, `{"type":"truncated","reason":"`...)
	dst = append(dst, cause.Reason...) // one of the constants in chunk
	dst = append(dst, `","resumeFrom":`...)
	dst = strconv.AppendUint(dst, uint64(from.Seq), 10)
	if cause.Step != nil {
		dst = append(dst, `,"truncatedAtStep":`...)
		dst = strconv.AppendInt(dst, int64(*cause.Step), 10)
	}
	if cause.HighWatermark != 0 {
		dst = append(dst, `,"atSequence":`...)
		dst = strconv.AppendUint(dst, uint64(cause.HighWatermark), 10)
	}
	return closeFrame(dst)
}
