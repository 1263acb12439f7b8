package shares

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Every partition has one owner, shares differ by at most one, and the result depends on the set of members alone.
func TestOwners(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9_-]{1,8}`), 1, 12, rapid.ID).Draw(t, "members")
		n := rapid.IntRange(1, 128).Draw(t, "partitions")
		owners := Owners(members, n)
		if len(owners) != n {
			t.Fatalf("%d owners of %d partitions", len(owners), n)
		}
		owned := map[string]int{}
		for p, owner := range owners {
			if !slices.Contains(members, owner) {
				t.Fatalf("partition %d belongs to %q", p, owner)
			}
			owned[owner]++
		}
		least, most := n/len(members), (n+len(members)-1)/len(members)
		for _, m := range members {
			if owned[m] < least || owned[m] > most {
				t.Fatalf("%s owns %d of %d partitions among %d members", m, owned[m], n, len(members))
			}
		}
		shuffled := append(rapid.Permutation(members).Draw(t, "other order"), members[0])
		if again := Owners(shuffled, n); !slices.Equal(again, owners) {
			t.Fatalf("%v, in another order %v", owners, again)
		}
	})
}

func TestOwnersWithoutMembers(t *testing.T) {
	t.Parallel()
	if owners := Owners(nil, 2); !slices.Equal(owners, []string{"", ""}) {
		t.Errorf("%q, want no owners", owners)
	}
}

// When a member joins or leaves, what moves is about its share: on average at most about twice as much, because shares are equal.
func TestOwnersMoveLittle(t *testing.T) {
	t.Parallel()
	const draws = 100
	for _, n := range []int{1, 4, 16} {
		for _, size := range []int{1, 2, 3, 7} {
			moved := 0
			for draw := range draws {
				members := make([]string, size+1)
				for i := range members {
					members[i] = fmt.Sprint(draw, "-", i)
				}
				before, after := Owners(members[:size], n), Owners(members, n)
				for p := range n {
					if before[p] != after[p] {
						moved++
					}
				}
			}
			share := (n + size) / (size + 1) // rounded up
			if got := float64(moved) / draws; got > 2.2*float64(share) {
				t.Errorf("%d partitions, %d members and one more: %.2f partitions move, its share is %d", n, size, got, share)
			}
		}
	}
}
