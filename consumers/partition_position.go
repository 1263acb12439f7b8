package consumers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// PartitionPosition is a position in the log of one partition.
type PartitionPosition struct {
	// StreamEpoch is the history of the log to which the position belongs, see chunk.Tip. It may be empty: then only the anchor of the cursor shows whether the
	// log is still the same.
	StreamEpoch string

	Partition int
	Cursor    chunk.Cursor
}

// String returns "<epoch>:<partition>.<cursor>", without an epoch "<partition>.<cursor>".
func (p PartitionPosition) String() string {
	text := strconv.Itoa(p.Partition) + "." + p.Cursor.String()
	if p.StreamEpoch != "" {
		text = p.StreamEpoch + ":" + text
	}
	return text
}

// ParsePartitionPosition reads what String wrote.
func ParsePartitionPosition(s string) (PartitionPosition, error) {
	wrong := fmt.Errorf("position is %.100q, want one such as 0.4711-mgj6k3gb", s)
	var p PartitionPosition
	rest := s
	if epoch, after, ok := strings.Cut(s, ":"); ok {
		if p.StreamEpoch, rest = epoch, after; !chunk.IsStreamEpoch(epoch) {
			return p, wrong
		}
	}
	partition, cursor, ok := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(partition, 10, 31)
	if !ok || err != nil || strconv.FormatUint(n, 10) != partition {
		return p, wrong
	}
	p.Partition = int(n)
	if p.Cursor, ok = chunk.ParseCursor(cursor); !ok {
		return p, wrong
	}
	return p, nil
}
