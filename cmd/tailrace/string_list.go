package main

import (
	"errors"
	"strings"
)

// stringList is a comma-separated list as a setting: "a, b".
type stringList []string

// UnmarshalText parses a comma-separated list.
func (w *stringList) UnmarshalText(text []byte) error {
	*w = nil
	if len(text) == 0 {
		return nil
	}
	for word := range strings.SplitSeq(string(text), ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			return errors.New("want comma-separated words")
		}
		*w = append(*w, word)
	}
	return nil
}
