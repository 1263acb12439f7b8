package kortyx

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/dialect"
)

// textState is the text of a run so far. The log has one text where Kortyx has blocks, so the translator joins blocks as Kortyx's reader does: with a space,
// unless one side has white space there.
type textState struct {
	deltas bool   // a text-delta was seen: a message, which repeats the text, has no effect
	block  string // of the last delta, "" if it has none
	any    bool
	space  bool // the text ends with white space
	all    strings.Builder
}

// separated returns the text of a delta of a block, with a space before it if it begins another block.
func (s *textState) separated(block, piece string) string {
	if piece == "" {
		return ""
	}
	if block != "" && s.block != "" && block != s.block && s.any && !s.space && !startsWithSpace(piece) {
		piece = " " + piece
	}
	if block != "" {
		s.block = block
	}
	s.written(piece)
	return piece
}

func (s *textState) written(piece string) {
	if piece == "" {
		return
	}
	s.all.WriteString(piece)
	r, _ := utf8.DecodeLastRuneInString(piece)
	s.any, s.space = true, isSpace(r)
}

func startsWithSpace(piece string) bool {
	r, _ := utf8.DecodeRuneInString(piece)
	return isSpace(r)
}

// isSpace reports whether JavaScript's \s matches r.
func isSpace(r rune) bool { return r == 0xFEFF || r != 0x85 && unicode.IsSpace(r) }

// blockKey returns what identifies the block of a delta, as Kortyx's reader of whole responses, which joins blocks, determines it.
func blockKey(m *dialect.Object) string {
	op, segment := m.Or("opId", ""), m.Or("segmentId", "")
	switch {
	case op != "" && segment != "":
		return op + ":" + segment
	case segment != "":
		return segment
	case op != "":
		return op
	}
	for _, name := range []string{"id", "node"} {
		if s, ok := m.Text(name); ok && s != "" {
			return s
		}
	}
	return ""
}
