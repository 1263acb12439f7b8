package jsclient

import "strings"

// Overlap reports whether a subject can match both filters.
func Overlap(a, b string) bool {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		switch l, r := left[i], right[i]; {
		case l == ">" || r == ">":
			return true
		case l != r && !isWildcard(l) && !isWildcard(r):
			return false
		}
	}
	return len(left) == len(right)
}

// isWildcard reports whether a token matches any other, also in the destination of a republish ("{{wildcard(1)}}").
func isWildcard(token string) bool { return token == "*" || strings.HasPrefix(token, "{{") }
