package fold

import (
	"cmp"
	"math"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Sets of ordinals, as sorted ranges that neither touch nor overlap.

// addRanges returns the union of set and more. more may have any order.
func addRanges(set, more []chunk.OrdinalRange) []chunk.OrdinalRange {
	all := make([]chunk.OrdinalRange, 0, len(set)+len(more))
	all = append(all, set...)
	for _, r := range more {
		if r.First >= 1 && r.First <= r.Last {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b chunk.OrdinalRange) int { return cmp.Compare(a.First, b.First) })
	var out []chunk.OrdinalRange
	for _, r := range all {
		// Last+1 cannot overflow into a false match: it is compared as unsigned.
		if n := len(out); n > 0 && uint64(r.First) <= uint64(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// subtractRanges returns the part of set that is not in less; both are sets.
func subtractRanges(set, less []chunk.OrdinalRange) []chunk.OrdinalRange {
	var out []chunk.OrdinalRange
	for _, r := range set {
		for _, l := range less {
			if l.Last < r.First || l.First > r.Last {
				continue
			}
			if l.First > r.First {
				out = append(out, chunk.OrdinalRange{First: r.First, Last: l.First - 1})
			}
			if l.Last >= r.Last {
				r.First, r.Last = 1, 0 // all of it is removed
				break
			}
			r.First = l.Last + 1
		}
		if r.First <= r.Last {
			out = append(out, r)
		}
	}
	return out
}

// upTo returns the part of set up to last.
func upTo(set []chunk.OrdinalRange, last int64) []chunk.OrdinalRange {
	return subtractRanges(set, []chunk.OrdinalRange{{First: last + 1, Last: math.MaxInt64}})
}

// covers reports whether set contains all of first..last. It contains every empty range.
func covers(set []chunk.OrdinalRange, first, last int64) bool {
	if first > last {
		return true
	}
	return slices.ContainsFunc(set, func(r chunk.OrdinalRange) bool { return r.First <= first && last <= r.Last })
}
