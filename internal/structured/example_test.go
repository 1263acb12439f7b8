package structured_test

import (
	"fmt"

	"github.com/tailrace/tailrace/internal/structured"
)

func Example() {
	var state structured.State
	for _, chunk := range []string{
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"set","path":"title","value":"Tides"}`,
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"append","path":"rows","items":[{"h":1.50}]}`,
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"text-delta","path":"rows.0.note","delta":"low "}`,
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"text-delta","path":"rows","delta":"?"}`,
		`{"type":"structured-data","streamId":"s","dataType":"report","kind":"text-delta","path":"rows.0.note","delta":"water"}`,
	} {
		if err := state.Apply([]byte(chunk)); err != nil {
			fmt.Println("refused:", err)
		}
	}
	for stream := range state.Streams() {
		fmt.Println(string(stream.AppendShown(nil)))
	}
	// Output:
	// refused: stream "s", path "rows" at "rows": want a string, got an array
	// {"streamId":"s","dataType":"report","status":"streaming","data":{"title":"Tides","rows":[{"h":1.50,"note":"low water"}]}}
}
