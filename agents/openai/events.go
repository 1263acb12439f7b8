package openai

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// events are those of a stream, up to its end or to an error. The library's own
// loop would do, but it takes every member "error" of an event for the end: also
// the null that some servers write into each piece.
func events[T any](res *http.Response) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		stream := ssestream.NewDecoder(res)
		for stream.Next() {
			data := stream.Event().Data
			if bytes.HasPrefix(data, []byte("[DONE]")) {
				return
			}
			if p, ok := problemIn(data); ok {
				yield(none, &reported{p})
				return
			}
			var event T
			if err := json.Unmarshal(data, &event); err != nil {
				yield(none, err)
				return
			}
			if !yield(event, nil) {
				return
			}
		}
		if err := stream.Err(); err != nil {
			yield(none, err)
		}
	}
}
