package subjects

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// PartitionCount returns the number of partitions of all generations.
func (l Layout) PartitionCount() int {
	n := max(1, l.withDefaults().Partitions)
	for _, earlier := range l.Earlier {
		n += max(0, earlier)
	}
	return n
}

// Generations returns the number of generations: 1, and one for each time that the partitions have grown.
func (l Layout) Generations() int { return len(l.Earlier) + 1 }

// Partition returns the partition of the newest generation for the tree of s, in which it begins. Without Earlier, it is there.
func (l Layout) Partition(s chunk.Session) int { return l.PartitionIn(len(l.Earlier), s) }

// PartitionIn returns the partition of a generation for the tree of s: the number of the first one, and FNV-1a 32 of "<tenant>.<root>" modulo their number. A
// server computes the latter with {{partition(P)}} on a subject of just these two tokens.
func (l Layout) PartitionIn(generation int, s chunk.Session) int {
	first := 0
	for _, n := range l.Earlier[:generation] {
		first += n
	}
	h := fnv1a(fnvOffset, s.Tenant)
	h = fnv1a(h, ".")
	h = fnv1a(h, s.Root)
	return first + int(uint64(h)%uint64(l.generationSize(generation)))
}

// Generation returns the generation of a partition.
func (l Layout) Generation(partition int) int {
	for g := range l.Earlier {
		if partition -= l.Earlier[g]; partition < 0 {
			return g
		}
	}
	return len(l.Earlier)
}

// In returns the layout as it was when a generation was the newest one.
func (l Layout) In(generation int) Layout {
	if generation < len(l.Earlier) {
		l.Earlier, l.Partitions = l.Earlier[:generation], l.Earlier[generation]
	}
	return l
}

func (l Layout) generationSize(g int) int {
	if g < len(l.Earlier) {
		return max(1, l.Earlier[g])
	}
	return max(1, l.withDefaults().Partitions)
}

// PartitionList returns the numbers of partitions of all generations, the oldest first, separated by commas: "1,4".
func (l Layout) PartitionList() string {
	var b strings.Builder
	for _, n := range l.Earlier {
		b.WriteString(strconv.Itoa(n) + ",")
	}
	return b.String() + strconv.Itoa(l.generationSize(len(l.Earlier)))
}

// ParsePartitionList is the inverse of PartitionList.
func ParsePartitionList(list string) (earlier []int, partitions int, err error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 0, 32)
		if err != nil || n < 1 {
			return nil, 0, fmt.Errorf("partitions is %q, want a number, or the numbers of all generations such as 1,4", list)
		}
		all = append(all, int(n))
	}
	last := len(all) - 1
	return all[:last:last], all[last], nil
}

// The hash is computed here because Parse needs it for every message of the log, and hash/fnv would allocate a copy of both names each time.
const (
	fnvOffset uint32 = 2166136261
	fnvPrime  uint32 = 16777619
)

func fnv1a(h uint32, s string) uint32 {
	for i := range len(s) {
		h ^= uint32(s[i])
		h *= fnvPrime
	}
	return h
}
