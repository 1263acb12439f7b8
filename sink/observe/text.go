package observe

import (
	"encoding/binary"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/sink/row"
)

// pieces are consecutive pieces of text.
type pieces struct {
	text  []byte // of all pieces, as the view shows them
	sizes []byte // of each piece in numbers of variable length: before the view, and in text
	total int    // before the view
}

func (p *pieces) add(shown string, size int) {
	p.text = append(p.text, shown...)
	p.total += size
	p.sizes = binary.AppendUvarint(p.sizes, uint64(size))
	p.sizes = binary.AppendUvarint(p.sizes, uint64(len(shown)))
}

// each yields the pieces with their sizes before the view.
func (p *pieces) each(yield func(shown string, size int) bool) {
	text := p.text
	for sizes := p.sizes; len(sizes) > 0; {
		size, n := binary.Uvarint(sizes)
		length, m := binary.Uvarint(sizes[n:])
		if !yield(string(text[:length]), int(size)) {
			return
		}
		sizes, text = sizes[n+m:], text[length:]
	}
}

// join appends a piece of WTF-8 to a text. Two halves of a surrogate pair become one character.
func join(text []byte, piece string) []byte {
	if n := len(text); n >= 3 && len(piece) >= 3 && text[n-3] == 0xED && piece[0] == 0xED {
		return append(text[:n-3], chunk.Concat(string(text[n-3:]), piece)...)
	}
	return append(text, piece...)
}

// section is the text of a step, or between two steps.
type section struct {
	from         chunk.Ordinal // its text is in the entries from this one
	stored, size int           // bytes as shown, and before the view
	cut          bool          // it is longer: the sizes do not count the rest
}

func (c *section) isFull() bool { return c.size >= maxContent }

// addText adds the piece of text of the present record, unless it is before the first run.
func (s *session) addText() {
	f := s.f
	if s.turn == 0 {
		return
	}
	isFirst := s.awaitsOutput()
	if !isFirst && s.section.isFull() {
		s.section.cut = true
		return
	}
	if !f.decode() {
		return
	}
	b, _ := chunk.As[chunk.TextDelta](f.c)
	shown := s.fit(shownBody[chunk.TextDelta](&f.record).Delta)
	if n := len(s.entries); !isFirst && n > 0 {
		if last := &s.entries[n-1]; last.pieces != nil && last.last+1 == f.rec.Ordinal {
			last.pieces.add(shown, len(b.Delta))
			last.last = f.rec.Ordinal
			s.section.stored += len(shown)
			s.section.size += len(b.Delta)
			s.content += len(shown)
			return
		}
	}
	e := f.newEntry(s)
	e.body, e.pieces = chunk.TextDelta{}, &pieces{}
	e.pieces.add(shown, len(b.Delta))
	s.push(e)
}

// fit returns the beginning of a piece for which the section has space.
func (s *session) fit(piece string) string {
	space := max(0, maxContent-s.section.stored)
	if len(piece) <= space {
		return piece
	}
	s.section.cut = true
	for space > 0 && !utf8.RuneStart(piece[space]) {
		space--
	}
	return piece[:space]
}

// takeText ends the section and returns its text, and false if it has none.
func (s *session) takeText() (text []byte, of section, ok bool) {
	of = s.section
	s.section = section{from: s.e.ordinal}
	if of.size == 0 {
		return nil, of, false
	}
	n := len(s.entries)
	for n > 0 && s.entries[n-1].ordinal >= of.from {
		n--
	}
	for i := range s.entries[n:] {
		p := s.entries[n+i].pieces
		if p == nil {
			continue
		}
		of.cut = of.cut || p.total > 0 && len(p.sizes) == 0 // its content was dropped
		for piece := range p.each {
			text = join(text, piece)
		}
	}
	return text, of, true
}

func quoted(text []byte) row.JSON {
	if len(text) == 0 {
		return ""
	}
	return row.JSON(rawjson.AppendQuoted(nil, text))
}

// contentBytes returns the bytes of the content of e.
func (e *entry) contentBytes() int {
	n := len(e.text) + len(e.meta)
	if e.value != nil {
		n += len(e.value.json)
	}
	if e.pieces != nil {
		n += len(e.pieces.text)
	}
	return n
}

// dropContent forgets the values and the text of e, and returns their bytes. Rows that are written later are without them.
func (e *entry) dropContent() (n int) {
	if v := e.value; v != nil && v.json != "" {
		n += len(v.json)
		v.json, v.cut = "", true
	}
	if p := e.pieces; p != nil {
		n += len(p.text)
		e.pieces = &pieces{total: p.total}
	}
	return n
}
