package row

import (
	"strconv"
	"strings"
)

// ParseMoney reads a decimal number such as "0.0042". Digits after the ninth are cut. It reports false for a negative number, an exponent, and a billion or more.
func ParseMoney(s string) (Money, bool) {
	whole, part, _ := strings.Cut(s, ".")
	if len(whole) > 9 || len(part) > 100 || whole+part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, false
	}
	part = (part + "000000000")[:9]
	n, err := strconv.ParseInt(whole+part, 10, 64)
	return Money(n), err == nil
}

// MaxMoney is the largest amount that stores accept.
const MaxMoney Money = 1e18 - 1
