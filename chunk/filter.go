package chunk

import (
	"iter"
	"slices"
)

// The stream helpers work on what every reader of the log gives:
// iter.Seq2[Record, error], records with nil errors, then at most one error,
// last. Each keeps order and sequence, passes an error on, and lets its source
// stop when the consumer stops.

// Filter keeps the records that keep wants.
func Filter(records iter.Seq2[Record, error], keep func(Record) bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for rec, err := range records {
			if err != nil {
				yield(rec, err)
				return
			}
			if keep(rec) && !yield(rec, nil) {
				return
			}
		}
	}
}

// FilterType keeps the records of these types. It does not look into them.
func FilterType(records iter.Seq2[Record, error], types ...Type) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return slices.Contains(types, r.Type) })
}

// ExcludeTypes drops the records of these types. It does not look into them.
func ExcludeTypes(records iter.Seq2[Record, error], types ...Type) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return !slices.Contains(types, r.Type) })
}

// FilterAgent keeps the records that one of these agents produced, by agentId.
// It reads the base members only; a record that has none belongs to nobody.
func FilterAgent(records iter.Seq2[Record, error], agentIDs ...string) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return baseIn(r.Data, baseAgentID, agentIDs) })
}

// FilterAgentType keeps the records of agents of these types, by agentType. It
// reads the base members only; a record that has none belongs to nobody.
func FilterAgentType(records iter.Seq2[Record, error], agentTypes ...string) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return baseIn(r.Data, baseAgentType, agentTypes) })
}

// baseIn looks up one base member without judging the rest: a filter is no
// place to refuse a record.
func baseIn(data []byte, base int, wanted []string) bool {
	var room [16]member
	data = trimSpace(data)
	out, err := trace(data, room[:])
	if err != nil {
		return false
	}
	d := decoder{text: data}
	d.takeBase(out.members)
	text, err := d.baseText(base)
	return err == nil && slices.Contains(wanted, string(text))
}

// Take ends after n records. It does not ask its source for one more, and with
// n of 0 or less not for any.
func Take(records iter.Seq2[Record, error], n int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if n <= 0 {
			return
		}
		left := n
		for rec, err := range records {
			left--
			if !yield(rec, err) || err != nil || left == 0 {
				return
			}
		}
	}
}

// Skip leaves out the first n records. An error among them comes through.
func Skip(records iter.Seq2[Record, error], n int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		left := n
		for rec, err := range records {
			if err == nil && left > 0 {
				left--
				continue
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// CollectText joins the text_delta pieces of all agents in the stream. With an
// error it returns what came before it.
func CollectText(records iter.Seq2[Record, error]) (string, error) {
	var text []byte
	for rec, err := range FilterType(records, TypeTextDelta) {
		if err != nil {
			return string(text), err
		}
		c, err := rec.Decode()
		if err != nil {
			return string(text), err
		}
		if b, ok := As[TextDelta](c); ok {
			text = appendText(text, b.Delta)
		}
	}
	return string(text), nil
}

// appendText is Concat without copying all of text for each piece.
func appendText(text []byte, piece string) []byte {
	if len(text) >= 3 && isLow(surrogateAtStart(piece)) {
		end := len(text) - 3
		return append(text[:end], Concat(string(text[end:]), piece)...)
	}
	return append(text, piece...)
}

// CollectAll gathers the records. With an error it returns what came before it.
// It grows with the stream: for a stream without end, Take first.
func CollectAll(records iter.Seq2[Record, error]) ([]Record, error) {
	var all []Record
	for rec, err := range records {
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}
