package projector_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// A Reader returns the exact state without a Runner: here the store is empty, and the Reader folds the log alone.
func ExampleReader() {
	log, store := storetest.NewLog(), storetest.NewMemory() // in production: consumers.Reader, jssnapshots.Store
	session := chunk.RootSession("acme", "s1")
	log.AppendRaw(session, chunk.TypeRunStarted, []byte(`{"type":"run_started","agentId":"s1","agentType":"cook","timestamp":1,"step":0,"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Soup?"}]}`))
	log.AppendRaw(session, chunk.TypeStreamEnd, []byte(`{"type":"stream_end","agentId":"s1","agentType":"cook","timestamp":2,"step":0,"streamId":"s1"}`))

	reader := projector.NewReader(store, log)
	snap, err := reader.Snapshot(context.Background(), session)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(snap.Status, snap.Position.Seq, snap.Run.ID)
	_, err = reader.Snapshot(context.Background(), chunk.RootSession("acme", "s2"))
	fmt.Println(errors.Is(err, chunk.ErrUnknownSession))
	// Output:
	// ended 2 r1
	// true
}
