package chunk

import (
	"strconv"
	"strings"
	"time"
)

// Cursor is a position of a client: the sequence of the last record that it has, and the anchor of that record. A sequence alone does not identify a record:
// after a power loss, or when an older copy of the data directory was put back, the stream assigns sequences again. The zero Cursor is before the first record.
type Cursor struct {
	Seq    Seq
	Anchor Anchor // 0 if the client does not send it
}

// Anchor is the time at which the log stored a record, in milliseconds since 1970 UTC; 0 is unknown. All replicas and backups of a log have the same
// one, and a record that was stored at the same sequence later has another.
type Anchor int64

// anchorBase is the base in which an anchor is written: 8 characters until 2059.
const anchorBase = 36

// maxAnchor is the maximum length of an anchor. It is shorter than any StreamEpoch, which may have its place in a cursor.
const maxAnchor = 10

// AnchorAt returns the anchor of a record that was stored at t; 0 for the zero time.
func AnchorAt(t time.Time) Anchor {
	if t.IsZero() {
		return 0
	}
	return Anchor(max(t.UnixMilli(), 0))
}

// Anchor of the record.
func (r Record) Anchor() Anchor { return AnchorAt(r.StoredAt) }

// Cursor of a client that has received the record.
func (r Record) Cursor() Cursor { return Cursor{Seq: r.Seq, Anchor: r.Anchor()} }

// Matches reports whether the record may be the one of the anchor: an unknown anchor matches every record.
func (a Anchor) Matches(r Record) bool { return a == 0 || r.StoredAt.IsZero() || a == r.Anchor() }

// Append appends "<sequence>-<anchor>", or the sequence alone if the anchor is unknown.
func (c Cursor) Append(dst []byte) []byte {
	dst = strconv.AppendUint(dst, uint64(c.Seq), 10)
	if c.Anchor == 0 {
		return dst
	}
	return appendAnchor(append(dst, '-'), c.Anchor)
}

// appendAnchor is strconv.AppendInt with two digits for each division: every event of a stream has a cursor, and without it a third of the time of a writer was
// spent on its digits.
func appendAnchor(dst []byte, a Anchor) []byte {
	if a < 0 {
		return strconv.AppendInt(dst, int64(a), anchorBase)
	}
	var buf [14]byte
	i, n := len(buf), uint64(a)
	for n >= anchorBase {
		pair := n % (anchorBase * anchorBase) * 2
		n /= anchorBase * anchorBase
		i -= 2
		buf[i], buf[i+1] = anchorDigits[pair], anchorDigits[pair+1]
	}
	if n > 0 || i == len(buf) {
		i--
		buf[i] = anchorDigits[2*n+1]
	}
	if buf[i] == '0' && i < len(buf)-1 { // of a pair
		i++
	}
	return append(dst, buf[i:]...)
}

// anchorDigits has the two digits of each number below anchorBase squared.
var anchorDigits = func() (digits [2 * anchorBase * anchorBase]byte) {
	const one = "0123456789abcdefghijklmnopqrstuvwxyz"
	for n := range anchorBase * anchorBase {
		digits[2*n], digits[2*n+1] = one[n/anchorBase], one[n%anchorBase]
	}
	return digits
}()

func (c Cursor) String() string { return string(c.Append(nil)) }

// ParseCursor reads what Append wrote. The sequence is a decimal number below 2^63, the anchor has up to 10 lower-case letters and digits; neither has leading
// zeros, so that one position has one form.
func ParseCursor(s string) (Cursor, bool) {
	digits, anchor, anchored := strings.Cut(s, "-")
	seq, ok := parseCanonical(digits, 19, 10)
	if !ok {
		return Cursor{}, false
	}
	c := Cursor{Seq: Seq(seq)}
	if anchored {
		at, ok := parseCanonical(anchor, maxAnchor, anchorBase)
		if !ok || at == 0 {
			return Cursor{}, false
		}
		c.Anchor = Anchor(at)
	}
	return c, true
}

// The lengths of a StreamEpoch. An anchor is shorter.
const (
	minStreamEpoch = maxAnchor + 1
	maxStreamEpoch = 16
)

// IsStreamEpoch reports whether s has the form of a Tip.StreamEpoch.
func IsStreamEpoch(s string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'z') {
			return false
		}
	}
	return len(s) >= minStreamEpoch && len(s) <= maxStreamEpoch
}

// parseCanonical reads a number that has no sign, no leading zeros, no upper-case letters and at most size characters.
func parseCanonical(s string, size, base int) (int64, bool) {
	if s == "" || len(s) > size || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'z') {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, base, 64)
	return n, err == nil
}
