package chunk

import "iter"

// The walk over text that checkGrammar has accepted, without white space around
// it. Anything else may not be given to it.

// elements yields the elements of an array.
func elements(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := skipSpace(text, 1); i < len(text) && text[i] != ']'; {
			end := skipValue(text, i)
			if !yield(text[i:end]) {
				return
			}
			i = skipComma(text, end)
		}
	}
}

// membersOf yields the members of an object.
func membersOf(text []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		for i := skipSpace(text, 1); i < len(text) && text[i] != '}'; {
			var m member
			nameEnd := skipString(text, i)
			m.name = span{i + 1, nameEnd - 1}
			m.value.start = skipSpace(text, skipSpace(text, nameEnd)+1) // behind the colon
			m.value.end = skipValue(text, m.value.start)
			if !yield(m) {
				return
			}
			i = skipComma(text, m.value.end)
		}
	}
}

func skipComma(text []byte, i int) int {
	i = skipSpace(text, i)
	if i < len(text) && text[i] == ',' {
		i = skipSpace(text, i+1)
	}
	return i
}

// skipValue returns the end of the value that starts at i.
func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i = skipPlain(text, i, depth)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// skipPlain passes a number or literal, or, inside a container, everything up
// to the next thing that matters.
func skipPlain(text []byte, i, depth int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '"', '{', '[', '}', ']':
			return i
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// skipString returns the place behind the closing quote of the string at i.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
