package natstest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// A Fault is what a FaultProxy does to one delivery to the client.
type Fault int

// The faults. Deliver also applies to everything that is not a delivery.
const (
	Deliver      Fault = iota // forwarded
	Drop                      // lost
	Duplicate                 // forwarded twice
	Reorder                   // forwarded after the next protocol message of the server
	DropSilently              // lost, and the consumer sequences are adjusted so that they show no gap
	faultKinds
)

// Delivery is a message that a consumer of a stream delivers to a client.
type Delivery struct {
	Subject string // of the message in the stream
	Header  string // its header as on the wire, with the line ends
}

// FaultProxy is a Proxy that parses the protocol messages of the server and applies faults to single deliveries. TCP never
// loses a message from the middle of a connection; a server, a route or a client library with a full buffer does.
type FaultProxy struct {
	*Proxy

	mu           sync.Mutex // guards the fields below
	rule         func(Delivery) Fault
	dropResponse func(answer []byte) bool
	counts       [faultKinds]int
}

// StartFaultProxy starts a FaultProxy in front of the server at serverURL. It forwards everything until SetDeliveryFaults is
// called, and ends with the test.
func StartFaultProxy(tb testing.TB, serverURL string) *FaultProxy {
	tb.Helper()
	m := &FaultProxy{dropResponse: func([]byte) bool { return false }}
	m.Reset()
	m.Proxy = startProxy(tb, serverURL, func(replies io.Reader) io.Reader {
		return &faultyReader{m: m, from: bufio.NewReader(replies), hidden: make(map[string]uint64)}
	}, func(r io.Reader) io.Reader { return r })
	return m
}

// SetDeliveryFaults sets the rule that selects the fault of each delivery on all connections. The calls of rule are serialized.
func (m *FaultProxy) SetDeliveryFaults(rule func(Delivery) Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rule = rule
}

// SetResponseFaults sets the rule that selects the responses to drop: those of the JetStream API, direct
// gets with their headers too, and publish acknowledgements. The calls of rule are serialized.
func (m *FaultProxy) SetResponseFaults(rule func(answer []byte) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropResponse = rule
}

// Reset ends the faults of deliveries. The consumer sequences stay adjusted for the messages dropped silently.
func (m *FaultProxy) Reset() { m.SetDeliveryFaults(func(Delivery) Fault { return Deliver }) }

// Count returns the number of deliveries so far with fault f.
func (m *FaultProxy) Count(f Fault) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[f]
}

func (m *FaultProxy) faultFor(d Delivery) Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.rule(d)
	m.counts[f]++
	return f
}

func (m *FaultProxy) dropsResponse(answer []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropResponse(answer)
}

// faultyReader is the server's side of one connection as the client reads it.
type faultyReader struct {
	m         *FaultProxy
	from      *bufio.Reader
	ready     []byte            // read next
	reordered []byte            // delivery held back until after the next protocol message
	hidden    map[string]uint64 // deliveries dropped silently so far, by subscription
}

func (r *faultyReader) Read(b []byte) (int, error) {
	for len(r.ready) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// next reads one protocol message of the server.
func (r *faultyReader) next() error {
	o, err := readOp(r.from)
	if err != nil {
		return err
	}
	fault := Deliver
	switch {
	case o.isResponse() && r.m.dropsResponse(o.payload):
		return nil
	case o.isDelivery():
		fault = r.m.faultFor(Delivery{Subject: o.subject, Header: string(o.payload[:o.headerLen])})
	}
	if fault == DropSilently {
		r.hidden[o.sid]++
	}
	if n := r.hidden[o.sid]; n > 0 {
		o.renumber(n)
	}
	switch fault {
	case Drop, DropSilently:
		return nil
	case Reorder:
		if r.reordered == nil {
			r.reordered = o.wire()
			return nil
		}
	}
	r.ready = append(o.wire(), r.reordered...)
	r.reordered = nil
	if fault == Duplicate {
		r.ready = append(r.ready, o.wire()...)
	}
	return nil
}

// op is one protocol message of the server: a line, and the payload of MSG and HMSG.
type op struct {
	line      string // as received, with its end; messages use the fields below instead
	subject   string
	sid       string // subscription id of the client
	reply     string
	headerLen int    // length of the header within payload, 0 for MSG
	payload   []byte // nil if it is not a message
}

func readOp(from *bufio.Reader) (op, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return op{}, err
	}
	words := strings.Fields(line)
	numbers := 0
	switch {
	case len(words) == 0:
	case words[0] == "MSG":
		numbers = 1
	case words[0] == "HMSG":
		numbers = 2
	}
	if numbers == 0 {
		return op{line: line}, nil
	}
	if n := len(words) - numbers; n < 3 || n > 4 {
		return op{}, fmt.Errorf("malformed message line %q", line)
	}
	o := op{subject: words[1], sid: words[2]}
	if len(words)-numbers == 4 {
		o.reply = words[3]
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return op{}, err
	}
	if numbers == 2 {
		if o.headerLen, err = strconv.Atoi(words[len(words)-2]); err != nil {
			return op{}, err
		}
	}
	o.payload = make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(from, o.payload); err != nil {
		return op{}, err
	}
	o.payload = o.payload[:size]
	return o, nil
}

func (o *op) wire() []byte {
	if o.payload == nil {
		return []byte(o.line)
	}
	var b bytes.Buffer
	if o.headerLen > 0 {
		b.WriteByte('H')
	}
	fmt.Fprintf(&b, "MSG %s %s ", o.subject, o.sid)
	if o.reply != "" {
		b.WriteString(o.reply + " ")
	}
	if o.headerLen > 0 {
		fmt.Fprintf(&b, "%d ", o.headerLen)
	}
	fmt.Fprintf(&b, "%d\r\n%s\r\n", len(o.payload), o.payload)
	return b.Bytes()
}

const ackPrefix = "$JS.ACK."

// isDelivery reports whether this is a message of a stream: its reply subject is an acknowledgement subject.
func (o *op) isDelivery() bool { return strings.HasPrefix(o.reply, ackPrefix) }

// isResponse reports whether this is the response to a request: it has an inbox subject and no header.
func (o *op) isResponse() bool {
	if o.payload == nil || o.isDelivery() || !strings.HasPrefix(o.subject, nats.InboxPrefix) {
		return false
	}
	// A response to a direct get has one of these headers, the status of a pull has neither.
	header := o.payload[:o.headerLen]
	return o.headerLen == 0 || bytes.Contains(header, []byte("Nats-Sequence:")) || bytes.Contains(header, []byte("Nats-UpTo-Sequence:"))
}

// renumber subtracts n from the consumer sequence in the reply subject of a delivery, or in a heartbeat.
func (o *op) renumber(n uint64) {
	if o.isDelivery() {
		words := strings.Split(o.reply, ".")
		at := 6 // $JS ACK stream consumer deliveries sequence number time pending
		if len(words) > 9 {
			at = 8 // with domain and account in front of the stream
		}
		words[at] = subtract(words[at], n)
		o.reply = strings.Join(words, ".")
		return
	}
	const field = "Nats-Last-Consumer: "
	head := string(o.payload[:o.headerLen])
	before, rest, found := strings.Cut(head, field)
	if !found {
		return
	}
	number, rest, _ := strings.Cut(rest, "\r\n")
	head = before + field + subtract(number, n) + "\r\n" + rest
	o.payload = append([]byte(head), o.payload[o.headerLen:]...)
	o.headerLen = len(head)
}

// subtract returns number - n, or number itself if it is not a number.
func subtract(number string, n uint64) string {
	v, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return number
	}
	return strconv.FormatUint(v-n, 10)
}
