package fold

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Errors whose texts differ only in these belong together. An id is a word with a digit of eight characters or more; a quotation that the bound of a text has cut
// extends to its end.
var variable = regexp.MustCompile(`"[^"]*(?:"|$)|\B'[^']*(?:'|$)|` + "`[^`]*(?:`|$)" + `|[\pL_-]*\d[\pL\d_-]*`)

// Pattern returns the text with <word> in place of quotations, and with <id> and <n> in place of ids and numbers.
func (e *LatestError) Pattern() string {
	return variable.ReplaceAllStringFunc(e.Text, func(found string) string {
		digits := strings.TrimLeft(found, "0123456789")
		switch {
		case strings.ContainsAny(found[:1], "\"'`"):
			return "<word>"
		case digits == "":
			return "<n>"
		case len(found) >= 8:
			return "<id>"
		}
		return numbers.ReplaceAllString(found, "<n>")
	})
}

var numbers = regexp.MustCompile(`\d+`)

// Group returns the id of the errors with the same code, tool and Pattern.
func (e *LatestError) Group() string {
	sum := sha256.Sum256([]byte(e.Code + "\x00" + e.Tool + "\x00" + e.Pattern()))
	return hex.EncodeToString(sum[:6])
}
