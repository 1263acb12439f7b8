package sse_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tailrace/tailrace/internal/sse"
)

// A handler that counts and resumes at the client's position.
func Example() {
	counter := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, err := sse.ReadCursors(r.Header, r.URL.Query(), 1)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out := sse.NewWriter(w, 10*time.Second)
		if err := out.Open(0); err != nil {
			panic(http.ErrAbortHandler)
		}
		for n := after[0].Seq + 1; n <= 3; n++ {
			if err := out.Event(sse.Event{ID: fmt.Sprint(n), Data: []byte("tick")}); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	})
	server := httptest.NewServer(counter)
	defer server.Close()

	resp, err := http.Get(server.URL + "?after=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Header.Get("Content-Type"))
	body := make([]byte, 64)
	n, _ := resp.Body.Read(body)
	fmt.Printf("%q\n", body[:n])
	// Output:
	// text/event-stream
	// "id: 3\ndata: tick\n\n"
}
