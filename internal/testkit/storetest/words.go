package storetest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Word returns the text of a delta by which a test recognizes it in a snapshot: "w17 ".
func Word(n int) string { return fmt.Sprintf("w%d ", n) }

var word = regexp.MustCompile(`\bw[0-9]+\b`)

// Words returns the numbers of the words in the messages of a complete snapshot.
func Words(s fold.Snapshot) []int {
	var text strings.Builder
	for _, m := range s.Messages(0) {
		for _, p := range m.Parts {
			text.Write(p.AppendJSON(nil))
		}
	}
	return numbers(text.String())
}

// WordsOf returns the numbers of the words in records.
func WordsOf(records []chunk.Record) (all []int) {
	for _, rec := range records {
		all = append(all, numbers(string(rec.Data))...)
	}
	return all
}

func numbers(text string) (all []int) {
	for _, w := range word.FindAllString(text, -1) {
		n, _ := strconv.Atoi(w[1:]) // digits
		all = append(all, n)
	}
	return all
}

// CheckWords fails the test if a word is missing that must be there, is there twice, or is not in order. The words were written with rising numbers.
func CheckWords(tb testing.TB, what string, got, want []int) {
	tb.Helper()
	for _, n := range want {
		if _, found := slices.BinarySearch(got, n); !found {
			tb.Errorf("%s: %sis missing in %v", what, Word(n), got)
			return
		}
	}
	if !slices.IsSortedFunc(got, cmp.Compare[int]) || len(slices.Compact(slices.Clone(got))) != len(got) {
		tb.Errorf("%s: not in order, or twice: %v", what, got)
	}
}
