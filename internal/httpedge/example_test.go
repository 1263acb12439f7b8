package httpedge_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// An edge over a log, and a client that has received the first chunk of a session.
func Example() {
	log := memlog.New() // in production, a consumers.Reader
	s := chunk.RootSession("default", "s1")
	log.Append(s, chunk.TypeTextDelta, `"delta":"Hel"`)
	log.Append(s, chunk.TypeTextDelta, `"delta":"lo"`)
	log.Append(s, chunk.TypeStreamEnd, `"streamId":"s1"`)

	none, err := authn.NewNone("default") // in production, an auth.Chain: None is for a listener on loopback
	if err != nil {
		fmt.Println(err)
		return
	}
	edge, err := httpedge.New(log, newSnapshots(log, nil), httpedge.Config{Authenticator: none})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		if err := edge.Run(ctx); err != nil {
			fmt.Println(err)
		}
	})
	server := httptest.NewServer(edge)
	defer server.Close()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/sessions/s1/events", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Last-Event-ID", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	_, events, _ := bytes.Cut(body, []byte("\n\n"))                     // the first event sets the reconnect delay
	fmt.Printf("%s%v\n", chunktest.WithoutAnchors(string(events)), err) // the ids depend on when the log stored the records
	// Output:
	// id: 2
	// data: {"type":"chunk","chunk":{"type":"text_delta","agentId":"s1","agentType":"tester","timestamp":1700000000000,"step":1,"delta":"lo"},"sequence":2}
	//
	// id: 3
	// data: {"type":"end"}
	//
	// <nil>
}
