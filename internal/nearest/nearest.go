// Package nearest finds the known name that is most like a mistyped one.
package nearest

import "strings"

// maxTyped is the length in bytes of the longest name that is compared: a client may send one of megabytes.
const maxTyped = 256

// Name returns the one of names with the smallest edit distance to typed, in which case, - and _ do not count. It is "" if that distance is over 3 or not less than
// half of typed, or if typed has more than 256 bytes.
func Name(typed string, names []string) (nearest string) {
	if len(typed) > maxTyped {
		return ""
	}
	typed = plain(typed)
	best := min(3, (len(typed)-1)/2) + 1
	for _, known := range names {
		name := plain(known)
		if longer := len(name) - len(typed); longer >= best || -longer >= best {
			continue // it has at least this distance
		}
		if d := distance(typed, name); d < best {
			nearest, best = known, d
		}
	}
	return nearest
}

var separators = strings.NewReplacer("-", "", "_", "")

func plain(name string) string { return strings.ToLower(separators.Replace(name)) }

// distance returns how many bytes must be inserted, removed or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the distances from the first i bytes of a to the first j bytes of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
