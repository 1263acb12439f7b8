package chunk

import (
	"iter"
	"slices"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// The functions below process what every reader of the log returns: iter.Seq2[Record, error], records with nil errors, then at most one error, last. Each
// keeps order and sequence, passes on an error, and stops its source when the consumer stops.

// Filter keeps the records for which keep returns true.
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

// FilterType keeps the records of these types. It does not read their bodies.
func FilterType(records iter.Seq2[Record, error], types ...Type) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return slices.Contains(types, r.Type) })
}

// ExcludeTypes drops the records of these types. It does not read their bodies.
func ExcludeTypes(records iter.Seq2[Record, error], types ...Type) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return !slices.Contains(types, r.Type) })
}

// FilterAgent keeps the records of these agents, by agentId. It reads the base members only and drops records without them.
func FilterAgent(records iter.Seq2[Record, error], agentIDs ...string) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return baseIn(r.Data, baseAgentID, agentIDs) })
}

// FilterAgentType keeps the records of agents of these types, by agentType. It reads the base members only and drops records without them.
func FilterAgentType(records iter.Seq2[Record, error], agentTypes ...string) iter.Seq2[Record, error] {
	return Filter(records, func(r Record) bool { return baseIn(r.Data, baseAgentType, agentTypes) })
}

// baseIn reports whether a base member is one of wanted. It does not check the rest: a filter does not reject records.
func baseIn(data []byte, base int, wanted []string) bool {
	for name, value := range rawjson.Members(data) {
		if name.Is(baseNames[base]) {
			return len(value) > 0 && value[0] == '"' && slices.Contains(wanted, string(rawjson.Text(value).Bytes()))
		}
	}
	return false
}

// Take ends after n records. It does not request another one from its source; if n is 0 or less it requests none.
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

// Skip drops the first n records. It passes on an error among them.
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

// CollectText joins the text_delta pieces of all agents in the stream. On an error it returns the text before it.
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
	if len(text) >= 3 && isLow(rawjson.SurrogateAt(piece)) {
		end := len(text) - 3
		return append(text[:end], Concat(string(text[end:]), piece)...)
	}
	return append(text, piece...)
}

// CollectAll returns the records. On an error it returns the records before it. The result grows with the stream: for a stream without end, use Take first.
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
