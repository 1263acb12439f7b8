package main

import (
	"fmt"
	"strings"
)

// words is a list as people write it: "a, b".
type words []string

// UnmarshalText reads words with commas between them.
func (w *words) UnmarshalText(text []byte) error {
	*w = nil
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			return fmt.Errorf("list is %q, want words with one comma between them", text)
		}
		*w = append(*w, word)
	}
	return nil
}

// String is the list as it was written.
func (w words) String() string { return strings.Join(w, ",") }
