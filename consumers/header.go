package consumers

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

// typeOf finds the type in a header without parsing the rest. Names of attributes may come in any case; those of this project are lower case.
func typeOf(header nats.Header) chunk.Type {
	const name = "ce-type"
	if values := header[name]; len(values) == 1 {
		return chunk.Type(values[0])
	}
	for key, values := range header {
		if len(key) == len(name) && len(values) == 1 && strings.EqualFold(key, name) {
			return chunk.Type(values[0])
		}
	}
	return ""
}
