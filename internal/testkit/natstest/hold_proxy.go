package natstest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// HoldProxy is a Proxy that holds what a client sends from a certain message on, as a network that delivers a part of it late.
type HoldProxy struct {
	*Proxy

	mu     sync.Mutex // guards the fields below
	next   *Hold
	closed chan struct{}
}

// Hold is a message that a HoldProxy holds.
type Hold struct {
	Held <-chan struct{} // closed when the message has arrived at the proxy

	match    func(message string) bool
	held     chan struct{}
	released chan struct{}
	release  sync.Once
}

// StartHoldProxy starts a HoldProxy in front of the server at serverURL. It ends with the test.
func StartHoldProxy(tb testing.TB, serverURL string) *HoldProxy {
	tb.Helper()
	h := &HoldProxy{closed: make(chan struct{})}
	h.Proxy = startProxy(tb, serverURL, func(r io.Reader) io.Reader { return r }, func(requests io.Reader) io.Reader {
		return &holdingReader{h: h, from: bufio.NewReader(requests)}
	})
	tb.Cleanup(func() { close(h.closed) }) // before the end of the proxy
	return h
}

// Hold holds the next message for which match returns true, and all that follows on its connection, until Release. match gets the message as on the
// wire. If the client closes the connection, the server gets what is held nevertheless. A second call replaces one whose message has not arrived.
func (h *HoldProxy) Hold(match func(message string) bool) *Hold {
	held := make(chan struct{})
	n := &Hold{Held: held, match: match, held: held, released: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = n
	return n
}

// Release forwards the message and those after it. A second call does nothing.
func (n *Hold) Release() { n.release.Do(func() { close(n.released) }) }

// pass blocks while message is held.
func (h *HoldProxy) pass(message string) {
	h.mu.Lock()
	n := h.next
	matches := n != nil && n.match(message)
	if matches {
		h.next = nil
	}
	h.mu.Unlock()
	if !matches {
		return
	}
	close(n.held)
	select {
	case <-n.released:
	case <-h.closed:
	}
}

// holdingReader is the client's side of one connection as the server reads it.
type holdingReader struct {
	h     *HoldProxy
	from  *bufio.Reader
	ready string // read next
}

func (r *holdingReader) Read(b []byte) (int, error) {
	if r.ready == "" {
		message, err := readRequest(r.from)
		if err != nil {
			return 0, err
		}
		if strings.HasPrefix(message, "HPUB ") || strings.HasPrefix(message, "PUB ") {
			r.h.pass(message)
		}
		r.ready = message
	}
	n := copy(b, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// readRequest reads one protocol message of a client.
func readRequest(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "PUB" && words[0] != "HPUB" {
		return line, nil
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		return "", fmt.Errorf("malformed message line %q", line)
	}
	payload := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(from, payload); err != nil {
		return "", err
	}
	return line + string(payload), nil
}
