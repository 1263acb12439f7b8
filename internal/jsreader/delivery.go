package jsreader

import "strings"

// delivery has the values in the reply subject of a delivered message.
type delivery struct {
	count    uint64 // number of deliveries of the message, 1 for the first
	seq      uint64 // in the stream
	consumed uint64 // in the consumer: 1, 2, 3 … without a gap
	stored   int64  // Unix nanoseconds
	pending  uint64 // messages of the filter that come after it
}

// parseDelivery reads the reply subject of a delivered message, which has one of two forms:
//
//	$JS.ACK.<stream>.<consumer>.<count>.<seq>.<consumed>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<count>.<seq>.<consumed>.<time>.<pending>[.<more>]
func parseDelivery(reply string) (delivery, bool) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return delivery{}, false
	}
	names := 2
	switch n := strings.Count(rest, ".") + 1; {
	case n >= 9:
		names = 4
	case n != 7:
		return delivery{}, false
	}
	for range names {
		_, rest, _ = strings.Cut(rest, ".")
	}
	var numbers [5]uint64
	for i := range numbers {
		var token string
		token, rest, _ = strings.Cut(rest, ".")
		if numbers[i], ok = parseNumber(token); !ok {
			return delivery{}, false
		}
	}
	return delivery{
		count:    numbers[0],
		seq:      numbers[1],
		consumed: numbers[2],
		stored:   int64(numbers[3]),
		pending:  numbers[4],
	}, true
}

// parseNumber is strconv.ParseUint without an error value, which would be the only allocation of the hot path.
func parseNumber(s string) (n uint64, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 || n > (1<<63)/10 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, s != ""
}
