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

// A Fate is what becomes of one delivery on its way to the client.
type Fate int

// The fates. The first is the one of everything that is no delivery.
const (
	Deliver Fate = iota // it arrives
	Lose                // it does not
	Double              // it arrives twice
	Swap                // it arrives behind what the server says next
	Hide                // it does not arrive, and the numbers of its consumer do not tell
	fates
)

// Delivery is a message that a consumer of a stream hands to a client.
type Delivery struct {
	Subject string // of the message in the stream
	Head    string // its header, as it stands on the wire: every line with its end
}

// Mangler is a Proxy that reads what the server says and does to single
// deliveries what a Proxy does to bytes. TCP never loses a message out of the
// middle; a server, a route or a client library with a full buffer does.
type Mangler struct {
	*Proxy

	mu     sync.Mutex // guards the fields below
	rule   func(Delivery) Fate
	loses  func(answer []byte) bool
	counts [fates]int
}

// StartMangler starts a Mangler before the server at serverURL. It delivers
// everything until Mangle is called, and ends with the test.
func StartMangler(tb testing.TB, serverURL string) *Mangler {
	tb.Helper()
	m := &Mangler{loses: func([]byte) bool { return false }}
	m.Honest()
	m.Proxy = startProxy(tb, serverURL, func(replies io.Reader) io.Reader {
		return &mangled{m: m, from: bufio.NewReader(replies), hidden: make(map[string]uint64)}
	})
	return m
}

// Mangle lets rule decide about each delivery from now on, over all connections
// together and one at a time.
func (m *Mangler) Mangle(rule func(Delivery) Fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rule = rule
}

// Mute lets rule decide, like that of Mangle, which answers are lost: those of the
// JetStream API, and those to who stores a message.
func (m *Mangler) Mute(rule func(answer []byte) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loses = rule
}

// Honest ends the mangling of deliveries. What is hidden stays hidden.
func (m *Mangler) Honest() { m.Mangle(func(Delivery) Fate { return Deliver }) }

// Count is how many deliveries met a fate so far.
func (m *Mangler) Count(f Fate) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[f]
}

func (m *Mangler) judge(d Delivery) Fate {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.rule(d)
	m.counts[f]++
	return f
}

func (m *Mangler) mutes(answer []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loses(answer)
}

// mangled is what the client of one connection gets to read.
type mangled struct {
	m      *Mangler
	from   *bufio.Reader
	ready  []byte            // to be read next
	late   []byte            // swapped with what comes next
	hidden map[string]uint64 // deliveries hidden so far, by subscription
}

func (r *mangled) Read(b []byte) (int, error) {
	for len(r.ready) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// next reads one word of the server.
func (r *mangled) next() error {
	o, err := readOp(r.from)
	if err != nil {
		return err
	}
	fate := Deliver
	switch {
	case o.answer() && r.m.mutes(o.payload):
		return nil
	case o.delivery():
		fate = r.m.judge(Delivery{Subject: o.subject, Head: string(o.payload[:o.headed])})
	}
	if fate == Hide {
		r.hidden[o.sid]++
	}
	if n := r.hidden[o.sid]; n > 0 {
		o.renumber(n)
	}
	switch fate {
	case Lose, Hide:
		return nil
	case Swap:
		if r.late == nil {
			r.late = o.wire()
			return nil
		}
	}
	r.ready = append(o.wire(), r.late...)
	r.late = nil
	if fate == Double {
		r.ready = append(r.ready, o.wire()...)
	}
	return nil
}

// op is one word of the server: a line, and the payload of MSG and HMSG.
type op struct {
	line    string // as it came, with its end; for a message the fields below stand for it
	subject string
	sid     string // of the client's subscription
	reply   string
	headed  int    // length of the header within payload, 0 for MSG
	payload []byte // nil when this is no message
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
		return op{}, fmt.Errorf("a message of no form: %q", line)
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
		if o.headed, err = strconv.Atoi(words[len(words)-2]); err != nil {
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
	if o.headed > 0 {
		b.WriteByte('H')
	}
	fmt.Fprintf(&b, "MSG %s %s ", o.subject, o.sid)
	if o.reply != "" {
		b.WriteString(o.reply + " ")
	}
	if o.headed > 0 {
		fmt.Fprintf(&b, "%d ", o.headed)
	}
	fmt.Fprintf(&b, "%d\r\n%s\r\n", len(o.payload), o.payload)
	return b.Bytes()
}

const ackPrefix = "$JS.ACK."

// delivery reports whether this is a message of a stream: it says where it can
// be acknowledged.
func (o *op) delivery() bool { return strings.HasPrefix(o.reply, ackPrefix) }

// answer reports whether this is one to a question: it comes to an inbox, and is
// nothing but its body.
func (o *op) answer() bool {
	return o.payload != nil && o.headed == 0 && !o.delivery() && strings.HasPrefix(o.subject, nats.InboxPrefix)
}

// renumber takes n from what a consumer says about its own deliveries: in the
// reply of each, and in its heartbeats.
func (o *op) renumber(n uint64) {
	if o.delivery() {
		words := strings.Split(o.reply, ".")
		at := 6 // $JS ACK stream consumer deliveries sequence number time pending
		if len(words) > 9 {
			at = 8 // with domain and account before the stream
		}
		words[at] = less(words[at], n)
		o.reply = strings.Join(words, ".")
		return
	}
	const field = "Nats-Last-Consumer: "
	head := string(o.payload[:o.headed])
	before, rest, found := strings.Cut(head, field)
	if !found {
		return
	}
	number, rest, _ := strings.Cut(rest, "\r\n")
	head = before + field + less(number, n) + "\r\n" + rest
	o.payload = append([]byte(head), o.payload[o.headed:]...)
	o.headed = len(head)
}

// less is number - n; what is no number stays as it is.
func less(number string, n uint64) string {
	v, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return number
	}
	return strconv.FormatUint(v-n, 10)
}
