package jsusage

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// However often, and in whatever order processes write, repeat writes and forget that a write was stored, the number is the sum of what they have counted.
func TestUsageIsTheSumOfShares(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 31))
		counted := make([]int64, 1+random.IntN(20))
		stored := make([]int64, len(counted))
		var u usage
		write := func(p int, learns bool) {
			id := fmt.Sprint(p)
			if u.missing(id, counted[p], stored[p]) > 0 {
				u = u.with(id, counted[p], stored[p])
			}
			if learns {
				stored[p] = counted[p]
			}
		}
		for range 100 {
			p := random.IntN(len(counted))
			counted[p] += int64(random.IntN(3) * 100)
			write(p, random.IntN(2) == 0)
		}
		want := int64(0)
		for p := range counted {
			write(p, true)
			want += counted[p]
		}
		if u.Tokens != want {
			t.Fatalf("seed %d: %d tokens, want %d", seed, u.Tokens, want)
		}
	}
}

// A record has the shares of 256 processes. One that has given place to others adds nothing that was stored before, and the record stays small.
func TestMoreProcessesThanShares(t *testing.T) {
	var u usage
	const processes = 3 * maxProcesses
	for round := range int64(2) {
		for p := range processes {
			u = u.with(fmt.Sprintf("%026d", p), 10*(round+1), 10*round)
		}
	}
	if u.Tokens != 2*10*processes || len(u.Processes) != maxProcesses {
		t.Errorf("%d tokens, %d shares", u.Tokens, len(u.Processes))
	}
	data, err := json.Marshal(u)
	if err != nil || len(data) > 16<<10 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	t.Logf("%d bytes for %d shares", len(data), maxProcesses)
	if got, err := decode(data); err != nil || got.Tokens != u.Tokens {
		t.Errorf("%+v, %v", got, err)
	}
}

// Numbers stop at the largest one, so that none becomes negative: that would be an unlimited budget.
func TestLargestNumber(t *testing.T) {
	u := usage{}.with("a", maxTokens, 0).with("b", maxTokens, 0)
	if u.Tokens != maxTokens {
		t.Errorf("%d tokens", u.Tokens)
	}
	for _, bad := range []string{"", "{", `"x"`, `{"tokens":-1}`, `{"tokens":9007199254740992}`, `{"tokens":1,"processes":[{"process":"a","tokens":-5}]}`, `{"tokens":1e999}`} {
		if _, err := decode([]byte(bad)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := decode([]byte(`{"tokens":1,"later":true}`)); err != nil {
		t.Errorf("a record of a later version: %v", err)
	}
}
