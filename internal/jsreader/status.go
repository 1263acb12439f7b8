package jsreader

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

const (
	statusHeader      = "Status"
	descriptionHeader = "Description"
)

// statusOf returns the status of a message that the server sent about a request, and "" for a message of the stream.
func statusOf(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	values := m.Header[statusHeader]
	if len(values) == 0 || m.Reply != "" {
		return "" // a stored message may have such a header of its own, but never without a reply subject
	}
	return values[0]
}

// unserved returns the number of messages of an ended request that the server will not deliver.
func unserved(m *nats.Msg) int {
	n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
