package chunk

import "github.com/tailrace/tailrace/internal/rawjson"

// Strings are WTF-8: UTF-8, and the three bytes that UTF-8 would have for a surrogate (ED A0..BF 80..BF) where the JSON text has a \uD8xx or \uDCxx
// escape without its other half. Other invalid UTF-8 is rejected.

func isHigh(u rune) bool { return u&^0x3FF == 0xD800 }
func isLow(u rune) bool  { return u&^0x3FF == 0xDC00 }

// Concat joins two WTF-8 strings: a high surrogate at the end of a and a low one at the start of b become one character.
func Concat(a, b string) string {
	high, low := surrogateAtEnd(a), rawjson.SurrogateAt(b)
	if !isHigh(high) || !isLow(low) {
		return a + b
	}
	return a[:len(a)-3] + string((high-0xD800)<<10+(low-0xDC00)+0x10000) + b[3:]
}

func surrogateAtEnd(s string) rune {
	if len(s) < 3 {
		return 0
	}
	return rawjson.SurrogateAt(s[len(s)-3:])
}
