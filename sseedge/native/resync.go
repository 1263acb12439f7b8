package native

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
)

// Resync appends the event for a reader whose cursor cannot be served: why, and
// the position of the snapshot from which the same response goes on. The reader
// loads the snapshot and drops what it has; events at or below the snapshot's
// own sequence it has then already. The id makes a reconnect go on from there.
func Resync(dst []byte, cause *chunk.TruncatedError, from chunk.Seq) []byte {
	dst = open(dst, from)
	dst = append(dst, `{"type":"truncated","reason":"`...)
	dst = append(dst, cause.Reason...) // one of the constants in chunk
	dst = append(dst, `","resumeFrom":`...)
	dst = strconv.AppendUint(dst, uint64(from), 10)
	if cause.Step != nil {
		dst = append(dst, `,"truncatedAtStep":`...)
		dst = strconv.AppendInt(dst, int64(*cause.Step), 10)
	}
	if cause.AtSeq != 0 {
		dst = append(dst, `,"atSequence":`...)
		dst = strconv.AppendUint(dst, uint64(cause.AtSeq), 10)
	}
	return closeFrame(dst)
}
