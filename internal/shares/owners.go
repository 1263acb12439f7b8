package shares

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
)

// Owners returns the owner of each of n partitions: the same for the same set of members, in any order. Each member owns n divided by the number of members,
// rounded down or up. Without members all owners are "".
//
// Each pair of a member and a partition has a hash (rendezvous hashing), and the pairs are taken from the highest one: a partition gets the first member that is
// not full. Without the limit, shares of few partitions differ by a factor of two and more, and a process can have none.
func Owners(members []string, n int) []string {
	owners := make([]string, n)
	members = slices.Compact(slices.Sorted(slices.Values(members)))
	if len(members) == 0 {
		return owners
	}
	pairs := make([]pair, 0, n*len(members))
	for m, member := range members {
		for p := range n {
			pairs = append(pairs, pair{weight(member, p), p, m})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.partition, b.partition), cmp.Compare(a.member, b.member))
	})
	share, larger := n/len(members), n%len(members) // so many members own one more
	owned := make([]int, len(members))
	for _, q := range pairs {
		full := owned[q.member] > share || owned[q.member] == share && larger == 0
		if owners[q.partition] != "" || full {
			continue
		}
		if owned[q.member] == share {
			larger--
		}
		owned[q.member]++
		owners[q.partition] = members[q.member]
	}
	return owners
}

type pair struct {
	weight            uint64
	partition, member int
}

func weight(member string, partition int) uint64 {
	sum := sha256.Sum256([]byte(member + "." + strconv.Itoa(partition)))
	return binary.BigEndian.Uint64(sum[:])
}
