package openai

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// events returns the events of a stream up to its end or an error; done is set if [DONE] ended it. The library's own loop treats every member
// "error" as an error, including the null that some servers send with every piece.
func events[T any](res *http.Response, done *bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		stream := ssestream.NewDecoder(res)
		for stream.Next() {
			data := stream.Event().Data
			if bytes.HasPrefix(data, []byte("[DONE]")) {
				*done = true
				return
			}
			if p, ok := endpointErrorIn(data); ok {
				yield(none, &eventError{p})
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
