package chat

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// From a POST to the first byte of its stream: the command is stored by then.
func BenchmarkFirstByte(b *testing.B) {
	w := newEnv(b)
	e := w.newEdge(nil)
	for n := 0; b.Loop(); n++ {
		e.base = fmt.Sprintf("/api/chat/s%d", n)
		resp, err := e.try(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
		if err != nil {
			b.Fatal(err)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, ": ") {
			b.Fatal(line, err)
		}
		if err := resp.Body.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// For comparison: one stored message.
func BenchmarkBarePublish(b *testing.B) {
	w := newEnv(b)
	for n := 0; b.Loop(); n++ {
		if _, err := w.JS.Publish(b.Context(), fmt.Sprintf("tr.commands.acme.%s.s%d", agentType, n), []byte("{}")); err != nil {
			b.Fatal(err)
		}
	}
}
